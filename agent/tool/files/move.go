package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type moveArguments struct {
	From      string `json:"from" jsonschema:"file or folder, relative to the top folder"`
	To        string `json:"to" jsonschema:"its new path, with its name; folders above it are made"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace the file that is at the new path; otherwise nothing may be there"`
}

func (f *Folder) move(_ context.Context, in moveArguments) (change, error) {
	from, info, err := f.at.Entry(in.From)
	if err == nil && info == nil {
		err = fmt.Errorf("from: %s: no such file or folder", from)
	}
	if err != nil {
		return change{}, err
	}

	to, there, err := f.at.Entry(in.To)
	if err == nil {
		err = in.allowed(from, to, info, there)
	}
	if err != nil {
		return change{}, err
	}

	c := change{
		summary: fmt.Sprintf("Moved %s to %s", from, to), paths: []string{from, to}, parts: []string{from, to},
		do: func() error { return f.at.Move(from, info, to) },
	}
	if info.IsDir() {
		return f.moveFolder(c, from, to)
	}
	return f.moveFile(c, info, there)
}

// allowed returns an error if the new path of a file or folder is not free.
func (in moveArguments) allowed(from, to string, info, there fs.FileInfo) error {
	switch {
	case from == to:
		return errors.New("to: it is the same path as from")
	case strings.HasPrefix(to, from+"/"):
		return fmt.Errorf("to: %s is in the folder that is moved", to)
	case there == nil:
		return nil

	case there.IsDir():
		return fmt.Errorf("to: %s is a folder; add the new name to it, such as %[1]s/%s", to, path.Base(from))
	case info.IsDir():
		return fmt.Errorf("to: %s is a file, and a folder replaces none", to)
	case !in.Overwrite:
		return fmt.Errorf("to: %s is there already; take another path, or set overwrite", to)
	}
	return nil
}

// moveFile completes the change of a file that is moved, perhaps over another one.
func (f *Folder) moveFile(c change, info, there fs.FileInfo) (change, error) {
	from, to := c.paths[0], c.paths[1]
	if err := errors.Join(f.at.Available(from, info), f.at.Available(to, there)); err != nil {
		return change{}, err
	}

	fingerprint, _, err := f.fingerprint(from, info)
	if err != nil {
		return change{}, err
	}
	c.parts = append(c.parts, fingerprint)
	if there == nil {
		c.parts = append(c.parts, "none")
		c.show = func() string { return renamed(from, to) }
		return c, nil
	}

	over, lost, err := f.fingerprint(to, there)
	c.parts = append(c.parts, over)
	c.show = func() string { return renamed(from, to) + "The file at the new path is lost:\n" + removal(to, lost) }
	return c, err
}

func renamed(from, to string) string { return fmt.Sprintf("rename from %s\nrename to %s\n", from, to) }

// fingerprint says what a file is, and returns its content unless it is large.
func (f *Folder) fingerprint(at string, info fs.FileInfo) (print string, content []byte, err error) {
	if info.Size() > folder.MaxFile {
		return stamp(info), nil, nil
	}
	if _, content, _, err = f.at.Content(at); err != nil {
		return "", nil, err
	}
	return digest(content), content, nil
}

// moveFolder completes the change of a folder that is moved, with all that is in it.
func (f *Folder) moveFolder(c change, from, to string) (change, error) {
	all, paths, err := f.at.Below(from, to)
	if err != nil {
		return change{}, err
	}

	for i, each := range all {
		what := "folder"
		if !each.IsDir() {
			what = stamp(each)
		}
		c.parts = append(c.parts, paths[i], what)
	}
	c.show = func() string {
		return fmt.Sprintf("%sThe folder has %s in it:\n%s\n", renamed(from, to), count(len(all), "entry", "entries"),
			strings.Join(paths, "\n"))
	}
	return c, errors.Join(f.at.Secret(from), f.at.Secret(to))
}

func (f *Folder) moved(_ context.Context, in moveArguments) (change, bool, error) {
	from, info, err := f.at.Entry(in.From)
	if err != nil {
		return change{}, false, err
	}
	to, there, err := f.at.Entry(in.To)
	c := change{summary: fmt.Sprintf("Moved %s to %s", from, to), paths: []string{from, to}}
	return c, err == nil && info == nil && there != nil, err
}
