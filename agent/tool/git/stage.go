package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// add stages what changed below some paths. It does not use git add, which starts another git in each
// submodule, with the configuration of the submodule.
func (o *opened) add(ctx context.Context, below []string) error {
	known := append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--error-unmatch", "--"}, below...)
	if err := o.pipe(ctx, o.root, o.env, "", io.Discard, known...); err != nil {
		return err // it names a path that is not there
	}

	changed := append([]string{"ls-files", "--others", "--modified", "--deleted", "--exclude-standard", "-z", "--"},
		below...)
	out, err := o.execute(ctx, changed...)
	if errors.Is(err, errTooLong) {
		return errors.New("files: too many changed; name fewer, or folders with fewer")
	} else if err != nil {
		return err
	}

	var here, gone strings.Builder
	var nested []string
	for path := range strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == 0 }) {
		info, err := o.lstat(path)
		switch {
		case o.allowed.Hidden(path) != nil: // a folder that is named does not include it
			continue
		case err != nil:
			gone.WriteString(path + "\x00")
			continue
		case info.IsDir():
			path = strings.TrimSuffix(path, "/")
			nested = append(nested, path)
		default:
			if err := o.allowed.HardLink(path, info); err != nil {
				return err
			}
		}
		here.WriteString(path + "\x00")
	}

	if err := o.checkNested(ctx, nested); err != nil {
		return err
	}

	return o.updateIndex(ctx, gone.String(), here.String(), "--add", "--replace", "-z", "--stdin")
}

// updateIndex takes paths out of what is staged, and then puts in what git update-index reads by its options.
func (o *opened) updateIndex(ctx context.Context, gone, in string, options ...string) error {
	if _, err := o.feed(ctx, gone, "update-index", "--force-remove", "-z", "--stdin"); err != nil {
		return err
	}
	_, err := o.feed(ctx, in, append([]string{"update-index"}, options...)...)
	return err
}

// lstat describes what git can store of a path: a file, a link, or a folder with a repository of its own. What is
// behind a link to a folder is not in the working tree.
func (o *opened) lstat(path string) (os.FileInfo, error) {
	at := filepath.Join(o.root, filepath.FromSlash(path))
	if parent, err := filepath.EvalSymlinks(filepath.Dir(at)); err != nil || parent != filepath.Dir(at) {
		return nil, fmt.Errorf("%s: %w", path, os.ErrNotExist)
	}

	info, err := os.Lstat(at)
	if err == nil && info.IsDir() {
		_, err = os.Lstat(filepath.Join(at, ".git"))
	}
	return info, err
}

// only returns the repository with what is staged below some paths, and nothing else that is staged.
// git commit --only would read the files again, and also through links to folders outside.
func (o *opened) only(ctx context.Context, below []string) (*opened, error) {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD"} {
		if _, err := os.Lstat(filepath.Join(o.gitDir, name)); err == nil {
			return nil, errors.New("files: during a merge all that is staged is committed; name no files")
		}
	}

	wanted, err := o.staged(ctx, below)
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, path := range wanted {
		keep[path] = true
	}

	some, err := o.withIndex("index")
	if err != nil {
		return nil, err
	}
	return some, some.unstage(ctx, keep)
}

// unstage takes back what is staged, apart from some paths.
func (o *opened) unstage(ctx context.Context, keep map[string]bool) error {
	e, err := o.entries(ctx, "--cached")
	switch {
	case err != nil:
		return err
	case e.more:
		return errors.New("files: too much is staged; commit all of it, and name no files")
	}

	var gone, back strings.Builder
	for _, each := range e.all() {
		switch {
		case keep[each.path]:
		case each.change == "U":
			return conflict(each.path)
		case strings.Trim(each.oldMode, "0") == "":
			gone.WriteString(each.path + "\x00")
		default:
			fmt.Fprintf(&back, "%s %s\t%s\x00", each.oldMode, each.oldHash, each.path)
		}
	}

	return o.updateIndex(ctx, gone.String(), back.String(), "--replace", "-z", "--index-info")
}

func conflict(path string) error {
	return fmt.Errorf("%s has conflicts that are not resolved", shown(path))
}

// staged returns the paths of what is staged, of all or below some paths: the first ones and errTooLong, if there are
// very many.
func (o *opened) staged(ctx context.Context, below []string) ([]string, error) {
	arguments := []string{
		"diff", "--cached", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "-z", "--",
	}
	out, err := o.execute(ctx, append(arguments, below...)...)
	if err != nil && !errors.Is(err, errTooLong) {
		return nil, err
	}
	paths := strings.Split(string(out), "\x00")
	return paths[:len(paths)-1], err
}
