package files

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type globArguments struct {
	Pattern string `json:"pattern" jsonschema:"pattern of paths below path: **/*.go, src/**/test_*.py, {cmd,internal}/*/main.go; one that ends in / is for folders"`
	Path    string `json:"path,omitempty" jsonschema:"folder in which to look; the top folder if it is missing"`
}

func (f *Folder) glob(ctx context.Context, in globArguments) (tool.Result, error) {
	pattern, wantsFolders := strings.CutSuffix(in.Pattern, "/")
	wanted, err := folder.ReadGlob(pattern)
	if err != nil {
		return tool.Result{}, fmt.Errorf("pattern: %w", err)
	}
	top, err := f.at.Resolve(in.Path)
	if err != nil {
		return tool.Result{}, err
	}

	var text strings.Builder
	found, more := 0, false
	_, err = f.at.Walk(ctx, top, "", func(at string, d fs.DirEntry) error {
		below := at
		if top != "." {
			below = strings.TrimPrefix(at, top+"/")
		}
		if d.IsDir() != wantsFolders || !wanted.Match(below) {
			return nil
		}
		if found == maxEntries || text.Len() > maxText {
			more = true
			return fs.SkipAll
		}

		if d.IsDir() {
			at += "/"
		}
		text.WriteString(at + "\n")
		found++
		return nil
	})
	if err != nil {
		return tool.Result{}, err
	}

	if more {
		fmt.Fprintf(&text, "... (only the first %d; look in one of the folders instead)\n", found)
	}
	if found == 0 {
		text.WriteString("Nothing matches.")
	}
	what := count(found, "file", "files")
	if wantsFolders {
		what = count(found, "folder", "folders")
	}
	return tool.Result{Text: text.String(), Summary: fmt.Sprintf("Found %s in %s", what, top)}, nil
}
