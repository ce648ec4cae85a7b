package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

type status struct {
	Branch   string `json:"branch,omitempty"` // empty if none is checked out
	Upstream string `json:"upstream,omitempty"`
	Ahead    int    `json:"ahead,omitempty"`
	Behind   int    `json:"behind,omitempty"`
	Files    []file `json:"files"`
}

type file struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"` // of a file that was renamed or copied
	// Change has git's two letters: of the index, and of the working tree. "??" is not tracked.
	Change string `json:"change"`
}

func (o *opened) status(ctx context.Context, _ struct{}) (tool.Result, error) {
	out, err := o.execute(ctx, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal",
		"--ignore-submodules=dirty")
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}

	s := parseStatus(string(out))
	var text strings.Builder
	branch := cmp.Or(s.Branch, "(none: a commit is checked out)")
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
	return tool.Result{
		Text: text.String(), Summary: fmt.Sprintf("Changed files: %d, branch: %s", len(s.Files), branch), Data: data,
	}, err
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
