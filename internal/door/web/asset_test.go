package web_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestScriptIsSmall: our script stays below 25 kB as it is sent, and there is no other.
func TestScriptIsSmall(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("asset", "page.js"))
	if err != nil {
		t.Fatal(err)
	}

	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(script); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	if n := b.Len(); n >= 25_000 {
		t.Errorf("the script is %d bytes", n)
	}

	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if e := filepath.Ext(path); e == ".js" && path != filepath.Join("asset", "page.js") || e == ".ts" &&
			filepath.Dir(path) != filepath.Join("asset", "src") {
			t.Errorf("%s: another script", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
