package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

type showArguments struct {
	Revision  string `json:"revision,omitempty" jsonschema:"a commit, branch, tag or stash; HEAD if it is missing"`
	Path      string `json:"path,omitempty" jsonschema:"the text of this file as it was there, or what was in this folder; the commit and what it changed if it is missing"`
	LineStart int    `json:"line_start,omitempty" jsonschema:"of the text of a file: from this line, which counts from 1"`
	LineEnd   int    `json:"line_end,omitempty" jsonschema:"of the text of a file: up to this line"`
}

func (o *opened) show(ctx context.Context, in showArguments) (result tool.Result, err error) {
	in.Revision = cmp.Or(in.Revision, "HEAD")
	if in.Path != "" {
		if err := checkPath("path", in.Path); err != nil {
			return result, err
		}
		if err := o.allowed.Secret(in.Path); err != nil {
			return result, err
		}
	}

	commit, err := o.commitOf(ctx, "revision", in.Revision)
	switch {
	case err != nil:
		return result, err
	case in.Path != "":
		return o.fileAt(ctx, commit, in)
	}
	return o.commitAt(ctx, commit)
}

// commitAt returns a commit, and what it changed since its first parent.
func (o *opened) commitAt(ctx context.Context, commit string) (tool.Result, error) {
	out, err := o.logOf(ctx, "-1", "-z", "--no-patch",
		"--format=commit %H%nparents %P%nauthor %an <%ae> %aI%ncommitter %cn <%ce> %cI%n%n%B", commit, "--")
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}

	parent, err := o.parentOf(ctx, commit)
	if err != nil {
		return tool.Result{}, err
	}
	c, err := o.changes(ctx, []string{parent, commit})
	if err != nil {
		return tool.Result{}, err
	}

	head := tool.Cut(strings.Trim(string(out), "\x00\n"), maxMessage)
	c.patch = tool.Cut(c.patch, tool.MaxText-maxMessage-10_000)
	return tool.Result{
		Text:    head + "\n\n" + c.shown(),
		Summary: fmt.Sprintf("Commit %.12s, files: %d", commit, c.count()),
		Sources: []tool.Source{{URI: commit, Type: record.SourceCommit}},
	}, nil
}

// maxMessage bounds what is shown of a commit besides what it changed, in bytes.
const maxMessage = 16 << 10

// parentOf returns the first parent of a commit; of the first commit, the tree that has nothing.
func (o *opened) parentOf(ctx context.Context, commit string) (string, error) {
	if parent, err := o.hashOf(ctx, commit+"^1"); err == nil {
		return parent, nil
	}
	return o.emptyTree(ctx)
}

// fileAt returns the text of a file, or what is in a folder, as a commit has it.
func (o *opened) fileAt(ctx context.Context, commit string, in showArguments) (tool.Result, error) {
	path := strings.TrimSuffix(cleanPath(in.Path), "/")
	if path == "." {
		return o.folderAt(ctx, commit, "")
	}

	out, err := o.execute(ctx, "ls-tree", "-z", "--full-tree", commit, "--", path)
	if err != nil {
		return tool.Result{}, err
	}
	// It is <mode> <type> <hash>, and the path.
	about, _, _ := strings.Cut(string(out), "\t")
	fields := strings.Fields(about)
	if len(fields) != 3 {
		return tool.Result{}, fmt.Errorf("path: %s is not in %s", shown(path), in.Revision)
	}

	switch fields[1] {
	case "tree":
		return o.folderAt(ctx, commit, path+"/")
	case "commit":
		return tool.Result{Text: fmt.Sprintf("%s is a submodule at commit %s.", shown(path), fields[2])}, nil
	}

	text, err := o.execute(ctx, "cat-file", "blob", fields[2])
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}
	if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return tool.Result{}, fmt.Errorf("path: %s is not a text", shown(path))
	}
	return fileResult(commit, path, string(text), err != nil, in)
}

func fileResult(commit, path, text string, more bool, in showArguments) (tool.Result, error) {
	first, last := max(in.LineStart, 1), in.LineEnd
	lines := strings.SplitAfter(text, "\n")
	if last <= 0 {
		last = len(lines)
	}
	if first > len(lines) || last < first {
		return tool.Result{}, fmt.Errorf("line_start: there are no such lines; the file has %d", len(lines))
	}
	last = min(last, len(lines))

	shownText := tool.Cut(strings.Join(lines[first-1:last], ""), tool.MaxText-200)
	if more {
		shownText += "\n... (the file has more than 1 MiB; its end is not shown)\n"
	}
	return tool.Result{
		Text:    shownText,
		Summary: fmt.Sprintf("%s at %.12s", shown(path), commit),
		Sources: []tool.Source{
			{URI: path, Type: record.SourceFile, LineStart: first, LineEnd: last, Description: "at commit " + commit},
		},
	}, nil
}

// folderAt lists what is in a folder, which ends with "/", or is empty for all.
func (o *opened) folderAt(ctx context.Context, commit, folder string) (tool.Result, error) {
	arguments := []string{"ls-tree", "-z", "--full-tree", commit, "--"}
	if folder != "" {
		arguments = append(arguments, folder)
	}

	out, err := o.execute(ctx, arguments...)
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}

	var text strings.Builder
	for line := range strings.SplitSeq(string(out), "\x00") {
		about, path, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		text.WriteString(shown(path))
		if strings.Contains(about, " tree ") {
			text.WriteByte('/')
		}
		text.WriteByte('\n')
	}
	return tool.Result{Text: text.String(), Summary: fmt.Sprintf("Entries: %d", strings.Count(text.String(), "\n"))}, nil
}
