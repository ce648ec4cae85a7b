// Package folder reads and writes the files of one folder of this machine, for tools that models call. No
// path leaves the folder, neither by "..", nor as an absolute path, nor through symbolic or hard links. Folders
// with the name .git are not there: what is written into them can make git run programs. Files that may hold
// secrets are neither read nor written, unless they are allowed; those of the server never are. Errors are in words for
// models.
package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Folder is a folder. Close it when nobody needs it any more.
type Folder struct {
	root    *os.Root
	allowed Allowed
	// writing is held by whoever reads a file and replaces it.
	writing *sync.Mutex
}

// writing has one lock for all that is open of a folder in this process.
var writing sync.Map // of *sync.Mutex, by absolute path

// Open returns the folder at a path. allow are patterns of the files in it that are available although they may
// hold secrets or have other names (see Allow).
func Open(dir string, allow ...string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}

	at, err := filepath.Abs(dir)
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("open folder: %w", err)
	}
	lock, _ := writing.LoadOrStore(at, new(sync.Mutex))
	return &Folder{root: root, allowed: Allow(at, allow...), writing: lock.(*sync.Mutex)}, nil
}

// Hide makes files and folders of this machine unavailable, whatever is allowed, and whether they are there yet or not.
// Call it before the folder is used.
func (f *Folder) Hide(paths ...string) { f.allowed = f.allowed.Hide(paths...) }

// Close gives the folder up. Everything fails from then on.
func (f *Folder) Close() error { return f.root.Close() }

// Lock keeps others of this process from changing files, until Unlock.
func (f *Folder) Lock() { f.writing.Lock() }

// Unlock ends Lock.
func (f *Folder) Unlock() { f.writing.Unlock() }

// Lstat describes what stands at a resolved path. It does not follow links.
func (f *Folder) Lstat(at string) (fs.FileInfo, error) {
	return f.root.Lstat(filepath.FromSlash(at))
}

const maxLinks = 40

// Resolve returns the path of a file relative to the folder, with "/" and without symbolic links.
// The file itself, and folders above it, may be missing.
func (f *Folder) Resolve(name string) (string, error) {
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
				return "", Plain(name, err)
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

// maxReplaced bounds how often a file is opened that others replace at the same time.
const maxReplaced = 20

// Open opens a regular file for reading.
func (f *Folder) Open(name string) (at string, file *os.File, info fs.FileInfo, err error) {
	if at, err = f.Resolve(name); err != nil {
		return "", nil, nil, err
	}
	for range maxReplaced {
		if file, info, err = f.open(at); !errors.Is(err, errReplaced) {
			break
		}
	}

	if err != nil {
		return "", nil, nil, Plain(at, err)
	}
	return at, file, info, nil
}

// errReplaced says that what was opened is not what was looked at: it may have another name, and be a secret.
var errReplaced = errors.New("it was replaced while it was opened; try again")

func (f *Folder) open(at string) (*os.File, fs.FileInfo, error) {
	// Only opening a device may already do something.
	before, err := f.Lstat(at)
	if err != nil {
		return nil, nil, err
	}
	if err := f.Available(at, before); err != nil {
		return nil, nil, err
	}

	// Opening a pipe would wait for its writer.
	file, err := f.root.OpenFile(filepath.FromSlash(at), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}

	info, err := file.Stat()
	switch {
	case err != nil:
	case !os.SameFile(before, info):
		err = errReplaced
	case ofKernel(file):
		err = fmt.Errorf("%s is not a file of a disk, but made by the kernel, so it is not available", at)
	default:
		err = f.Available(at, info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// Available returns an error if the file at a resolved path must neither be read nor written. info is nil if there
// is none yet.
func (f *Folder) Available(at string, info fs.FileInfo) error {
	switch {
	case info == nil:
	case info.IsDir():
		return fmt.Errorf("%s is a folder, not a file", at)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", at)
	}

	if err := f.allowed.Secret(at); err != nil {
		return err
	}
	if info == nil {
		return nil
	}
	return f.allowed.HardLink(at, info)
}

// Plain returns an error of the file system in words for a model.
func Plain(name string, err error) error {
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

// Binary reports whether the beginning of a file is not of a text.
func Binary(begin []byte) bool { return bytes.IndexByte(begin[:min(len(begin), Sniffed)], 0) >= 0 }

// Sniffed is how much of a file says whether it is a text, as git has it.
const Sniffed = 8000

// MaxFile bounds the files that are searched and edited.
const MaxFile = 10 << 20

// Content returns the whole of a file, if it is not too large.
func (f *Folder) Content(name string) (at string, content []byte, info fs.FileInfo, err error) {
	at, file, info, err := f.Open(name)
	if err != nil {
		return "", nil, nil, err
	}
	defer file.Close()

	if content, err = io.ReadAll(io.LimitReader(file, MaxFile+1)); err != nil {
		return "", nil, nil, Plain(at, err)
	}
	if len(content) > MaxFile {
		return "", nil, nil, fmt.Errorf("%s has more than %d MiB", at, MaxFile>>20)
	}
	return at, content, info, nil
}
