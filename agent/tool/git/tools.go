package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/folder"
	"github.com/actlog/actlog/record"
)

// Options of the tools.
type Options struct {
	// Write adds git.commit. Its policy asks for approval.
	Write bool
	// Name and Email say who commits. If they are empty, git's own configuration says it.
	Name, Email string
	// Allow are patterns, as .gitignore has them, of files that git.diff shows and git.commit commits although
	// they may hold secrets or are hard links.
	Allow []string
	// Hide are absolute paths of files and folders that git.diff does not show and git.commit does not commit, whatever
	// is allowed: those of the server.
	Hide []string
}

// Tools returns the tools for the repository in a folder, which must be the top one of its working
// tree. Where the git program is not installed there are none.
func Tools(dir string, o Options) ([]tool.Tool, error) {
	if (o.Name == "") != (o.Email == "") {
		return nil, errors.New("who commits needs both a name and an email")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of the repository: %w", err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, nil //nolint:nilerr // no tools without the program
	}
	r := &repository{program: program{git: git}, dir: dir, allowed: folder.Allow(dir, o.Allow...).Hide(o.Hide...)}
	if o.Name != "" {
		r.identity = []string{"GIT_AUTHOR_NAME=" + o.Name, "GIT_AUTHOR_EMAIL=" + o.Email, "GIT_COMMITTER_NAME=" + o.Name, "GIT_COMMITTER_EMAIL=" + o.Email}
	}
	read := tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: timeout})
	tools := []tool.Tool{
		tool.Func("git.status", "Says which branch is checked out and which files changed since the last commit.", r.status, read),
		tool.Func("git.diff", "Shows what changed in files, as a patch.", r.diff, read),
		tool.Func("git.log", "Lists commits, newest first.", r.log, read),
	}
	if o.Write {
		tools = append(tools, tool.Func("git.commit", "Commits the files that are named, or else what is staged.", r.commit,
			tool.WithPolicy(tool.Policy{Approval: true, Writes: true, Timeout: timeout}), tool.WithTouches(r.touched)))
	}
	return tools, nil
}

const timeout = 30 * time.Second

type statusArguments struct{}

// status is what git.status returns as JSON.
type status struct {
	Branch   string `json:"branch,omitempty"` // empty if none is checked out
	Upstream string `json:"upstream,omitempty"`
	Ahead    int    `json:"ahead,omitempty"`
	Behind   int    `json:"behind,omitempty"`
	Files    []file `json:"files"`
}

// file is one that changed.
type file struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"` // of a file that was renamed or copied
	// Change has git's two letters: of the index, and of the working tree. "??" is not tracked.
	Change string `json:"change"`
}

func (r *repository) status(ctx context.Context, _ statusArguments) (tool.Result, error) {
	o, err := r.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer o.close()

	out, err := o.run(ctx, "", "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}
	s := parseStatus(string(out))
	var text strings.Builder
	branch := s.Branch
	if branch == "" {
		branch = "(none: a commit is checked out)"
	}
	fmt.Fprintf(&text, "Branch: %s\n", branch)
	if s.Upstream != "" {
		fmt.Fprintf(&text, "Upstream: %s (%d ahead, %d behind)\n", s.Upstream, s.Ahead, s.Behind)
	}
	if len(s.Files) == 0 {
		text.WriteString("Nothing changed.\n")
	}
	for _, f := range s.Files {
		fmt.Fprintf(&text, "%s %s", f.Change, shown(f.Path))
		if f.From != "" {
			fmt.Fprintf(&text, " (from %s)", shown(f.From))
		}
		text.WriteByte('\n')
	}
	if err != nil {
		text.WriteString("... (there are more)\n")
	}
	data, err := json.Marshal(s)
	return tool.Result{Text: text.String(), Summary: fmt.Sprintf("Changed files: %d, branch: %s", len(s.Files), branch), Data: data}, err
}

// parseStatus reads what git status --porcelain=v2 --branch -z writes. Lines that it does not know
// are left out, as git's manual asks for, and so is a last one that is not whole.
func parseStatus(out string) status {
	s := status{Files: []file{}}
	lines := strings.Split(out, "\x00")
	for lines = lines[:len(lines)-1]; len(lines) > 0; lines = lines[1:] {
		kind, rest, _ := strings.Cut(lines[0], " ")
		switch kind {
		case "#":
			s.header(rest)
		case "?":
			s.Files = append(s.Files, file{Path: rest, Change: "??"})
		case "1", "2", "u":
			// Fields before the path: XY sub mH mI mW hH hI, then a score, or two more of each for
			// what is unmerged.
			fields := strings.SplitN(rest, " ", map[string]int{"1": 8, "2": 9, "u": 10}[kind])
			if len(fields) < 8 {
				continue
			}
			f := file{Path: fields[len(fields)-1], Change: fields[0]}
			if kind == "2" && len(lines) > 1 {
				f.From = lines[1]
				lines = lines[1:]
			}
			s.Files = append(s.Files, f)
		}
	}
	return s
}

func (s *status) header(line string) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "branch.head":
		if value != "(detached)" {
			s.Branch = value
		}
	case "branch.upstream":
		s.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		s.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		s.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}

type diffArguments struct {
	Path     string `json:"path,omitempty" jsonschema:"only this file or folder"`
	Staged   bool   `json:"staged,omitempty" jsonschema:"what is staged instead of what is not"`
	Revision string `json:"revision,omitempty" jsonschema:"what changed since this commit or branch, or between two: HEAD~1, main, main..feature"`
}

func (r *repository) diff(ctx context.Context, in diffArguments) (tool.Result, error) {
	revision, path, err := limits(in.Revision, in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	o, err := r.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer o.close()

	options := []string{"--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"}
	if in.Staged {
		options = append(options, "--cached")
	}
	options = append(options, revision...)
	left, err := o.hidden(ctx, append(options[:len(options):len(options)], path...))
	if err != nil {
		return tool.Result{}, err
	}
	out, err := o.patch(ctx, options, path, left)
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}

	text := string(out)
	result := tool.Result{Text: text, Summary: fmt.Sprintf("Files that differ: %d", strings.Count("\n"+text, "\ndiff --git ")+len(left))}
	switch {
	case err != nil:
		result.Text = tool.Cut(text, tool.MaxText-10_000) + "\n... (and more; name a path to see less)\n"
	case text == "" && len(left) == 0:
		result.Text = "Nothing differs."
	}
	for i, name := range left {
		if i == maxNamed {
			result.Text += fmt.Sprintf("(and %d more)\n", len(left)-i)
			break
		}
		result.Text += fmt.Sprintf("(%s differs, and is not shown: it may hold secrets, is the server's own, or is a hard link)\n", shown(name))
	}
	return result, nil
}

// Bounds of the files that differ and are not shown.
const (
	maxHidden = 1000
	maxNamed  = 50 // in the text
)

// hidden returns the paths of files that differ and must not be shown.
func (o *opened) hidden(ctx context.Context, arguments []string) (paths []string, err error) {
	out, err := o.run(ctx, "", append([]string{"diff", "--name-only", "--no-renames", "-z"}, arguments...)...)
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
func (o *opened) patch(ctx context.Context, options, path, without []string) ([]byte, error) {
	arguments := append([]string{"diff", "--src-prefix=a/", "--dst-prefix=b/"}, options...)
	if len(without) == 0 {
		return o.run(ctx, "", append(arguments, path...)...)
	}

	arguments = append([]string{"--no-literal-pathspecs"}, append(arguments, "--")...)
	for _, name := range path[1:] {
		arguments = append(arguments, ":(top,literal)"+name)
	}
	for _, name := range without {
		arguments = append(arguments, ":(top,literal,exclude)"+name)
	}
	return o.run(ctx, "", arguments...)
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

// revision is what the names of commits, branches and ranges may look like. It does not begin with
// "-", so that it is no option.
var revision = regexp.MustCompile(`^[\pL\pN_@^][\pL\pN_@^~./{}+#-]*$`)

// limits returns a revision and a path as arguments: the first are none or one, the others begin with "--".
func limits(of, path string) (revisions, paths []string, err error) {
	if of != "" {
		if !revision.MatchString(of) {
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

type logArguments struct {
	Path     string `json:"path,omitempty" jsonschema:"only commits that changed this file or folder"`
	Revision string `json:"revision,omitempty" jsonschema:"the commits of this branch, or of a range such as main..feature; HEAD if it is missing"`
	MaxCount int    `json:"max_count,omitempty" jsonschema:"at most this many commits; 10 if it is missing"`
}

// maxCommits bounds what git.log lists.
const maxCommits = 200

func (r *repository) log(ctx context.Context, in logArguments) (tool.Result, error) {
	n := in.MaxCount
	if n <= 0 {
		n = 10
	}
	revision, path, err := limits(in.Revision, in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	o, err := r.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer o.close()

	arguments := []string{"log", "-z", "--no-color", "--no-decorate", "--no-notes", "--no-show-signature", "--no-mailmap", "--no-patch",
		"--format=%H%x1f%an%x1f%aI%x1f%s", "-n", strconv.Itoa(min(n, maxCommits))}
	out, err := o.run(ctx, "", slices.Concat(arguments, revision, path)...)
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}

	var text strings.Builder
	var result tool.Result
	for line := range strings.SplitSeq(string(out), "\x00") {
		fields := strings.SplitN(line, "\x1f", 4)
		if len(fields) < 4 {
			continue
		}
		fmt.Fprintf(&text, "%.12s %s %s: %s\n", fields[0], fields[2], fields[1], fields[3])
		result.Sources = append(result.Sources, tool.Source{URI: fields[0], Type: record.SourceCommit, Description: tool.Cut(fields[3], 300)})
	}
	if text.Len() == 0 {
		text.WriteString("There are no such commits.")
	}
	result.Text, result.Summary = text.String(), fmt.Sprintf("Commits: %d", len(result.Sources))
	return result, nil
}

type commitArguments struct {
	Message string   `json:"message" jsonschema:"what changed and why; the first line is a summary"`
	Files   []string `json:"files,omitempty" jsonschema:"paths of the files to commit, also of deleted ones; what is staged if they are missing"`
}

// maxFiles bounds the files of a commit by name: they are arguments of a program.
const maxFiles = 1000

func (r *repository) commit(ctx context.Context, in commitArguments) (tool.Result, error) {
	if strings.TrimSpace(in.Message) == "" || strings.ContainsRune(in.Message, 0) {
		return tool.Result{}, errors.New("message: a commit needs one")
	}
	if len(in.Files) > maxFiles {
		return tool.Result{}, fmt.Errorf("files: at most %d; stage the others, or name a folder", maxFiles)
	}
	for i, path := range in.Files {
		if err := checkPath(fmt.Sprintf("files[%d]", i), path); err != nil {
			return tool.Result{}, err
		}
		if err := r.allowed.Hidden(path); err != nil {
			return tool.Result{}, err
		}
	}
	r.committing.Lock()
	defer r.committing.Unlock()
	o, err := r.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer o.close()

	var env []string
	if len(in.Files) > 0 {
		if err := o.add(ctx, in.Files); err != nil {
			return tool.Result{}, err
		}
		if env, err = o.only(ctx, in.Files); err != nil {
			return tool.Result{}, err
		}
	}
	files, err := o.staged(ctx, in.Files)
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}
	for _, path := range files {
		if err := o.allowed.Hidden(path); err != nil {
			return tool.Result{}, fmt.Errorf("%w: it is staged, and is not committed", err)
		}
	}
	if len(files) == 0 {
		return tool.Result{}, errors.New("there is nothing to commit: nothing is staged, and no file that is named changed")
	}
	arguments := []string{"commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--file=-"}
	if _, err := o.runWith(ctx, env, in.Message, arguments...); err != nil {
		return tool.Result{}, err
	}

	head, err := o.run(ctx, "", "rev-parse", "--verify", "HEAD")
	if err != nil { // it is committed, so this is no failure
		return tool.Result{}, fmt.Errorf("%w: read the new commit: %w", tool.ErrUnknown, err)
	}
	commit := strings.TrimSpace(string(head))
	subject, _, _ := strings.Cut(strings.TrimSpace(in.Message), "\n")
	value, err := json.Marshal(map[string]any{"commit": commit, "subject": subject, "files": files})
	return tool.Result{
		Text:      fmt.Sprintf("Committed as %s. Files: %d.", commit, len(files)),
		Summary:   fmt.Sprintf("Committed as %.12s, files: %d", commit, len(files)),
		Data:      value,
		Sources:   []tool.Source{{URI: commit, Type: record.SourceCommit, Description: tool.Cut(subject, 300)}},
		Artifacts: []tool.Artifact{{Name: "commit", Type: "commit", Value: value}},
	}, err
}

func (r *repository) touched(ctx context.Context, in commitArguments) ([]string, error) {
	if len(in.Files) > 0 {
		return in.Files, nil
	}
	o, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	paths, err := o.staged(ctx, nil)
	if errors.Is(err, errTooLong) {
		return paths, nil
	}
	return paths, err
}
