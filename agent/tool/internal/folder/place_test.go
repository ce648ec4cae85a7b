package folder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// put writes files into a folder.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An entry is what has the name: links in the folders above it are followed, and it is none itself.
func TestEntry(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	put(t, dir, map[string]string{"a/b.txt": "b", ".git/config": "c", "a/.git/config": "c"})
	for link, target := range map[string]string{"link": "a", "a/out": outside, "soft": "a/b.txt", "dangling": "none",
		"disguise": ".git"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}

	f, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	for name, want := range map[string]string{
		"a/b.txt": "a/b.txt", "link/b.txt": "a/b.txt", "./a//b.txt": "a/b.txt", "a/new": "a/new", "x/y": "x/y",
		"a/../a/": "a",
		"soft":    "symbolic link", "dangling": "symbolic link", "a/out": "symbolic link", "link": "symbolic link",
		"a/out/x": "leaves the folder", "disguise/config": "files of git",
		"": "top folder", ".": "top folder", "a/..": "top folder", "..": "leaves the folder", "../x": "leaves the folder",
		"a/../../x": "leaves the folder",
		"/etc":      "relative", "/": "relative", ".git": "files of git", "a/.git": "files of git", ".GIT": "files of git",
		".git/config": "files of git", "a\x00": "a\x00",
	} {
		at, info, err := f.Entry(name)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil &&
			(at != want || (info == nil) != (at == "a/new" || at == "x/y")) {
			t.Errorf("%q: %q, %v; want %q", name, at, err, want)
		}
	}
}

// What is moved keeps nothing from being a secret, and what is in a folder goes with it only if all of it may.
func TestMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"a.txt": "a", ".env": "s", "keys/.ssh/config": "s", "repo/.git/config": "c", "fine/x/y.txt": "y", "plain/config": "p",
		"linked/x": "x", "taken.txt": "t",
	})
	if err := os.Symlink("x", filepath.Join(dir, "linked", "soft")); err != nil {
		t.Fatal(err)
	}

	f, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })

	for _, row := range []struct{ from, to, want string }{
		{"keys", "open", "keys/.ssh may hold secrets"}, {"repo", "other", "files of git"},
		{"linked", "other", "symbolic link"},
		{"plain", ".ssh", "may hold secrets"}, {"fine", "new/fine", ""},
	} {
		_, info, err := f.Entry(row.from)
		if err != nil {
			t.Fatal(err)
		}

		_, _, err = f.Below(row.from, row.to)
		if err == nil {
			err = f.Move(row.from, info, row.to)
		}
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("row.from = %s to %s: %v, want %q", row.from, row.to, err, row.want)
		}
	}

	for from, to := range map[string]string{".env": "notes.txt", "a.txt": "id_rsa", "taken.txt": "sub/.env"} {
		_, info, err := f.Entry(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Move(from, info, to); err == nil || !strings.Contains(err.Error(), "may hold secrets") {
			t.Errorf("from = %s to %s: %v", from, to, err)
		}
	}

	if b, err := os.ReadFile(filepath.Join(dir, "new", "fine", "x", "y.txt")); err != nil || string(b) != "y" {
		t.Errorf("os.ReadFile = %q, %v", b, err)
	}

	_, full, err := f.Entry("new")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Remove("new", full); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder that is not empty is removed: %v", err)
	}

	if err := f.MakeFolder("run/.ssh"); err == nil {
		t.Error("a folder for secrets is made")
	}
	if err := f.MakeFolder("a.txt/x"); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("f.MakeFolder = %v", err)
	}
}
