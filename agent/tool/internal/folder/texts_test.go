package folder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Texts are what people work on: what .gitignore files name, hidden files, dependencies, binary and huge
// files and links are left out.
func TestTexts(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"a.go": "a", "b.txt": "b", "sub/c.go": "c", "sub/deep/d.go": "d", "sub/deep/e.log": "e", "sub/keep.log": "k",
		".gitignore": "# comment\n*.log\n!keep.log\n/out/\nsub/deep/x*.go\n[\n**/gen/**\n" + strings.Repeat("*a", 1000) +
			"\n",
		"out/f.go":       "f",
		"sub/out/g.go":   "g",
		"sub/deep/x1.go": "x", "sub/.gitignore": "h.go\n", "sub/h.go": "h", "sub/deep/h.go": "h", "h.go": "h",
		"gen/i.go": "i", ".hidden/j.go": "j", ".env": "secret", "node_modules/k.js": "k", "sub/vendor/l.go": "l",
		"image": "\x00\x01", "tls.key": "secret", "latin": strings.Repeat("\xff", 10),
		"huge": strings.Repeat("x", folder.MaxText+1), ".git/config": "c",
		"../" + filepath.Base(outside) + "/secret": "s",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"link", "sub/link"} {
		if err := os.Symlink(outside, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}

	f, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	for _, row := range []struct{ path, include, want string }{
		{"", "", "a.go b.txt h.go sub/c.go sub/deep/d.go sub/keep.log sub/out/g.go"},
		{"", "*.go", "a.go h.go sub/c.go sub/deep/d.go sub/out/g.go"},
		{"sub/deep", "", "sub/deep/d.go"},
		{"sub/c.go", "", "sub/c.go"},
		{"node_modules", "", "node_modules/k.js"},
		{"../x", "", "../x: the path leaves the folder"},
		{"link", "", "link: the path leaves the folder through a symbolic link"},
		{".git", "", ".git: files of git are not available"},
		{"", "[", `include: "[" is not a pattern such as *.go`},
	} {
		var got []string
		left, err := f.WalkTextFiles(t.Context(), row.path, row.include, func(at string, _ []byte) error {
			got = append(got, at)
			return nil
		})
		if err != nil {
			got = []string{err.Error()}
		}

		if strings.Join(got, " ") != row.want || row.path == "" && err == nil && row.include == "" &&
			left != (folder.Skipped{Large: 1, Unavailable: 1}) {
			t.Errorf("%q %q: %q, left out %+v", row.path, row.include, got, left)
		}
	}
}
