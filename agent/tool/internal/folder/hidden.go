package folder

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hidden are absolute paths of files and folders that are not available, as they were named and without links.
type hidden []string

func hide(paths []string) (all hidden) {
	for _, path := range paths {
		all = append(all, filepath.Clean(path), real(path))
	}
	return all
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

// has reports whether a path is hidden, or in a folder that is. Letters may be small or not: on some systems both are
// the same file.
func (h hidden) has(path string) bool {
	return slices.ContainsFunc(h, func(each string) bool {
		below, err := filepath.Rel(strings.ToLower(each), strings.ToLower(path))
		return err == nil && filepath.IsLocal(below)
	})
}

// is reports whether a file is a hidden one, by whatever name.
func (h hidden) is(info fs.FileInfo) bool {
	return slices.ContainsFunc(h, func(each string) bool {
		other, err := os.Stat(each)
		return err == nil && os.SameFile(info, other)
	})
}
