package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/files"
)

// S11: files that may hold secrets are listed, and nothing more: no tool shows, finds, changes or makes one.
func TestSecrets(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{
		".env": "TOKEN=hunter2\n", "app/.ENV.local": "hunter2\n", "tls/server.key": "hunter2\n",
		"home/.ssh/id_rsa": "hunter2\n", "home/.aws/credentials": "hunter2\n",
		".env.example": "TOKEN=\n", "a.go": "a\n", "in/a.txt": "a\n",
	})
	if err := os.Symlink("../.env", filepath.Join(f.dir, "app", "notes.txt")); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{
		".env", "app/.ENV.local", "tls/server.key", "home/.ssh/id_rsa", "home/.aws/credentials", "app/notes.txt",
		"./app/../.env",
	} {
		before := f.text(t, path)
		for _, c := range slices.Concat(looks, changes) {
			if c.name == "list_files" || c.name == "search_in_files" || c.name == "glob" { // which name it
				continue
			}
			r := f.call(t, c.name, c.arguments, path)
			other := strings.Contains(r.Text, "symbolic link") || c.name == "make_folder" &&
				strings.Contains(r.Text, "is a file") ||
				strings.Contains(r.Text, "is there already")
			if !r.Failed || !strings.Contains(r.Text, "may hold secrets") && !other || strings.Contains(r.Text, "hunter2") {
				t.Errorf("%s %s: %+v", c.name, path, r)
			}
		}

		if r := f.call(t, "search_in_files", `{"pattern":"hunter","path":$}`, path); strings.Contains(fmt.Sprintf("%+v", r),
			"hunter2") {
			t.Errorf("search %s: %+v", path, r)
		}
		if got := f.text(t, path); got != before {
			t.Errorf("%s has %q", path, got)
		}
	}

	if r := f.call(t, "write_file", `{"path":"new/.npmrc","content":"x"}`); !r.Failed {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "search_in_files", `{"pattern":"hunter"}`); r.Failed ||
		!strings.Contains(r.Text, "Nothing matches.") || !strings.Contains(r.Text, "5 files") {
		t.Errorf("f.call = %+v", r)
	}

	if r := f.call(t, "list_files", `{"recursive":true}`); r.Failed || !strings.Contains(r.Text, ".env\n") ||
		!strings.Contains(r.Text, "home/.ssh/id_rsa\n") {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "read_file", `{"path":".env.example"}`); r.Failed {
		t.Errorf("f.call = %+v", r)
	}

	allowing, err := files.Open(f.dir, files.Options{Allow: []string{".env", "/tls/"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { allowing.Close() })
	set, err := tool.NewSet(allowing.Tools()...)
	if err != nil {
		t.Fatal(err)
	}

	if r := (folder{f.dir, set}).call(t, "search_in_files", `{"pattern":"hunter"}`); len(r.Sources) != 2 {
		t.Errorf("call = %+v", r)
	}
}

// S11: the other name of a hard link may be outside, so it is neither read nor written.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("hunter2\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	f := open(t, map[string]string{"a.txt": "a\n", "in/a.txt": "a\n"})
	if err := os.Link(outside, filepath.Join(f.dir, "hard.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hard.txt", filepath.Join(f.dir, "soft.txt")); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{"hard.txt", "soft.txt"} {
		for _, c := range slices.Concat(looks, changes) {
			if c.name == "list_files" || c.name == "search_in_files" || c.name == "glob" { // which name it
				continue
			}
			r := f.call(t, c.name, c.arguments, path)
			other := strings.Contains(r.Text, "symbolic link") || c.name == "make_folder" &&
				strings.Contains(r.Text, "is a file") ||
				strings.Contains(r.Text, "is there already")
			if !r.Failed || !strings.Contains(r.Text, "hard link") && !other || strings.Contains(r.Text, "hunter2") {
				t.Errorf("%s %s: %+v", c.name, path, r)
			}
		}
	}

	if r := f.call(t, "search_in_files", `{"pattern":"hunter"}`); r.Failed || len(r.Sources) > 0 {
		t.Errorf("f.call = %+v", r)
	}
	if a, b := f.text(t, "hard.txt"), "hunter2\n"; a != b {
		t.Errorf("f.text = %q", a)
	}

	// Once the other name is gone, it is a file like others.
	if err := os.Remove(outside); err != nil {
		t.Fatal(err)
	}
	if r := f.call(t, "read_file", `{"path":"hard.txt"}`); r.Failed {
		t.Errorf("f.call = %+v", r)
	}
}

// S11: a file that grows while it is read ends the call nevertheless.
func TestFileThatGrows(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{"log": strings.Repeat("line\n", 1000)})
	file, err := os.OpenFile(filepath.Join(f.dir, "log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer file.Close()
		line := []byte(strings.Repeat("line\n", 1000))
		for written := 0; written < 64<<20; written += len(line) {
			select {
			case <-stop:
				return
			default:
				_, _ = file.Write(line)
			}
		}
	}()

	for range 20 {
		if r := f.call(t, "read_file", `{"path":"log"}`); r.Failed || len(r.Text) > tool.MaxText {
			t.Errorf("%d bytes: %+v", len(r.Text), r.Summary)
		}
		if r := f.call(t, "search_in_files", `{"pattern":"line"}`); r.Failed || len(r.Text) > tool.MaxText {
			t.Errorf("%d bytes: %+v", len(r.Text), r.Summary)
		}
	}
	close(stop)
	<-stopped
}
