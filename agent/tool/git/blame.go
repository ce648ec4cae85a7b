package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

type blameArguments struct {
	Path      string `json:"path" jsonschema:"the file"`
	Revision  string `json:"revision,omitempty" jsonschema:"as the file was at this commit, branch or tag; HEAD if it is missing. What is not committed does not count"`
	LineStart int    `json:"line_start,omitempty" jsonschema:"from this line, which counts from 1"`
	LineEnd   int    `json:"line_end,omitempty" jsonschema:"up to this line; at most 500 lines are shown"`
}

const maxBlamed = 500

func cleanPath(at string) string { return path.Clean(filepath.ToSlash(at)) }

func (o *opened) blame(ctx context.Context, in blameArguments) (result tool.Result, err error) {
	in.Revision = cmp.Or(in.Revision, "HEAD")
	if err := checkPath("path", in.Path); err != nil {
		return result, err
	}
	if err := o.allowed.Secret(in.Path); err != nil {
		return result, err
	}

	first := max(in.LineStart, 1)
	last := in.LineEnd
	if last <= 0 || last-first >= maxBlamed {
		last = first + maxBlamed - 1
	}
	if last < first {
		return result, errors.New("line_end: it is before line_start")
	}

	commit, err := o.commitOf(ctx, "revision", in.Revision)
	if err != nil {
		return result, err
	}
	out, err := o.execute(ctx, "blame", "--porcelain", "--no-textconv", "-L", fmt.Sprintf("%d,%d", first, last), commit,
		"--", cleanPath(in.Path))
	if err != nil && !errors.Is(err, errTooLong) {
		return result, err
	}

	b := blamed(string(out))
	result = b.result(first)
	if b.last == last && in.LineEnd > last {
		result.Text += fmt.Sprintf("... (and more; continue with line_start %d)\n", last+1)
	}
	return result, nil
}

// blamedLines are lines that follow each other and come from one commit.
type blamedLines struct {
	commit string
	lines  []string
}

// blamedCommit is what is said of a commit once.
type blamedCommit struct{ author, when, summary string }

type parsedBlame struct {
	groups  []blamedLines
	commits map[string]blamedCommit
	last    int // the number of the last line
}

// result returns the lines in groups, each with its commit.
func (b parsedBlame) result(first int) tool.Result {
	var text strings.Builder
	result := tool.Result{Summary: fmt.Sprintf("Lines: %d, commits: %d", b.last-first+1, len(b.commits))}
	n := first
	for _, group := range b.groups {
		c := b.commits[group.commit]
		fmt.Fprintf(&text, "%.12s %s %s: %s\n", group.commit, c.when, c.author, c.summary)
		for _, line := range group.lines {
			fmt.Fprintf(&text, "%6d  %s\n", n, line)
			n++
		}

		if len(result.Sources) < maxNamed {
			result.Sources = append(result.Sources, tool.Source{
				URI: group.commit, Type: record.SourceCommit, Description: tool.Cut(c.summary, 300),
			})
		}
	}

	if len(b.groups) == 0 {
		text.WriteString("There are no such lines.")
	}
	result.Text = text.String()
	return result
}

// blamed reads what git blame --porcelain writes.
func blamed(out string) parsedBlame {
	b := parsedBlame{commits: map[string]blamedCommit{}}
	var commit string
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			b.add(commit, text)
			continue
		}

		key, value, _ := strings.Cut(line, " ")
		c := b.commits[commit]
		switch key {
		case "author":
			c.author = value
		case "author-time":
			seconds, _ := strconv.ParseInt(value, 10, 64)
			c.when = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
		case "summary":
			c.summary = value
		default:
			if fields := strings.Fields(value); commitName.MatchString(key) && len(fields) > 1 {
				commit = key
				b.last, _ = strconv.Atoi(fields[1])
			}
			continue
		}
		b.commits[commit] = c
	}
	return b
}

func (b *parsedBlame) add(commit, line string) {
	if n := len(b.groups); n > 0 && b.groups[n-1].commit == commit {
		b.groups[n-1].lines = append(b.groups[n-1].lines, line)
		return
	}
	b.groups = append(b.groups, blamedLines{commit, []string{line}})
}
