package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryQueryIsUsed checks that package db has no query that no code uses.
func TestEveryQueryIsUsed(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "queries", "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of queries, %v", len(files), err)
	}

	var code strings.Builder
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "db" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") &&
			d.Name() != "..") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}

		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	name := regexp.MustCompile(`(?m)^-- name: (\w+) `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "DO NOT EDIT") {
			t.Errorf("%s is generated", file)
		}

		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if used := regexp.MustCompile(`\b(db|queries)\.` + m[1] + `\b`); !used.MatchString(code.String()) {
				t.Errorf("no code uses query %s of %s", m[1], filepath.Base(file))
			}
		}
	}
}
