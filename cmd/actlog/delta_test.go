package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// TestDeltasOfAWorker: a client of a server sees the answer of a model while it arrives at a worker, which
// is another process.
func TestDeltasOfAWorker(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("word ", 300)
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		{Content: answer, ChunkDelay: scriptmodel.Duration(10 * time.Millisecond)},
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })

	file := filepath.Join(t.TempDir(), "actlog.yaml")
	config := fmt.Sprintf("models:\n  default: {provider: openai, model: scripted, baseURL: %q, apiKey: key}\n"+
		"agents:\n  helper: {description: Helps}\n", m.URL())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	db := pgtest.Fresh(t)
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", db.URL, "--config", file, "--workers", "0")
	do := func(method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, server.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}

	started, err := io.ReadAll(do(http.MethodPost, "/api/v1/runs",
		`{"executor":"agent","input":{"agent":"helper","request":"Help."}}`).Body)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(started), `"planId":"`)
	id, _, _ = strings.Cut(id, `"`)

	events := do(http.MethodGet, "/api/v1/plans/"+id+"/events?deltas=true", "").Body
	begin(t, "work", "--database-url", db.URL, "--config", file, "--workers", "1")
	for e, err := range sse.Read(events, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "delta" {
			if !strings.Contains(e.Data, "word") || !strings.Contains(e.Data, id) {
				t.Errorf("e.Data = %s", e.Data)
			}
			return
		}
	}
	t.Error("the stream ended without a delta")
}
