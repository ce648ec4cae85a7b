package code

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/folder"
)

type applyArguments struct {
	Patch string `json:"patch" jsonschema:"a unified diff that changes files, with --- a/path, +++ b/path and @@ -1,3 +1,4 @@ before the lines, such as code.suggest_refactoring returns"`
}

// change is a file with its new content.
type change struct {
	at      string
	content string
	info    fs.FileInfo
}

func (f *Folder) apply(ctx context.Context, in applyArguments) (tool.Result, error) {
	f.at.Lock()
	defer f.at.Unlock()
	changes, err := f.changes(ctx, in.Patch)
	if err != nil {
		return tool.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	var paths []string
	for _, c := range changes {
		if err := f.at.Replace(c.at, []byte(c.content), c.info); err != nil {
			if len(paths) > 0 {
				err = fmt.Errorf("%w; these files are changed already: %s", err, strings.Join(paths, ", "))
			}
			return tool.Result{}, err
		}
		paths = append(paths, c.at)
	}
	value, err := json.Marshal(paths)
	summary := "Refactored " + strings.Join(paths, ", ")
	return tool.Result{Text: summary + ".", Summary: summary, Artifacts: []tool.Artifact{{Name: "files_modified", Type: "files", Value: value}}}, err
}

// changes returns what a patch makes of the files as they are.
func (f *Folder) changes(ctx context.Context, patch string) (changes []change, err error) {
	files, err := readPatch(patch)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range files {
		at, content, info, err := f.at.Content(p.path)
		if err != nil {
			return nil, err
		}
		if seen[at] {
			return nil, fmt.Errorf("patch: %s is there twice", at)
		}
		seen[at] = true
		if folder.Binary(content) {
			return nil, fmt.Errorf("%s is a binary file, not a text", at)
		}
		after, err := p.apply(string(content))
		if err != nil {
			return nil, err
		}
		if len(after) > folder.MaxFile {
			return nil, fmt.Errorf("%s would have more than %d MiB", at, folder.MaxFile>>20)
		}
		if err := breaks(ctx, at, string(content), after); err != nil {
			return nil, err
		}
		changes = append(changes, change{at, after, info})
	}
	return changes, nil
}

// touched returns the files that a patch would change.
func (f *Folder) touched(ctx context.Context, in applyArguments) (paths []string, err error) {
	changes, err := f.changes(ctx, in.Patch)
	for _, c := range changes {
		paths = append(paths, c.at)
	}
	return paths, err
}
