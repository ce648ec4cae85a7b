package folder

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Hide makes files and folders of this machine unavailable, whatever is allowed, and whether they are there yet or not.
// Call it before the folder is used.
func (f *Folder) Hide(paths ...string) { f.allowed = f.allowed.Hide(paths...) }

// Hide returns what is allowed without some files and folders of this machine, by their absolute paths.
func (a Allowed) Hide(paths ...string) Allowed {
	a.root = real(a.root)
	a.hidden = nil
	for _, path := range paths {
		a.hidden = append(a.hidden, filepath.Clean(path), real(path))
	}
	return a
}

// real returns a path without symbolic links, as far as it is there.
func real(path string) string {
	path = filepath.Clean(path)
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(real(dir), filepath.Base(path))
}

// Hidden returns an error if a file, which is named by its path in the folder, is hidden or in a folder that is. Letters
// may be small or not: on some systems both are the same file.
func (a Allowed) Hidden(at string) error {
	full := strings.ToLower(filepath.Join(a.root, filepath.FromSlash(at)))
	for _, path := range a.hidden {
		below, err := filepath.Rel(strings.ToLower(path), full)
		if err == nil && filepath.IsLocal(below) {
			return errHidden(at)
		}
	}
	return nil
}

// sameAsHidden returns an error if a file is a hidden one by another name.
func (a Allowed) sameAsHidden(at string, info fs.FileInfo) error {
	for _, path := range a.hidden {
		if other, err := os.Stat(path); err == nil && os.SameFile(info, other) {
			return errHidden(at)
		}
	}
	return nil
}

func errHidden(at string) error {
	return fmt.Errorf("%s is the server's own (its data, keys or configuration), so it is not available", at)
}
