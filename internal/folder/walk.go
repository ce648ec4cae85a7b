package folder

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Walk calls do for everything in a folder, without the folder itself and what belongs to git, and
// for a file only that file. Links are not followed.
func (f *Folder) Walk(ctx context.Context, name, include string, do func(at string, d fs.DirEntry) error) (string, error) {
	if err := checkGlob(include); err != nil {
		return "", err
	}
	top, err := f.Resolve(name)
	if err != nil {
		return "", err
	}
	return top, fs.WalkDir(f.root.FS(), top, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil && at == top:
			return Plain(at, err)
		case err != nil: // it has gone, or may not be read
			return nil //nolint:nilerr // the others are still of use
		case d.IsDir() && strings.EqualFold(d.Name(), ".git"):
			return fs.SkipDir
		case d.IsDir() && at == top, strings.EqualFold(d.Name(), ".git"), !d.IsDir() && !included(include, at):
			return nil
		}
		return do(at, d)
	})
}

// included reports whether a file is asked for: a glob with "/" is compared with the path, another
// one with the name.
func included(glob, at string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		at = path.Base(at)
	}
	ok, err := path.Match(glob, at)
	return ok && err == nil
}

func checkGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("include: %q is not a pattern such as *.go", glob)
	}
	return nil
}
