package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

type logArguments struct {
	Path     string `json:"path,omitempty" jsonschema:"only commits that changed this file or folder"`
	Revision string `json:"revision,omitempty" jsonschema:"the commits of this branch, or of a range such as main..feature; HEAD if it is missing"`
	MaxCount int    `json:"max_count,omitempty" jsonschema:"at most this many commits; 10 if it is missing"`
}

const maxCommits = 200

func (o *opened) log(ctx context.Context, in logArguments) (tool.Result, error) {
	n := in.MaxCount
	if n <= 0 {
		n = 10
	}

	revision, path, err := limits(in.Revision, in.Path)
	if err != nil {
		return tool.Result{}, err
	}

	arguments := []string{"-z", "--no-patch", "--format=%H%x1f%an%x1f%aI%x1f%s", "-n", strconv.Itoa(min(n, maxCommits))}
	out, err := o.logOf(ctx, slices.Concat(arguments, revision, path)...)
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
		result.Sources = append(result.Sources, tool.Source{
			URI: fields[0], Type: record.SourceCommit, Description: tool.Cut(fields[3], 300),
		})
	}

	if text.Len() == 0 {
		text.WriteString("There are no such commits.")
	}
	result.Text, result.Summary = text.String(), fmt.Sprintf("Commits: %d", len(result.Sources))
	return result, nil
}
