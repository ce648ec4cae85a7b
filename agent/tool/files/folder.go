package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Folder is a folder with the tools for its files. Close it when no tool is called any more.
type Folder struct {
	root    *os.Root
	options Options
	writing sync.Mutex // an edit reads a file and replaces it
}

// Options of a Folder.
type Options struct {
	// Write adds files.write_file and files.edit_file. Their policy asks for approval.
	Write bool
}

// Open returns the folder at a path of this machine.
func Open(dir string, o Options) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	return &Folder{root: root, options: o}, nil
}

// Close gives the folder up. Its tools fail from then on.
func (f *Folder) Close() error { return f.root.Close() }

// maxLinks bounds the symbolic links of a path.
const maxLinks = 40

// resolve returns the path of a file relative to the folder, with "/" and without symbolic links.
// The file itself, and folders above it, may be missing.
func (f *Folder) resolve(name string) (string, error) {
	left := filepath.ToSlash(name)
	if path.IsAbs(left) || filepath.IsAbs(name) {
		return "", fmt.Errorf("%s: the path must be relative to the folder", name)
	}
	at := "."
	for links := 0; ; {
		left = path.Clean(left)
		first, rest, _ := strings.Cut(left, "/")
		switch {
		case first == "..":
			return "", fmt.Errorf("%s: the path leaves the folder", name)
		case strings.EqualFold(first, ".git"):
			return "", fmt.Errorf("%s: files of git are not available", name)
		}
		next := path.Join(at, first)
		if info, err := f.root.Lstat(filepath.FromSlash(next)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			target, err := f.root.Readlink(filepath.FromSlash(next))
			if err != nil {
				return "", plain(name, err)
			}
			if links++; links > maxLinks {
				return "", fmt.Errorf("%s: too many symbolic links", name)
			}
			if target = filepath.ToSlash(target); path.IsAbs(target) || filepath.IsAbs(target) {
				return "", fmt.Errorf("%s: the path leaves the folder through a symbolic link", name)
			}
			// The target is relative to the folder of the link. Begin again from the top, so that
			// ".." in it cannot pass unseen.
			left, at = path.Join(at, target, rest), "."
			continue
		}
		if rest == "" {
			return next, nil
		}
		at, left = next, rest
	}
}

// open opens a regular file for reading.
func (f *Folder) open(name string) (at string, file *os.File, info fs.FileInfo, err error) {
	if at, err = f.resolve(name); err != nil {
		return "", nil, nil, err
	}
	// Opening a pipe would wait for its writer.
	if file, err = f.root.OpenFile(filepath.FromSlash(at), os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return "", nil, nil, plain(at, err)
	}
	if info, err = file.Stat(); err == nil {
		switch {
		case info.IsDir():
			err = fmt.Errorf("%s is a folder; files.list_files lists it", at)
		case !info.Mode().IsRegular():
			err = fmt.Errorf("%s is not a regular file", at)
		}
	}
	if err != nil {
		file.Close()
		return "", nil, nil, plain(at, err)
	}
	return at, file, info, nil
}

// plain returns an error of the file system in words for a model.
func plain(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file or folder", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied", name)
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", name, cause.Err)
	}
	return err
}

// binary reports whether the beginning of a file is not of a text.
func binary(begin []byte) bool { return bytes.IndexByte(begin[:min(len(begin), sniffed)], 0) >= 0 }

// sniffed is how much of a file says whether it is a text, as git has it.
const sniffed = 8000

// maxFile bounds the files that are searched and edited.
const maxFile = 10 << 20

// included reports whether a file is asked for: a glob with "/" is compared with the path, another
// one with the name.
func included(glob, at string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		at = path.Base(at)
	}
	ok, err := path.Match(glob, at)
	return ok && err == nil
}

func checkGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("include: %q is not a pattern such as *.go", glob)
	}
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
