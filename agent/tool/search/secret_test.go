package search_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
)

// S11: files that may hold secrets, and hard links, are not found, unless they are allowed.
func TestClosedFiles(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside.go")
	write(t, dir, files{
		"a.go": "package a // other\n", "home/secrets": "hunter\n", "id_ed25519": "hunter\n", "htpasswd": "hunter\n",
	})
	if err := os.WriteFile(outside, []byte("package a // hunter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(outside, filepath.Join(dir, "hard.go")); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"search.search_code", "search.search_documentation"} {
		if got := call(t, open(t, dir, nil), name, object{"query": "hunter"}); got.Failed || len(got.Sources) > 0 ||
			strings.Contains(fmt.Sprintf("%+v", got), "hunter") {
			t.Errorf("%s: %+v", name, got)
		}
	}

	folder, err := search.Open(dir, search.Options{Allow: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	set, err := tool.NewSet(folder.Tools()...)
	if err != nil {
		t.Fatal(err)
	}

	if got := call(t, set, "search.search_code", object{"query": "hunter"}); len(got.Sources) < 2 {
		t.Errorf("call = %+v", got)
	}
}
