package search_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type files map[string]string

// some is a folder with code and documentation.
var some = files{
	"src/auth.go": "package auth\n\n// validateToken checks a token.\n" +
		"func validateToken(token string) bool { return token != \"\" }\n",
	"src/pay.py":       "def charge(card, amount):\n    return card.debit(amount)\n",
	"docs/tokens.md":   "# Tokens\n\nHow to validate a token.\n",
	"README":           "Charge a card.\n",
	"data.csv":         "token,validate\n",
	".env":             "TOKEN=validate\n",
	".gitignore":       "/build\n",
	"build/out.go":     "package validate // token\n",
	"vendor/x/auth.go": "package token // validate\n",
	"image.go":         "token validate\x00",
}

func write(t *testing.T, dir string, with files) {
	t.Helper()
	for name, text := range with {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// open returns the tools of a folder.
func open(t *testing.T, dir string, vectors *search.Vectors) *tool.Set {
	t.Helper()
	folder, err := search.Open(dir, search.Options{Vectors: vectors})
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

// scripted returns an embedder whose server makes vectors of words, and the server.
func scripted(t *testing.T) (*openai.Embedder, *scriptmodel.Server) {
	t.Helper()
	server, err := scriptmodel.Start(scriptmodel.Script{
		Scenes: []scriptmodel.Scene{{Name: "none", Turns: []scriptmodel.Turn{{Content: "-"}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })

	e, err := openai.NewEmbedder(openai.Config{Model: "words-1", BaseURL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	return e, server
}

// embedded returns how many texts a server was asked for.
func embedded(t *testing.T, server *scriptmodel.Server) (texts int) {
	t.Helper()
	for _, r := range server.Requests() {
		var body struct{ Input []string }
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		texts += len(body.Input)
	}
	return texts
}

type object = map[string]any

func call(t *testing.T, set *tool.Set, name string, arguments object) tool.Result {
	t.Helper()
	b, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}

	called, ok := set.Get(name)
	if !ok {
		t.Fatalf("name = %v", name)
	}
	result, err := tool.Do(t.Context(), called, called.Spec().Policy, tool.Call{Arguments: b}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// C15, C16, C17, C18: the three tools find parts of files by words, and with an embedder by both; every match is a
// source with lines, a snippet and a score. What is ignored, hidden, binary or of others is not found.
func TestFinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, some)
	e, _ := scripted(t)
	for by, vectors := range map[string]*search.Vectors{
		"words": nil, "words and embeddings of words-1": search.NewVectors(e),
	} {
		set := open(t, dir, vectors)

		for _, row := range []struct {
			tool      string
			arguments object
			want      string // the first match
			of        record.SourceType
		}{
			{"search.search_code", object{"query": "token validateToken checks"}, "src/auth.go:1-4", record.SourceFile},
			{"search.search_code", object{"query": "charge card amount"}, "src/pay.py:1-2", record.SourceFile},
			{
				"search.search_documentation", object{"query": "how to validate a token"}, "docs/tokens.md:1-3",
				record.SourceDocumentation,
			},
			{"search.search_documentation", object{"query": "charge card"}, "README:1-1", record.SourceDocumentation},
			{
				"search.search_similar_code", object{"code": "def charge(card, amount):\n  return card"}, "src/pay.py:1-2",
				record.SourceFile,
			},
			{"search.search_code", object{"query": "zebra"}, "", ""},
		} {
			result := call(t, set, row.tool, row.arguments)
			if row.want == "" {
				if result.Failed || !strings.HasPrefix(result.Text, "Nothing matches.\n") || len(result.Sources) != 0 ||
					!strings.HasPrefix(result.Summary, "Found 0 matches") {
					t.Errorf("%s: %+v", by, result)
				}
				continue
			}

			if result.Failed || len(result.Sources) == 0 || !strings.HasSuffix(result.Summary, "by "+by) ||
				!json.Valid(result.Data) {
				t.Errorf("%s %v: %+v", by, row.arguments, result)
				continue
			}

			s := result.Sources[0]
			if got := fmt.Sprintf("%s:%d-%d", s.URI, s.LineStart, s.LineEnd); got != row.want || s.Type != row.of ||
				s.Score <= 0 || s.Score > 1 || s.Snippet == "" || s.Description != "Found by "+by ||
				!strings.HasPrefix(result.Text, got+" (score ") || !strings.Contains(result.Text, s.Snippet) {
				t.Errorf("%s %v: %+v", by, row.arguments, s)
			}
		}
	}
}

// C16: by words, a part that says it in fewer words comes first, and a plural is found by its singular, and the other
// way round.
func TestRanking(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{
		"a.go": "package a // drops the lease" + strings.Repeat(" of some other thing", 30) + "\n",
		"b.go": "package b // drops leases\n",
	})

	set := open(t, dir, nil)
	for _, query := range []string{"drop lease", "drops leases"} {
		result := call(t, set, "search.search_code", object{"query": query})
		if len(result.Sources) != 2 || result.Sources[0].URI != "b.go" || result.Sources[0].Score <= result.Sources[1].Score {
			t.Errorf("%s: %+v", query, result.Sources)
		}
	}
}

// C16: at most ten matches, the best first.
func TestMaxResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 30 {
		write(t, dir, files{fmt.Sprintf("f%02d.go", i): fmt.Sprintf("package apple banana x%d\n", i)})
	}

	e, _ := scripted(t)
	for _, vectors := range []*search.Vectors{nil, search.NewVectors(e)} {
		set := open(t, dir, vectors)
		for most, want := range map[int]int{0: 10, 3: 3, 100: 10, -1: 10} {
			result := call(t, set, "search.search_code", object{"query": "package apple banana", "max_results": most})
			if len(result.Sources) != want {
				t.Fatalf("%d: %d matches", most, len(result.Sources))
			}
			for i, s := range result.Sources {
				if i > 0 && s.Score > result.Sources[i-1].Score || s.Score <= 0 || s.Score > 1 {
					t.Errorf("%d: %+v", i, s)
				}
			}
		}
	}
}

// What did not change is not embedded again, wherever it is, also by other tools and for other folders; the
// same text is embedded once.
func TestUnchangedIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a.go": "package one\n", "b.go": "package two\n", "same.go": "package one\n", "c.md": "three\n"})
	e, server := scripted(t)
	vectors := search.NewVectors(e)
	set := open(t, dir, vectors)

	for _, step := range []struct {
		change func()
		tool   string
		want   int // texts that are embedded so far
	}{
		{func() {}, "search.search_code", 3}, // two texts and the query
		{func() {}, "search.search_code", 3},
		{func() {}, "search.search_documentation", 4},
		{func() { write(t, dir, files{"b.go": "package four\n"}) }, "search.search_code", 5},
		{func() { _ = os.Rename(filepath.Join(dir, "b.go"), filepath.Join(dir, "d.go")) }, "search.search_code", 5},
		{func() { set = open(t, dir, vectors) }, "search.search_code", 5},
		{func() { write(t, dir, files{"b.go": "package two\n"}) }, "search.search_code", 5},
	} {
		step.change()
		before := embedded(t, server)
		result := call(t, set, step.tool, object{"query": "which package"})
		if result.Failed {
			t.Fatalf("call = %+v", result)
		}

		if e := result.Embedding; e.Model != "words-1" || e.Texts != step.want-before || e.Hits != len(result.Sources) ||
			(e.InputTokens != nil) != (e.Texts > 0) {
			t.Errorf("result.Embedding = %+v", e)
		}
		if got := embedded(t, server); got != step.want {
			t.Errorf("%d texts, want %d", got, step.want)
		}
	}
}

// Calls at once embed each text once. The query is one of them.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 100 {
		write(t, dir, files{fmt.Sprintf("f%d.go", i): fmt.Sprintf("package p%d\n", i)})
	}
	e, server := scripted(t)
	set := open(t, dir, search.NewVectors(e))
	called, _ := set.Get("search.search_code")

	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if result, err := called.Call(t.Context(),
				tool.Call{Arguments: json.RawMessage(`{"query":"package p7"}`)}); err != nil || result.Failed ||
				result.Sources[0].URI != "f7.go" {
				t.Errorf("called.Call = %+v %v", result, err)
			}
		})
	}
	group.Wait()

	if got := embedded(t, server); got != 100 || len(server.Requests()) != 2 {
		t.Errorf("%d texts in %d requests", got, len(server.Requests()))
	}
}

// Hostile texts and queries: no panics, bounded results, errors that name the field.
func TestHostile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{
		"huge.go": strings.Repeat("x", 2<<20), "line.go": "token " + strings.Repeat("ä", 300_000),
		"blank.go": strings.Repeat("\n", 100_000), "empty.go": "",
		"bad.go":  "token \xff\xfe token aaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
		"long.go": strings.Repeat("token token token\n", 1000),
	})
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd.go")); err != nil {
		t.Fatal(err)
	}

	e, _ := scripted(t)
	for _, vectors := range []*search.Vectors{nil, search.NewVectors(e)} {
		set := open(t, dir, vectors)
		for query, want := range map[string]string{
			"": "query: it is empty", " \n": "query: it is empty", strings.Repeat("x", 9000): "query: it has more than 8 KiB",
		} {
			if result := call(t, set, "search.search_code", object{"query": query}); !result.Failed || result.Text != want {
				t.Errorf("%q: %+v", query, result)
			}
		}

		for _, query := range []string{"token", "!!! ???", "\x00", "__", "root", strings.Repeat("token ", 1000)} {
			result := call(t, set, "search.search_code", object{"query": query})
			if result.Failed || len(result.Text) > tool.MaxText || !utf8.ValidString(result.Text) || len(result.Sources) > 10 ||
				!strings.Contains(result.Text, "(1 files of more than 1 MiB were not searched.)") {
				t.Errorf("%q: %.300s", query, result.Text)
			}
			for _, s := range result.Sources {
				if utf8.RuneCountInString(s.Snippet) > 500 || s.LineStart < 1 || s.LineEnd < s.LineStart || s.URI == "passwd.go" {
					t.Errorf("s = %+v", s)
				}
			}
		}
	}
}

// The lines of a match are those of its text in the file.
func TestLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "func f%d() {\n\n\tcall%d()\n\tother()\n}\n\n", i, i)
	}
	write(t, dir, files{"a.go": text.String()})
	lines := strings.Split(text.String(), "\n")
	set := open(t, dir, nil)

	for i := range 40 {
		result := call(t, set, "search.search_code", object{"query": fmt.Sprintf("call%d", i), "max_results": 1})
		if len(result.Sources) != 1 {
			t.Fatalf("call = %+v", result)
		}

		s := result.Sources[0]
		if part := strings.Join(lines[s.LineStart-1:s.LineEnd], "\n"); !strings.Contains(part, fmt.Sprintf("call%d()", i)) ||
			!strings.HasPrefix(part, s.Snippet) || !strings.HasPrefix(part, "func f") || !strings.HasSuffix(part, "}") {
			t.Errorf("%+v: %q", s, part)
		}
	}
}
