package files

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type deleteArguments struct {
	Path string `json:"path" jsonschema:"file or empty folder, relative to the top folder"`
}

func (f *Folder) remove(_ context.Context, in deleteArguments) (change, error) {
	at, info, err := f.at.Entry(in.Path)
	if err == nil && info == nil {
		err = fmt.Errorf("%s: no such file or folder", at)
	}
	if err != nil {
		return change{}, err
	}

	c := change{summary: "Deleted " + at, paths: []string{at}, parts: []string{at},
		do: func() error { return f.at.Remove(at, info) }}
	if info.IsDir() {
		return f.removeFolder(c, at)
	}

	if err := f.at.Available(at, info); err != nil {
		return change{}, err
	}
	if info.Size() > folder.MaxFile {
		c.parts = append(c.parts, stamp(info))
		c.show = func() string {
			return fmt.Sprintf("--- a/%s\n+++ /dev/null\nThe file has %d bytes.\n", at, info.Size())
		}
		return c, nil
	}

	_, content, _, err := f.at.Content(at)
	c.parts = append(c.parts, digest(content))
	c.show = func() string { return removal(at, content) }
	return c, err
}

// removeFolder returns the change of a folder that is deleted, which must be empty.
func (f *Folder) removeFolder(c change, at string) (change, error) {
	n, err := f.at.Entries(at)
	if err == nil && n > 0 {
		err = fmt.Errorf("%s is a folder with %s in it; only an empty one is deleted, so delete these first", at,
			count(n, "entry", "entries"))
	}
	c.parts = append(c.parts, "folder")
	c.show = func() string { return fmt.Sprintf("The empty folder %s is deleted.\n", at) }
	return c, err
}

func (f *Folder) removed(_ context.Context, in deleteArguments) (change, bool, error) {
	at, info, err := f.at.Entry(in.Path)
	return change{summary: "Deleted " + at, paths: []string{at}}, err == nil && info == nil, err
}

type makeFolderArguments struct {
	Path string `json:"path" jsonschema:"folder, relative to the top folder; those above it are made, too"`
}

func (f *Folder) makeFolder(_ context.Context, in makeFolderArguments) (change, error) {
	at, info, err := f.folderAt(in.Path)
	if err != nil {
		return change{}, err
	}

	c := change{summary: "Made the folder " + at, paths: []string{at}, parts: []string{at},
		do: func() error { return f.at.MakeFolder(at) }}
	c.show = func() string { return fmt.Sprintf("The folder %s is made.\n", at) }
	if info != nil {
		c.summary = "The folder " + at + " is there already"
		c.show = func() string { return c.summary + ".\n" }
	}
	return c, f.at.Secret(at)
}

// folderAt returns the path of a folder, and what is there; nil: nothing. A file there is an error.
func (f *Folder) folderAt(name string) (at string, info fs.FileInfo, err error) {
	if at, info, err = f.at.Entry(name); err != nil {
		return "", nil, err
	}
	if info != nil && !info.IsDir() {
		return "", nil, fmt.Errorf("%s is a file, not a folder", at)
	}
	return at, info, nil
}

func (f *Folder) folderMade(_ context.Context, in makeFolderArguments) (change, bool, error) {
	at, info, err := f.folderAt(in.Path)
	return change{summary: "Made the folder " + at, paths: []string{at}}, err == nil && info != nil, err
}
