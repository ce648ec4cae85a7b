package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

type diffArguments struct {
	Path      string `json:"path,omitempty" jsonschema:"only this file or folder"`
	Staged    bool   `json:"staged,omitempty" jsonschema:"what is staged instead of what is not"`
	Revision  string `json:"revision,omitempty" jsonschema:"what changed since this commit or branch, or between two: HEAD~1, main, main..feature"`
	From      string `json:"from,omitempty" jsonschema:"what changed since this commit, branch or tag; instead of revision"`
	To        string `json:"to,omitempty" jsonschema:"up to this commit, branch or tag; what is in the files if it is missing. It goes with from"`
	MergeBase bool   `json:"merge_base,omitempty" jsonschema:"what changed on the side of to since it left from, without what changed in from. It goes with from"`
}

// check returns what is wrong with how the arguments go together.
func (in diffArguments) check() error {
	switch {
	case in.From != "" && in.Revision != "":
		return errors.New("revision: it does not go with from; name from and to")
	case in.From == "" && in.To != "":
		return errors.New("to: it goes with from, which is missing")
	case in.From == "" && in.MergeBase:
		return errors.New("merge_base: it goes with from, which is missing")
	case in.Staged && in.To != "":
		return errors.New("staged: it does not go with to")
	}
	return nil
}

func (o *opened) diff(ctx context.Context, in diffArguments) (tool.Result, error) {
	if err := in.check(); err != nil {
		return tool.Result{}, err
	}

	revision, path, err := limits(in.Revision, in.Path)
	if err != nil {
		return tool.Result{}, err
	}

	var options []string
	if in.Staged {
		options = append(options, "--cached")
	}
	if in.From != "" {
		if revision, err = o.revisionOptions(ctx, in); err != nil {
			return tool.Result{}, err
		}
	}

	c, err := o.changes(ctx, append(options, revision...), path[1:]...)
	if err != nil {
		return tool.Result{}, err
	}
	result := tool.Result{Text: c.shown(), Summary: fmt.Sprintf("Files that differ: %d", c.count())}
	if c.count() == 0 {
		result.Text = "Nothing differs."
	}
	return result, nil
}

// revisionOptions returns the options of git diff for the arguments from, to and mergeBase.
func (o *opened) revisionOptions(ctx context.Context, in diffArguments) (options []string, err error) {
	from, err := o.commitOf(ctx, "from", in.From)
	if err != nil {
		return nil, err
	}

	if in.MergeBase {
		options = append(options, "--merge-base")
	}
	options = append(options, from)
	if in.To == "" {
		return options, nil
	}
	to, err := o.commitOf(ctx, "to", in.To)
	return append(options, to), err
}

type changes struct {
	patch string
	more  bool     // the patch is longer
	left  []string // files that differ and are not in it
}

// plainDiff are options of git diff: it runs no program, and prints what is parsed here.
var plainDiff = []string{"--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"}

// changes returns how files differ, as git diff does with more options.
func (o *opened) changes(ctx context.Context, options []string, paths ...string) (c changes, err error) {
	options = append(slices.Clone(plainDiff), options...)
	if c.left, err = o.hidden(ctx, slices.Concat(options, []string{"--"}, paths)); err != nil {
		return changes{}, err
	}

	out, err := o.patch(ctx, options, paths, c.left)
	if err != nil && !errors.Is(err, errTooLong) {
		return changes{}, err
	}
	c.patch, c.more = string(out), err != nil
	return c, nil
}

// count returns how many files differ, as far as the patch goes.
func (c changes) count() int {
	return strings.Count("\n"+c.patch, "\ndiff --git ") + len(c.left)
}

// shown returns the changes as a model reads them.
func (c changes) shown() string {
	text := c.patch
	if c.more {
		text = tool.Cut(text, tool.MaxText-10_000) + "\n... (and more; name a path to see less)\n"
	}
	return text + c.notShown()
}

// notShown names the files that differ and are not shown.
func (c changes) notShown() string {
	var text strings.Builder
	for i, name := range c.left {
		if i == maxNamed {
			fmt.Fprintf(&text, "(and %d more)\n", len(c.left)-i)
			break
		}
		fmt.Fprintf(&text, "(%s differs, and is not shown: it may hold secrets, is the server's own, or is a hard link)\n",
			shown(name))
	}
	return text.String()
}

// previewText returns what is approved: a list of files, those of them that are not shown, and how they differ.
func (o *opened) previewText(ctx context.Context, list string, options []string, paths ...string) (string, error) {
	c, err := o.changes(ctx, options, paths...)
	return list + c.notShown() + "\n" + c.patch, err
}

// Bounds of the files that differ and are not shown.
const (
	maxHidden = 1000
	maxNamed  = 50 // in the text
)

// hidden returns the paths of files that differ and must not be shown.
func (o *opened) hidden(ctx context.Context, arguments []string) (paths []string, err error) {
	out, err := o.execute(ctx, append([]string{"diff", "--name-only", "--no-renames", "-z"}, arguments...)...)
	if errors.Is(err, errTooLong) {
		return nil, errors.New("too many files differ; name a path")
	} else if err != nil {
		return nil, err
	}

	for path := range strings.SplitSeq(string(out), "\x00") {
		if path != "" && o.unavailable(path) != nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}

	if len(paths) > maxHidden {
		return nil, errors.New("too many of the files that differ must not be shown; name a path")
	}
	return paths, nil
}

// patch returns how files differ, without those at some paths.
func (o *opened) patch(ctx context.Context, options, paths, without []string) ([]byte, error) {
	arguments := slices.Concat([]string{"diff", "--src-prefix=a/", "--dst-prefix=b/"}, options, []string{"--"})
	if len(without) == 0 {
		return o.execute(ctx, append(arguments, paths...)...)
	}

	arguments = append([]string{"--no-literal-pathspecs"}, arguments...)
	for _, name := range paths {
		arguments = append(arguments, ":(top,literal)"+name)
	}
	for _, name := range without {
		arguments = append(arguments, ":(top,literal,exclude)"+name)
	}
	return o.execute(ctx, arguments...)
}

// unavailable returns an error if what is in a file of the working tree, or was, must not be shown.
func (o *opened) unavailable(path string) error {
	if err := o.allowed.Secret(path); err != nil {
		return err
	}

	info, err := os.Lstat(filepath.Join(o.root, filepath.FromSlash(path)))
	if err != nil {
		return nil //nolint:nilerr // it is not there, so it is no hard link
	}
	return o.allowed.HardLink(path, info)
}

// entries are the files that differ, each with its modes and hashes: exactly what git diff --raw writes.
type entries struct {
	sum  hash.Hash
	kept bytes.Buffer // the first maxOutput bytes
	more bool
}

// Write implements [io.Writer].
func (e *entries) Write(b []byte) (int, error) {
	e.sum.Write(b) // a hash takes all
	room := maxOutput - e.kept.Len()
	if len(b) > room {
		e.more = true
	}
	e.kept.Write(b[:min(room, len(b))])
	return len(b), nil
}

// digest returns a hash of all entries, also of those that are not kept.
func (e *entries) digest() string { return hex.EncodeToString(e.sum.Sum(nil)) }

type entry struct {
	oldMode, newMode, oldHash, newHash string
	change                             string // one letter
	path                               string
}

// all returns the entries that are kept, and are whole.
func (e *entries) all() (all []entry) {
	// A line is :<old mode> <new mode> <old hash> <new hash> <letter>, and the path is one of its own.
	lines := strings.Split(e.kept.String(), "\x00")
	for ; len(lines) > 2; lines = lines[2:] {
		fields := strings.Fields(strings.TrimPrefix(lines[0], ":"))
		if len(fields) != 5 {
			continue
		}
		all = append(all, entry{
			oldMode: fields[0], newMode: fields[1], oldHash: fields[2], newHash: fields[3], change: fields[4], path: lines[1],
		})
	}
	return all
}

// entries returns what differs, as git diff does with more arguments.
func (o *opened) entries(ctx context.Context, arguments ...string) (*entries, error) {
	e := &entries{sum: sha256.New()}
	command := []string{"diff", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=dirty", "-z"}
	return e, o.pipe(ctx, o.root, o.env, "", e, append(command, arguments...)...)
}

// list returns files that differ as people read them: a letter and a path for each.
func (e *entries) list() string {
	var text strings.Builder
	all := e.all()
	for i, each := range all {
		if i == maxListed {
			fmt.Fprintf(&text, "(and %d more)\n", len(all)-i)
			break
		}
		fmt.Fprintf(&text, "%s %s\n", each.change, shown(each.path))
	}

	if e.more {
		text.WriteString("(and more)\n")
	}
	return text.String()
}

const maxListed = 200

func (e *entries) paths() []string {
	all := e.all()
	paths := make([]string, len(all))
	for i, each := range all {
		paths[i] = each.path
	}
	return paths
}

// checkHidden returns an error if files of the server itself are among those that differ.
func (o *opened) checkHidden(e *entries) error {
	for _, path := range e.paths() {
		if err := o.allowed.Hidden(path); err != nil {
			return fmt.Errorf("%w, so nothing was changed", err)
		}
	}
	if e.more {
		return errors.New("too many files would change; that is left to people")
	}
	return nil
}
