package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

type writeArguments struct {
	Path    string `json:"path" jsonschema:"file, relative to the top folder"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
}

func (f *Folder) write(ctx context.Context, in writeArguments) (tool.Result, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	at, err := f.resolve(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if len(in.Content) > maxFile {
		return tool.Result{}, fmt.Errorf("content: it has more than %d MiB", maxFile>>20)
	}
	info, err := f.root.Lstat(filepath.FromSlash(at))
	switch {
	case err == nil && info.IsDir():
		return tool.Result{}, fmt.Errorf("%s is a folder", at)
	case err == nil && !info.Mode().IsRegular():
		return tool.Result{}, fmt.Errorf("%s is not a regular file", at)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return tool.Result{}, plain(at, err)
	case err != nil:
		info = nil
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	if err := f.replace(at, []byte(in.Content), info); err != nil {
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
	f.writing.Lock()
	defer f.writing.Unlock()
	if in.Search == "" {
		return tool.Result{}, errors.New("search: it is empty; files.write_file writes whole files")
	}
	if in.Search == in.Replace {
		return tool.Result{}, errors.New("replace: it is the same as search")
	}
	at, content, info, err := f.content(in.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if binary(content) {
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
	if err := f.replace(at, bytes.Replace(content, []byte(in.Search), []byte(in.Replace), 1), info); err != nil {
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

// replace writes a file at once: readers see the whole old or the whole new text. The mode of the old
// file stays. The path must be resolved; before is nil for a new file.
func (f *Folder) replace(at string, content []byte, before fs.FileInfo) (err error) {
	name := filepath.FromSlash(at)
	if before == nil {
		if err := f.root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return plain(path.Dir(at), err)
		}
	}
	temporary := filepath.Join(filepath.Dir(name), ".actlog-"+rand.Text())
	file, err := f.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return plain(at, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(plain(at, err), f.root.Remove(temporary))
		}
	}()
	if before != nil {
		err = file.Chmod(before.Mode().Perm())
	}
	if err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return f.root.Rename(temporary, name)
}
