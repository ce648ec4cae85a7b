package openai_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// Vectors of a real server: texts that share words are nearer.
func TestEmbed(t *testing.T) {
	t.Parallel()
	server, err := scriptmodel.Start(scriptmodel.Script{
		Scenes: []scriptmodel.Scene{{Name: "none", Turns: []scriptmodel.Turn{{Content: "-"}}}},
	}, &scriptmodel.Options{APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	e, err := openai.NewEmbedder(openai.Config{Model: "m", APIKey: "key", BaseURL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	var _ model.Embedder = e
	vectors, used, err := e.Embed(t.Context(), []string{"a token", "A token!", "zebra", ""})
	if err != nil || len(vectors) != 4 || *used.Input != 5 || used.Output != nil || e.Name() != "m" {
		t.Fatalf("len(vectors) = %v, %v", len(vectors), err)
	}

	near := func(i, j int) (sum float32) {
		for n := range vectors[i] {
			sum += vectors[i][n] * vectors[j][n]
		}
		return sum
	}
	if near(0, 1) < 0.99 || near(0, 2) > 0.01 {
		t.Errorf("near(0, 1) = %v, %v", near(0, 1), near(0, 2))
	}

	if none, _, err := e.Embed(t.Context(), nil); none != nil || err != nil || len(server.Requests()) != 1 {
		t.Errorf("none = %v, %v", none, err)
	}
	if _, err := openai.NewEmbedder(openai.Config{}); err == nil {
		t.Error("no model")
	}
}

// Answers that do not fit the texts are errors, with the kind that others have, and without the key.
func TestEmbedFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		answer string
		kind   model.Kind
	}{
		"refused": {http.StatusUnauthorized, `{"error":{"message":"bad key-12345678"}}`, model.KindAuth},
		"busy":    {http.StatusTooManyRequests, `{}`, model.KindRateLimit},
		"no JSON": {http.StatusOK, `x`, model.KindServer},
		"too few": {http.StatusOK, `{"data":[{"index":0,"embedding":[1]}]}`, model.KindServer},
		"same index": {
			http.StatusOK, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, model.KindServer,
		},
		"bad index": {
			http.StatusOK, `{"data":[{"index":0,"embedding":[1]},{"index":-1,"embedding":[1]}]}`, model.KindServer,
		},
		"no elements": {http.StatusOK, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, model.KindServer},
		"lengths": {
			http.StatusOK, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, model.KindServer,
		},
		"huge": {http.StatusOK, `{"data":[{"index":0,"embedding":[1e99]},{"index":1,"embedding":[1]}]}`, model.KindServer},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.answer)
		}))
		e, err := openai.NewEmbedder(openai.Config{
			Model: "m", APIKey: "key-12345678", BaseURL: server.URL, HTTPClient: server.Client(),
		})
		if err != nil {
			t.Fatal(err)
		}

		vectors, _, err := e.Embed(t.Context(), []string{"a", "b"})
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Kind != row.kind || vectors != nil ||
			strings.Contains(err.Error(), "12345678") {
			t.Errorf("%s: %v %v", name, vectors, err)
		}
		server.Close()
	}
}
