package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/folder"
)

type writeArguments struct {
	Path    string `json:"path" jsonschema:"file, relative to the top folder"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
}

func (f *Folder) write(ctx context.Context, in writeArguments) (tool.Result, error) {
	f.at.Lock()
	defer f.at.Unlock()
	at, err := f.at.Resolve(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if len(in.Content) > folder.MaxFile {
		return tool.Result{}, fmt.Errorf("content: it has more than %d MiB", folder.MaxFile>>20)
	}
	info, err := f.at.Lstat(at)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return tool.Result{}, folder.Plain(at, err)
	case err != nil:
		info = nil
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	if err := f.at.Replace(at, []byte(in.Content), info); err != nil {
		return tool.Result{}, err
	}
	text := strings.TrimSuffix(in.Content, "\n")
	n := 0
	if text != "" {
		n = strings.Count(text, "\n") + 1
	}
	return modified(at, fmt.Sprintf("Wrote %s to %s", count(n, "line", "lines"), at)), nil
}

type editArguments struct {
	Path    string `json:"path" jsonschema:"file, relative to the top folder"`
	Search  string `json:"search" jsonschema:"the part to replace, exactly as it is in the file, with its indentation"`
	Replace string `json:"replace" jsonschema:"what the part is replaced with"`
}

func (f *Folder) edit(ctx context.Context, in editArguments) (tool.Result, error) {
	f.at.Lock()
	defer f.at.Unlock()
	if in.Search == "" {
		return tool.Result{}, errors.New("search: it is empty; files.write_file writes whole files")
	}
	if in.Search == in.Replace {
		return tool.Result{}, errors.New("replace: it is the same as search")
	}
	at, content, info, err := f.at.Content(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if folder.Binary(content) {
		return tool.Result{}, fmt.Errorf("%s is a binary file, not a text", at)
	}
	switch n := bytes.Count(content, []byte(in.Search)); {
	case n == 0 && bytes.Contains(content, []byte("\r\n")):
		return tool.Result{}, fmt.Errorf("search: it is not in %s, whose lines end in CR LF", at)
	case n == 0:
		return tool.Result{}, fmt.Errorf("search: it is not in %s; read the file and copy the part exactly", at)
	case n > 1:
		return tool.Result{}, fmt.Errorf("search: it is in %s %d times; add lines around the part until it is there once", at, n)
	}
	// Count does not see occurrences that overlap.
	if bytes.Index(content, []byte(in.Search)) != bytes.LastIndex(content, []byte(in.Search)) {
		return tool.Result{}, fmt.Errorf("search: it is in %s more than once; add lines around the part until it is there once", at)
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	if err := f.at.Replace(at, bytes.Replace(content, []byte(in.Search), []byte(in.Replace), 1), info); err != nil {
		return tool.Result{}, err
	}
	return modified(at, fmt.Sprintf("Edited %s (1 change)", at)), nil
}

func modified(at, summary string) tool.Result {
	value, err := json.Marshal([]string{at})
	if err != nil {
		return tool.Failure(err.Error())
	}
	return tool.Result{Text: summary + ".", Summary: summary, Artifacts: []tool.Artifact{{Name: "files_modified", Type: "files", Value: value}}}
}
