package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type writeArguments struct {
	Path    string `json:"path" jsonschema:"file, relative to the top folder"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
}

func (in writeArguments) summary(at string) string {
	return fmt.Sprintf("Wrote %s to %s", count(len(splitLines(in.Content)), "line", "lines"), at)
}

func (f *Folder) write(_ context.Context, in writeArguments) (change, error) {
	if len(in.Content) > folder.MaxFile {
		return change{}, fmt.Errorf("content: it has more than %d MiB", folder.MaxFile>>20)
	}
	at, before, info, err := f.current(in.Path)
	if err != nil {
		return f.writeOver(in, err)
	}
	return f.replacing(at, before, []byte(in.Content), info, in.summary(at))
}

// writeOver returns the change of a file that is too large to be shown. err is why it could not be read.
func (f *Folder) writeOver(in writeArguments, err error) (change, error) {
	at, info := f.large(in.Path)
	if info == nil {
		return change{}, err
	}

	c, err := f.replacing(at, nil, []byte(in.Content), info, in.summary(at))
	c.parts = append(c.parts, stamp(info))
	c.show = func() string {
		return fmt.Sprintf("--- a/%s\n+++ b/%[1]s\nThe file of %d bytes is replaced:\n%s", at, info.Size(), in.Content)
	}
	return c, err
}

// large describes a file that has more bytes than the tools read; nil: it is none.
func (f *Folder) large(name string) (at string, info fs.FileInfo) {
	at, err := f.at.Resolve(name)
	if err != nil {
		return "", nil
	}
	info, err = f.at.Lstat(at)
	if err != nil || f.at.Available(at, info) != nil || info.Size() <= folder.MaxFile {
		return "", nil
	}
	return at, info
}

func (f *Folder) written(_ context.Context, in writeArguments) (change, bool, error) {
	at, now, info, err := f.current(in.Path)
	if err != nil || info == nil || string(now) != in.Content {
		return change{}, false, err
	}
	return change{summary: in.summary(at), paths: []string{at}}, true, nil
}

type appendArguments struct {
	Path    string `json:"path" jsonschema:"file, relative to the top folder; it is made if it is missing"`
	Content string `json:"content" jsonschema:"the text to add, exactly; begin it with a new line if the last line of the file does not end"`
}

func (in appendArguments) summary(at string) string {
	return fmt.Sprintf("Added %s to %s", count(len(splitLines(in.Content)), "line", "lines"), at)
}

func (f *Folder) add(_ context.Context, in appendArguments) (change, error) {
	if in.Content == "" {
		return change{}, errors.New("content: it is empty")
	}

	at, before, info, err := f.current(in.Path)
	if err != nil {
		return change{}, err
	}
	if folder.Binary(before) {
		return change{}, fmt.Errorf("%s is a binary file, not a text", at)
	}
	after := append(bytes.Clone(before), in.Content...)
	return f.replacing(at, before, after, info, in.summary(at))
}

// added reports whether the text is at the end of the file. If it is there, and others added more, nobody can tell
// whose it is.
func (f *Folder) added(_ context.Context, in appendArguments) (change, bool, error) {
	at, now, _, err := f.current(in.Path)
	switch {
	case err != nil:
		return change{}, false, err
	case bytes.HasSuffix(now, []byte(in.Content)):
		return change{summary: in.summary(at), paths: []string{at}}, true, nil
	case bytes.Contains(now, []byte(in.Content)):
		return change{}, false, fmt.Errorf("the text is in %s, and not at its end: %w", at, tool.ErrUnknown)
	}
	return change{}, false, nil
}
