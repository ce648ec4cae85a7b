package files

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

const maxEntries = 1000

type listArguments struct {
	Path      string `json:"path,omitempty" jsonschema:"folder to list; the top folder if it is missing"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"also list what is in its folders"`
	Include   string `json:"include,omitempty" jsonschema:"only files with this pattern, for example *.go, or with the path src/*.go"`
}

func (f *Folder) list(ctx context.Context, in listArguments) (tool.Result, error) {
	var text strings.Builder
	entries, more := 0, false
	at, err := f.at.Walk(ctx, in.Path, in.Include, func(at string, d fs.DirEntry) error {
		if d.IsDir() && in.Include == "" {
			at += "/"
		}
		if entries == maxEntries || text.Len() > maxText {
			more = true
			return fs.SkipAll
		}

		if !d.IsDir() || in.Include == "" {
			text.WriteString(at + "\n")
			entries++
		}
		if d.IsDir() && !in.Recursive {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return tool.Result{}, err
	}

	if more {
		fmt.Fprintf(&text, "... (only the first %d; list one of the folders instead)\n", entries)
	}
	if entries == 0 {
		text.WriteString("There are no files.")
	}
	return tool.Result{Text: text.String(),
		Summary: fmt.Sprintf("Listed %s in %s", count(entries, "entry", "entries"), at)}, nil
}
