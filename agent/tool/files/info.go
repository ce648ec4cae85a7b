package files

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type infoArguments struct {
	Path string `json:"path" jsonschema:"file or folder, relative to the top folder"`
}

type info struct {
	Path     string `json:"path"` // without links
	Type     string `json:"type"` // text, binary, folder
	Size     int64  `json:"size"` // bytes; of a folder how many files and folders are directly in it
	Lines    *int   `json:"lines,omitempty"`
	LineEnds string `json:"lineEnds,omitempty"` // CRLF, if the lines end so
	Mode     string `json:"mode"`
	Modified string `json:"modified"`
}

func (f *Folder) info(_ context.Context, in infoArguments) (tool.Result, error) {
	at, err := f.at.Resolve(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	found, err := f.at.Lstat(at)
	if err != nil {
		return tool.Result{}, folder.Plain(at, err)
	}

	known := info{Path: at, Size: found.Size(), Mode: found.Mode().String(),
		Modified: found.ModTime().UTC().Format(time.RFC3339)}
	if err := f.describe(&known, found); err != nil {
		return tool.Result{}, err
	}
	data, err := json.Marshal(known)
	return tool.Result{Text: string(data), Data: data, Summary: fmt.Sprintf("%s is a %s", at, known.what())}, err
}

// describe adds what only a look inside says.
func (f *Folder) describe(known *info, found fs.FileInfo) error {
	if found.IsDir() {
		entries, err := f.at.Entries(known.Path)
		known.Type, known.Size = "folder", int64(entries)
		return err
	}

	known.Type = "text"
	_, content, _, err := f.at.Content(known.Path)
	switch {
	case err != nil && found.Size() > folder.MaxFile && f.at.Available(known.Path, found) == nil:
		known.Type = "large"
		return nil
	case err != nil:
		return err
	case folder.Binary(content):
		known.Type = "binary"
		return nil
	}
	known.Lines = new(len(splitLines(string(content))))
	if bytes.Contains(content, []byte("\r\n")) {
		known.LineEnds = "CRLF"
	}
	return nil
}

func (i info) what() string {
	switch {
	case i.Type == "folder":
		return fmt.Sprintf("folder with %d entries", i.Size)
	case i.Lines != nil:
		return fmt.Sprintf("text of %s", count(*i.Lines, "line", "lines"))
	}
	return fmt.Sprintf("%s file of %d bytes", i.Type, i.Size)
}
