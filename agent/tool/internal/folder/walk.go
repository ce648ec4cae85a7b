package folder

import (
	"context"
	"io/fs"
	"strings"
)

// Walk calls do for everything in a folder, without the folder itself and what belongs to git, and
// for a file only that file. Links are not followed.
func (f *Folder) Walk(
	ctx context.Context, name, include string, do func(at string, d fs.DirEntry) error,
) (string, error) {
	wanted, err := readInclude(include)
	if err != nil {
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
		case d.IsDir() && at == top, strings.EqualFold(d.Name(), ".git"), !d.IsDir() && !wanted.Match(at):
			return nil
		}
		return do(at, d)
	})
}
