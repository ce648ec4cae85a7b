package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// places are where a repository keeps its files. They are real paths, without symbolic links.
type places struct {
	boundary string // the folder that all others are in
	root     string // the top folder of the working tree
	gitDir   string // the git directory
	common   string // what the working trees of the repository share; dir, if there is only one
	objects  string
}

// maxSmall bounds the configuration of a repository, and files that name its folders, in bytes.
const maxSmall = 1 << 20

// locate returns the places of the repository whose working tree has its top folder at a path. It fails
// unless all that git would read and write there is below the boundary, which is a real path: a
// repository can name other folders in .git, commondir and objects/info/alternates, and by symbolic
// and hard links.
func locate(ctx context.Context, boundary, at string) (places, error) {
	b := border{boundary: boundary, seen: map[string]bool{}}

	p, err := b.find(at)
	if err != nil {
		return places{}, err
	}

	if err := b.objects(ctx, p.objects); err != nil {
		return places{}, err
	}
	for _, dir := range []string{p.gitDir, p.common} {
		if err := b.check(ctx, dir); err != nil {
			return places{}, err
		}
	}
	return p, nil
}

// border keeps what is looked up below a folder.
type border struct {
	boundary string
	seen     map[string]bool // folders that were checked
}

func (b *border) find(at string) (p places, err error) {
	p.boundary, p.root = b.boundary, at
	dot := filepath.Join(at, ".git")
	if _, err := os.Lstat(dot); err != nil {
		return p, errors.New("the folder has no git repository")
	}

	// Paths are joined by hand: filepath.Join takes "link/.." for the folder of the link.
	const separator = string(filepath.Separator)
	if p.gitDir, err = b.real(".git", dot); err != nil {
		return p, err
	}
	if info, err := os.Lstat(p.gitDir); err == nil && !info.IsDir() {
		text, err := b.read(".git", p.gitDir)
		target, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
		if err != nil || !ok {
			return p, errors.New(".git is neither a folder nor the name of one")
		}
		if !filepath.IsAbs(target) {
			target = at + separator + target
		}
		if p.gitDir, err = b.realDir("the folder that .git names", target); err != nil {
			return p, err
		}
	}

	p.common = p.gitDir
	if target, err := b.read("commondir", filepath.Join(p.gitDir, "commondir")); err == nil {
		if target = strings.TrimRight(target, "\r\n"); !filepath.IsAbs(target) {
			target = p.gitDir + separator + target
		}
		if p.common, err = b.realDir("the folder that commondir names", target); err != nil {
			return p, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}

	p.objects, err = b.realDir("the folder of the objects", filepath.Join(p.common, "objects"))
	return p, err
}

// real returns the real path of what is at a path. It must be below the boundary.
func (b *border) real(what, at string) (string, error) {
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", folder.Plain(what, err)
	}
	if rel, err := filepath.Rel(b.boundary, real); err != nil || rel == "." || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is not below the folder, so the git tools do not use this repository", what)
	}
	return real, nil
}

func (b *border) realDir(what, at string) (string, error) {
	real, err := b.real(what, at)
	if err != nil {
		return "", err
	}
	if info, err := os.Lstat(real); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder", what)
	}
	return real, nil
}

// objects checks a folder of objects, and those that it borrows from.
func (b *border) objects(ctx context.Context, dir string) error {
	if b.seen[dir] {
		return nil
	}
	if err := b.check(ctx, dir); err != nil {
		return err
	}

	text, err := b.read("objects/info/alternates", filepath.Join(dir, "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}

	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = dir + string(filepath.Separator) + line
		}

		other, err := b.realDir("a folder that objects/info/alternates names", line)
		if err != nil {
			return err
		}
		if err := b.objects(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

// stored are the files in a folder of objects that git never writes to once they are there: it puts another
// file in their place. It makes hard links of them when it clones a folder of this machine.
var stored = regexp.MustCompile(
	`^([0-9a-f]{2}/[0-9a-f]{38,62}|pack/[^/]+|info/(packs|commit-graph|commit-graphs/[^/]+))$`,
)

// check fails if something in a folder of the repository leads out of the boundary, or could make git
// wait. Hooks never run, and each submodule is checked by itself.
func (b *border) check(ctx context.Context, dir string) error {
	if b.seen[dir] {
		return nil
	}
	b.seen[dir] = true

	isObjects := filepath.Base(dir) == "objects"
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, at)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // it has gone, or nobody may read it: neither may git
			return nil //nolint:nilerr // see above
		case d.IsDir() && at != dir && (rel == "modules" || rel == "hooks" || b.seen[at]):
			return fs.SkipDir
		case d.IsDir() || d.Type()&fs.ModeSocket != 0:
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			return b.link(ctx, rel, at)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s in the git directory is not a regular file", rel)
		case isObjects && stored.MatchString(filepath.ToSlash(rel)):
			return nil
		}

		if info, err := d.Info(); err == nil && folder.HasOtherNames(info) {
			return fmt.Errorf("%s in the git directory is a hard link, so the file may have another name outside of the folder",
				rel)
		}
		return nil
	})
}

// link checks where a symbolic link in the git directory leads.
func (b *border) link(ctx context.Context, name, at string) error {
	real, err := b.real(name+" in the git directory", at)
	if err != nil {
		// Old versions of git make HEAD a link, and the branch may have no commit yet. All other links
		// that lead nowhere are paths that git could make outside.
		if target, e := os.Readlink(at); e == nil && name == "HEAD" && strings.HasPrefix(target, "refs/") &&
			filepath.IsLocal(target) {
			return nil
		}
		return err
	}

	info, err := os.Lstat(real)
	switch {
	case err != nil:
		return folder.Plain(name, err)
	case info.IsDir():
		return b.check(ctx, real)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s in the git directory is not a regular file", name)
	case folder.HasOtherNames(info):
		return fmt.Errorf("%s in the git directory leads to a hard link, so the file may have another name outside of "+
			"the folder", name)
	}
	return nil
}

// read returns the text of a small file of the repository, wherever below the boundary it is.
func (b *border) read(what, at string) (string, error) {
	if _, err := os.Lstat(at); err != nil {
		return "", err
	}
	real, err := b.real(what, at)
	if err != nil {
		return "", err
	}

	info, err := os.Lstat(real)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSmall || folder.HasOtherNames(info) {
		return "", fmt.Errorf("%s is not a small file with one name", what)
	}

	f, err := os.Open(real)
	if err != nil {
		return "", folder.Plain(what, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSmall))
	return string(text), err
}
