package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
)

// Without an embedder, parts are found by their words.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nfunc validateToken() {}\n"),
		0o600); err != nil {
		fmt.Println(err)
		return
	}

	folder, err := search.Open(dir, search.Options{}) // Vectors: search.NewVectors(embedder) finds by meaning, too
	if err != nil {
		fmt.Println(err)
		return
	}
	defer folder.Close()

	set, err := tool.NewSet(folder.Tools()...)
	if err != nil {
		fmt.Println(err)
		return
	}

	t, _ := set.Get("search.search_code")
	result, err := tool.Do(context.Background(), t, t.Spec().Policy,
		tool.Call{Arguments: json.RawMessage(`{"query":"where is a token validated"}`)}, 0)
	fmt.Println(result.Summary, result.Sources[0].URI, result.Sources[0].LineStart, err)
	// Output:
	// Found 1 matches in 1 files by words a.go 1 <nil>
}
