package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
)

// fake is an embedder that misbehaves.
type fake func(texts []string) ([][]float32, error)

func (fake) Name() string { return "fake" }
func (f fake) Embed(_ context.Context, texts []string) ([][]float32, model.Usage, error) {
	vectors, err := f(texts)
	return vectors, model.Usage{}, err
}

// slow is an embedder that answers when it is open.
type slow struct {
	open chan struct{}
	fake
}

func (s slow) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	select {
	case <-s.open:
		return s.fake.Embed(ctx, texts)
	case <-ctx.Done():
		return nil, model.Usage{}, ctx.Err()
	}
}

// same returns an embedder that makes the same vector of each text.
func same(elements ...float32) fake {
	return func(texts []string) (all [][]float32, err error) {
		for range texts {
			all = append(all, elements)
		}
		return all, nil
	}
}

// openWith returns the tools of a folder.
func openWith(t *testing.T, dir string, o search.Options) *tool.Set {
	t.Helper()
	folder, err := search.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })

	set, err := tool.NewSet(folder.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// byWordsOnly checks that a result has what is found by words, and says why there is no more.
func byWordsOnly(t *testing.T, name string, result tool.Result, why string) {
	t.Helper()
	var about struct{ By, OnlyWordsBecause string }
	if err := json.Unmarshal(result.Data, &about); err != nil {
		t.Errorf("%s: %v", name, err)
	}

	if result.Failed || len(result.Sources) == 0 || result.Sources[0].URI != "src/auth.go" ||
		result.Sources[0].Description != "Found by words" {
		t.Errorf("%s: %+v", name, result)
	}
	if !strings.Contains(result.Text, "(Searched by words only: ") || !strings.Contains(result.Text, why) ||
		!strings.HasSuffix(result.Summary, " by words only") {
		t.Errorf("%s: %s: %s, want %q", name, result.Summary, result.Text, why)
	}
	if about.By != "words" || !strings.Contains(about.OnlyWordsBecause, why) {
		t.Errorf("%s: data %s", name, result.Data)
	}
}

// What an embedder does wrong leaves what is found by words, and the result says what it was.
func TestEmbedderFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))

	for name, row := range map[string]struct {
		embedder fake
		why      string
	}{
		"fails": {func([]string) ([][]float32, error) {
			return nil, &model.Error{Kind: model.KindAuth, Message: "no key"}
		}, "embedder: "},
		"escapes": {func([]string) ([][]float32, error) {
			return nil, errors.New("a\n\x1b[2Jb" + strings.Repeat("x", 9000))
		}, "embedder: a  [2Jbxxx"},
		"zero":     {same(0, 0), "without a direction"},
		"none":     {same(), "without a direction"},
		"nan":      {same(nan, 1), "without a direction"},
		"infinite": {same(inf, 1), "without a direction"},
		"long":     {same(make([]float32, 8193)...), "more than 8192 elements"},
		"too few":  {func([]string) ([][]float32, error) { return [][]float32{{1}}, nil }, "1 vectors for 3 texts"},
		"lengths": {func(texts []string) (all [][]float32, err error) {
			for i := range texts {
				all = append(all, make([]float32, i+1))
				all[i][0] = 1
			}
			return all, nil
		}, "same number of elements"},
	} {
		result := call(t, open(t, dir, search.NewVectors(row.embedder)), "search.search_code", object{"query": "token"})
		byWordsOnly(t, name, result, row.why)
		if e := result.Embedding; e == nil || e.Model != "fake" || e.Hits != 0 || len(result.Text) > 2000 {
			t.Errorf("%s: %+v, a text of %d bytes", name, e, len(result.Text))
		}
	}
}

// What an embedder made before it failed is kept and on record, and the next search goes on from there.
func TestEmbedderFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	for i := range 200 {
		write(t, dir, files{fmt.Sprintf("f%d.go", i): fmt.Sprintf("package p%d\n", i)})
	}

	var asked atomic.Int64
	set := open(t, dir, search.NewVectors(fake(func(texts []string) ([][]float32, error) {
		if asked.Add(int64(len(texts))) == 128 {
			return nil, errors.New("cut")
		}
		return same(1, 0)(texts)
	})))

	result := call(t, set, "search.search_code", object{"query": "token"})
	byWordsOnly(t, "cut", result, "embedder: cut")
	if result.Embedding == nil || result.Embedding.Texts != 64 {
		t.Errorf("result.Embedding = %+v", result.Embedding)
	}

	result = call(t, set, "search.search_code", object{"query": "token"})
	if result.Failed || asked.Load() != 203+64 || result.Embedding.Texts != 203-64 || result.Embedding.Hits != 10 {
		t.Errorf("%s: %d texts, %+v", result.Summary, asked.Load(), result.Embedding)
	}
}

// An embedder that makes other vectors from some moment on, under the same name, is asked for all of them again.
func TestEmbedderChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	elements := []float32{1, 0}
	set := open(t, dir, search.NewVectors(fake(func(texts []string) ([][]float32, error) {
		return same(elements...)(texts)
	})))

	for _, query := range []string{"token", "a card"} {
		if result := call(t, set, "search.search_code", object{"query": query}); !strings.HasSuffix(result.Summary,
			"by words and embeddings of fake") {
			t.Errorf("%s: %+v", query, result)
		}
		elements = []float32{1, 0, 0}
	}
}

// An embedder that takes longer than the patience of the folder leaves what is found by words. A call that is ended is
// an error.
func TestEmbedderIsSlow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	e := slow{make(chan struct{}), same(1, 0)}
	set := openWith(t, dir, search.Options{Vectors: search.NewVectors(e), Patience: 50 * time.Millisecond})
	byWordsOnly(t, "slow", call(t, set, "search.search_code", object{"query": "token"}), "within 50ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	called, _ := set.Get("search.search_code")
	if _, err := called.Call(ctx, tool.Call{
		Arguments: json.RawMessage(`{"query":"token"}`),
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is ended: %v", err)
	}

	close(e.open)
	set = openWith(t, dir, search.Options{Vectors: search.NewVectors(e)})
	if result := call(t, set, "search.search_code", object{"query": "token"}); !strings.HasSuffix(result.Summary,
		"by words and embeddings of fake") {
		t.Errorf("call = %+v", result)
	}
}

// C16: by vectors, only parts with the least score count, which is 0.7 unless it is configured. If there is none, words
// alone decide.
func TestMinScore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	least := func(score float64) *float64 { return &score }
	angle := fake(func(texts []string) (all [][]float32, err error) {
		for _, text := range texts {
			if strings.Contains(text, "charge") {
				all = append(all, []float32{0.6, 0.8}) // a score of 0.8
			} else {
				all = append(all, []float32{1, 0})
			}
		}
		return all, nil
	})

	for score, want := range map[*float64]string{
		nil: "src/pay.py", least(0.7): "src/pay.py", least(0.79): "src/pay.py", least(0.81): "", least(1): "",
		least(0): "src/pay.py",
	} {
		set := openWith(t, dir, search.Options{Vectors: search.NewVectors(angle), MinScore: score})
		result := call(t, set, "search.search_code", object{"query": "pays"})
		found := ""
		for _, s := range result.Sources {
			if s.URI == "src/pay.py" && strings.Contains(s.Description, "embeddings of fake") {
				found = s.URI
			}
		}
		if found != want {
			t.Errorf("at least %v: found %q by embeddings, want %q: %+v", score, found, want, result.Sources)
		}
	}

	one := openWith(t, dir, search.Options{Vectors: search.NewVectors(same(1, 0)), MinScore: least(1)})
	if result := call(t, one, "search.search_code", object{"query": "token"}); len(result.Sources) != 2 {
		t.Errorf("the same vector is at the least score of 1: %+v", result)
	}
	for _, score := range []float64{-0.1, 1.1, math.NaN()} {
		if folder, err := search.Open(dir, search.Options{MinScore: &score}); err == nil {
			folder.Close()
			t.Errorf("a least score of %v is taken", score)
		}
	}
}

// If nothing is near enough by vectors, words alone decide, and the result says so.
func TestNothingIsNear(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	opposite := fake(func(texts []string) (all [][]float32, err error) {
		for _, text := range texts {
			all = append(all, []float32{1, 0})
			if text == "token" {
				all[len(all)-1][0] = -1
			}
		}
		return all, nil
	})

	byWordsOnly(t, "opposite", call(t, open(t, dir, search.NewVectors(opposite)), "search.search_code",
		object{"query": "token"}), "no part has a score of 0.7 by embeddings")
}

// A search sees files as they are when it is made: what changed, what has gone, and what may not be searched any more.
func TestFilesChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, _ := scripted(t)
	for name, vectors := range map[string]*search.Vectors{"words": nil, "both": search.NewVectors(e)} {
		write(t, dir, some)
		set := open(t, dir, vectors)
		find := func(query string) string {
			var found []string
			for _, s := range call(t, set, "search.search_code", object{"query": query}).Sources {
				found = append(found, fmt.Sprintf("%s:%d-%d", s.URI, s.LineStart, s.LineEnd))
			}
			return strings.Join(found, " ")
		}

		for _, step := range []struct {
			what, text, query, want string
		}{
			{"as it was", some["src/auth.go"], "validateToken", "src/auth.go:1-4"},
			{"moved down", strings.Repeat("\n", 3) + some["src/auth.go"], "validateToken", "src/auth.go:1-7"},
			{"other words", "package auth // zebra\n", "validateToken", ""},
			{"other words", "package auth // zebra\n", "zebra", "src/auth.go:1-1"},
			{"binary", "package auth // zebra\x00\n", "zebra", ""},
			{"too large", strings.Repeat("zebra\n", 200_000), "zebra", ""},
			{"as it was again", some["src/auth.go"], "validateToken", "src/auth.go:1-4"},
		} {
			write(t, dir, files{"src/auth.go": step.text})
			if got := find(step.query); got != step.want {
				t.Errorf("%s: %s: found %q, want %q", name, step.what, got, step.want)
			}
		}

		if err := os.Rename(filepath.Join(dir, "src", "auth.go"), filepath.Join(dir, "auth.key")); err != nil {
			t.Fatal(err)
		}
		if got := find("validateToken"); got != "" {
			t.Errorf("%s: a secret is found: %s", name, got)
		}
		if err := os.Remove(filepath.Join(dir, "auth.key")); err != nil {
			t.Fatal(err)
		}
	}
}
