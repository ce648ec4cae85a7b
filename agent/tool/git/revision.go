package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// revision is what the names of commits, branches and ranges may look like. It does not begin with
// "-", so that it is no option.
var revision = regexp.MustCompile(`^[\pL\pN_@^][\pL\pN_@^~./{}+#-]*$`)

// maxName bounds the names of revisions and branches, in bytes.
const maxName = 250

// limits returns a revision and a path as arguments: the first are none or one, the others begin with "--".
func limits(of, path string) (revisions, paths []string, err error) {
	if of != "" {
		if len(of) > maxName || !revision.MatchString(of) {
			return nil, nil, fmt.Errorf("revision: %q is not a commit, branch or range", of)
		}
		revisions = []string{of}
	}

	paths = []string{"--"}
	if path != "" {
		if err := checkPath("path", path); err != nil {
			return nil, nil, err
		}
		paths = append(paths, path)
	}
	return revisions, paths, nil
}

func checkPath(field, path string) error {
	if !filepath.IsLocal(filepath.FromSlash(path)) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%s: %q is not a path below the folder", field, path)
	}
	return nil
}

// commitOf returns the hash of the commit that a revision names. Everything that comes after it gets the hash, which is
// no option and does not change.
func (o *opened) commitOf(ctx context.Context, field, name string) (string, error) {
	if len(name) > maxName || !revision.MatchString(name) || strings.Contains(name, "..") {
		return "", fmt.Errorf("%s: %q is not one commit, branch or tag", field, name)
	}

	commit, err := o.hashOf(ctx, name+"^{commit}")
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: there is no commit %q; git.log and git.branches list what there is", field, name)
	}
	return commit, err
}

// head returns the hash of the commit that is checked out, and the branch; it is empty if none is checked out.
func (o *opened) head(ctx context.Context) (commit, branch string, err error) {
	reference, err := o.line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if ctx.Err() != nil {
		return "", "", err
	}
	if err == nil {
		branch = strings.TrimPrefix(reference, heads)
	}

	commit, err = o.hashOf(ctx, "HEAD^{commit}")
	if err != nil && ctx.Err() == nil {
		err = errors.New("the repository has no commit yet; commit something first")
	}
	return commit, branch, err
}

// heads is where the branches are.
const heads = "refs/heads/"

// branchName is what the name of a branch may look like. Git has more rules, which it checks itself.
var branchName = regexp.MustCompile(`^[\pL\pN_][\pL\pN_./+#@-]*$`)

// commitName is what the hash of a commit looks like. No branch is called so.
var commitName = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// checkBranch returns an error if no branch can have a name.
func (o *opened) checkBranch(ctx context.Context, field, name string) error {
	bad := fmt.Errorf("%s: %q is not the name of a branch", field, name)
	if len(name) > maxName || !branchName.MatchString(name) || name == "HEAD" || commitName.MatchString(name) ||
		!utf8.ValidString(name) {
		return bad
	}
	if _, err := o.execute(ctx, "check-ref-format", heads+name); err != nil {
		return errors.Join(ctx.Err(), bad)
	}
	return nil
}

// branchAt returns the commit of a branch; empty: there is no such branch.
func (o *opened) branchAt(ctx context.Context, name string) (string, error) {
	commit, err := o.hashOf(ctx, heads+name+"^{commit}")
	if ctx.Err() != nil {
		return "", err
	}
	return commit, nil
}

func (o *opened) isAncestor(ctx context.Context, old, of string) (bool, error) {
	_, err := o.execute(ctx, "merge-base", "--is-ancestor", old, of)
	if ctx.Err() != nil {
		return false, err
	}
	return err == nil, nil
}

// subjectOf returns a commit as people name it: the beginning of its hash, and its first line.
func (o *opened) subjectOf(ctx context.Context, commit string) (string, error) {
	out, err := o.logOf(ctx, "-1", "--no-patch", "--format=%s", commit, "--")
	return fmt.Sprintf("%.12s (%s)", commit, shown(strings.TrimSpace(string(out)))), err
}

// elsewhere returns an error if another working tree of the repository has a branch checked out: git does not see
// those.
func (o *opened) elsewhere(branch string) error {
	b := border{boundary: o.boundary}
	others, _ := filepath.Glob(filepath.Join(escapeGlob(o.common), "worktrees", "*", "HEAD")) // the pattern is right
	for _, at := range append(others, filepath.Join(o.common, "HEAD")) {
		if filepath.Dir(at) == o.gitDir {
			continue
		}
		text, err := b.read("HEAD of another working tree", at)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}

		if strings.TrimSpace(text) == "ref: "+heads+branch {
			return fmt.Errorf("the branch %s is checked out in another working tree", branch)
		}
	}
	return nil
}

// escapeGlob returns a path as a pattern that matches it alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
