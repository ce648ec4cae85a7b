package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

type commitArguments struct {
	Message string   `json:"message" jsonschema:"what changed and why; the first line is a summary"`
	Files   []string `json:"files,omitempty" jsonschema:"paths of the files to commit, also of deleted ones; what is staged if they are missing"`
}

// maxFiles bounds the files of a commit by name: they are arguments of a program.
const maxFiles = 1000

var commitTool = writer[commitArguments]{
	name: "git.commit", description: "Commits the files that are named, or else what is staged.",
	plan: planCommit, touches: commitTouches, timeout: timeout, byID: true,
	done: func(ctx context.Context, o *opened, call tool.Call, _ commitArguments) (tool.Result, bool, error) {
		return o.committed(ctx, call.ID)
	},
}

func (in commitArguments) check(o *opened) error {
	switch {
	case strings.TrimSpace(in.Message) == "" || strings.ContainsRune(in.Message, 0):
		return errors.New("message: a commit needs one")
	case trailerLine.MatchString(in.Message):
		return fmt.Errorf("message: the line %s is written by the tool; leave it out", trailer)
	}
	return o.checkFiles(in.Files)
}

func (o *opened) checkFiles(files []string) error {
	if len(files) > maxFiles {
		return fmt.Errorf("files: at most %d; stage the others, or name a folder", maxFiles)
	}
	for i, path := range files {
		if err := checkPath(fmt.Sprintf("files[%d]", i), path); err != nil {
			return err
		}
		if err := o.allowed.Hidden(path); err != nil {
			return err
		}
	}
	return nil
}

func planCommit(ctx context.Context, o *opened, call tool.Call, in commitArguments) (p plan, err error) {
	if err := in.check(o); err != nil {
		return p, err
	}
	trial, err := o.trial()
	if err != nil {
		return p, err
	}

	some, e, err := trial.toCommit(ctx, in.Files)
	if err != nil {
		return p, err
	}
	text, err := some.previewText(ctx, e.list(), []string{"--cached"})
	if err != nil {
		return p, err
	}

	branch := o.branch(ctx)
	message := withTrailer(in.Message, call.ID)
	text = fmt.Sprintf("Commit on %s:\n\n%s\n\n%s", branch, indented(message), text)
	p.preview = tool.NewPreview(tool.PreviewDiff, text, branch, message, e.digest())
	p.do = func(ctx context.Context) (tool.Result, error) { return o.commit(ctx, in, message, e.digest()) }
	return p, nil
}

// branch returns what is checked out, for people.
func (o *opened) branch(ctx context.Context) string {
	reference, err := o.line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err != nil {
		return "no branch (a commit is checked out)"
	}
	return "the branch " + shown(strings.TrimPrefix(reference, heads))
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

// toCommit stages some files, if there are any, and returns the repository with what is then to be committed.
func (o *opened) toCommit(ctx context.Context, files []string) (some *opened, e *entries, err error) {
	some = o
	if len(files) > 0 {
		if err := o.add(ctx, files); err != nil {
			return nil, nil, err
		}
		if some, err = o.only(ctx, files); err != nil {
			return nil, nil, err
		}
	}
	if e, err = some.entries(ctx, "--cached"); err != nil {
		return nil, nil, err
	}

	all := e.all()
	for _, each := range all {
		if err := o.allowed.Hidden(each.path); err != nil {
			return nil, nil, fmt.Errorf("%w: it is staged, and is not committed", err)
		}
		if each.change == "U" {
			return nil, nil, conflict(each.path)
		}
	}

	if len(all) == 0 {
		return nil, nil, errors.New("there is nothing to commit: nothing is staged, and no file that is named changed")
	}
	return some, e, nil
}

// commit commits what has a digest.
func (o *opened) commit(ctx context.Context, in commitArguments, message, digest string) (tool.Result, error) {
	some, e, err := o.toCommit(ctx, in.Files)
	if err != nil {
		return tool.Result{}, err
	}
	if e.digest() != digest {
		return tool.Result{}, tool.ErrChanged
	}

	arguments := []string{"commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--file=-"}
	if _, err := some.feed(ctx, message, arguments...); err != nil {
		return tool.Result{}, err
	}

	head, err := o.line(ctx, "rev-parse", "--verify", "HEAD")
	if err != nil { // it is committed, so this is no failure
		return tool.Result{}, unknownOutcome("read the new commit", err)
	}
	return commitResult(head, in.Message, e.paths()), nil
}

func commitResult(commit, message string, files []string) tool.Result {
	subject, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	value, _ := json.Marshal(map[string]any{"commit": commit, "subject": subject, "files": files}) // texts
	return tool.Result{
		Text:      fmt.Sprintf("Committed as %s. Files: %d.", commit, len(files)),
		Summary:   fmt.Sprintf("Committed as %.12s, files: %d", commit, len(files)),
		Data:      value,
		Sources:   []tool.Source{{URI: commit, Type: record.SourceCommit, Description: tool.Cut(subject, 300)}},
		Artifacts: []tool.Artifact{{Name: "commit", Type: "commit", Value: value}},
	}
}

// trailer is the last line of the message of a commit that a call made: it names the call.
const trailer = "Actlog-Call"

var (
	trailerLine = regexp.MustCompile(`(?im)^[ \t]*` + trailer + `[ \t]*:`)
	// trailers are the last lines of a message, if they all are trailers.
	trailers = regexp.MustCompile(`\n\n(?:[A-Za-z0-9-]+: .*\n)+$`)
	// callID is what the id of a call must look like to be found again.
	callID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}$`)
)

// withTrailer returns the message of a commit that names the call.
func withTrailer(message, id string) string {
	message = strings.TrimRight(message, " \t\r\n") + "\n"
	if !callID.MatchString(id) {
		return message
	}
	if !trailers.MatchString(message) {
		message += "\n"
	}
	return message + trailer + ": " + id + "\n"
}

// maxSearched bounds the commits among which one is looked for: those of calls are among the newest.
const maxSearched = 1000

func (o *opened) committed(ctx context.Context, id string) (tool.Result, bool, error) {
	if !callID.MatchString(id) {
		return tool.Result{}, false, nil
	}

	starts := []string{"--branches"}
	if _, err := o.hashOf(ctx, "HEAD^{commit}"); err == nil {
		starts = append(starts, "HEAD")
	}
	out, err := o.logOf(ctx, slices.Concat([]string{
		"-z", "--no-patch", "-n", fmt.Sprint(maxSearched),
		"--format=%H %(trailers:key=" + trailer + ",valueonly,separator=%x20)",
	}, starts, []string{"--"})...)
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, false, err
	}

	for line := range strings.SplitSeq(string(out), "\x00") {
		fields := strings.Fields(line)
		if len(fields) > 1 && slices.Contains(fields[1:], id) {
			result, err := o.madeBefore(ctx, fields[0])
			return result, err == nil, err
		}
	}
	return tool.Result{}, false, nil
}

// madeBefore returns the result of a call that made a commit.
func (o *opened) madeBefore(ctx context.Context, commit string) (tool.Result, error) {
	message, err := o.logOf(ctx, "-1", "--no-patch", "--format=%s", commit, "--")
	if err != nil {
		return tool.Result{}, err
	}

	parent, err := o.parentOf(ctx, commit)
	if err != nil {
		return tool.Result{}, err
	}
	e, err := o.entries(ctx, parent, commit)
	if err != nil {
		return tool.Result{}, err
	}
	return commitResult(commit, string(message), e.paths()), nil
}

func commitTouches(ctx context.Context, o *opened, in commitArguments) ([]string, error) {
	if len(in.Files) > 0 {
		return in.Files, nil
	}

	paths, err := o.staged(ctx, nil)
	if errors.Is(err, errTooLong) {
		return paths, nil
	}
	return paths, err
}
