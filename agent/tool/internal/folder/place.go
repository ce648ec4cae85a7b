package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Entry returns the resolved path of what has a name in the folder, and its description; nil: there is nothing yet.
// Unlike Resolve, it does not follow a link that the name itself is: it is an error, and so is the top folder.
func (f *Folder) Entry(name string) (at string, info fs.FileInfo, err error) {
	clean := path.Clean(filepath.ToSlash(name))
	above, base := path.Split(clean)
	if base == ".." || path.IsAbs(clean) {
		_, err := f.Resolve(name)
		return "", nil, err
	}
	if base == "." {
		return "", nil, fmt.Errorf("%s is the top folder", name)
	}

	if above, err = f.Resolve(above); err != nil {
		return "", nil, err
	}

	at = path.Join(above, base)
	info, err = f.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
	case err != nil:
		return "", nil, Plain(at, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return "", nil, fmt.Errorf("%s is a symbolic link; name the file or folder itself", at)
	}
	_, err = f.Resolve(at) // what belongs to git has no place
	return at, info, err
}

// MakeFolder makes a folder at a resolved path, and those above it.
func (f *Folder) MakeFolder(at string) error {
	if err := f.allowed.Secret(at); err != nil {
		return err
	}
	return plainOrNil(at, f.root.MkdirAll(filepath.FromSlash(at), 0o777))
}

// Remove removes a file, or an empty folder, at a path of Entry.
func (f *Folder) Remove(at string, info fs.FileInfo) error {
	if err := f.movable(at, info); err != nil {
		return err
	}
	return plainOrNil(at, f.root.Remove(filepath.FromSlash(at)))
}

// Move gives a file or folder at a path of Entry another path, and makes the folders above that. A file that is
// there is replaced; whoever does not want that looks before.
func (f *Folder) Move(from string, info fs.FileInfo, to string) error {
	if err := f.movable(from, info); err != nil {
		return err
	}
	if err := f.allowed.Secret(to); err != nil {
		return err
	}

	if err := f.root.MkdirAll(filepath.FromSlash(path.Dir(to)), 0o777); err != nil {
		return Plain(path.Dir(to), err)
	}
	return plainOrNil(from, f.root.Rename(filepath.FromSlash(from), filepath.FromSlash(to)))
}

// movable returns an error if what is at a path must not be touched. A folder may be as far as its own name says.
func (f *Folder) movable(at string, info fs.FileInfo) error {
	if info.IsDir() {
		return f.allowed.Secret(at)
	}
	return f.Available(at, info)
}

// maxBelow bounds the files and folders below one that is moved.
const maxBelow = 10_000

// Below describes all that is in the folder at a resolved path, in order. It is an error if something of it must
// not be touched, under its path or under the one that it would have below another folder, or if there are more
// than 10,000.
func (f *Folder) Below(at, other string) (all []fs.FileInfo, paths []string, err error) {
	err = fs.WalkDir(f.root.FS(), at, func(each string, d fs.DirEntry, err error) error {
		if err != nil {
			return Plain(each, err)
		}
		if each == at {
			return nil
		}
		if len(all) == maxBelow {
			return fmt.Errorf("%s has more than %d files and folders in it", at, maxBelow)
		}

		info, err := d.Info()
		if err != nil {
			return Plain(each, err)
		}
		below, err := filepath.Rel(at, each)
		if err != nil {
			return err
		}
		all, paths = append(all, info), append(paths, each)
		return f.untouchable(each, info, path.Join(other, filepath.ToSlash(below)))
	})
	return all, paths, err
}

// untouchable returns an error if something in a folder that is moved must stay where it is.
func (f *Folder) untouchable(at string, info fs.FileInfo, other string) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link, which may lead elsewhere from another folder", at)
	}
	if _, err := f.Resolve(at); err != nil {
		return err
	}
	return errors.Join(f.movable(at, info), f.allowed.Secret(other))
}

func plainOrNil(at string, err error) error {
	if err == nil {
		return nil
	}
	if cause, ok := errors.AsType[*os.LinkError](err); ok {
		return Plain(at, &fs.PathError{Op: cause.Op, Path: at, Err: cause.Err})
	}
	return Plain(at, err)
}

// Entries returns how many files and folders are directly in the folder at a resolved path, at most 10,000.
func (f *Folder) Entries(at string) (int, error) {
	if err := f.allowed.Secret(at); err != nil {
		return 0, err
	}
	dir, err := f.root.Open(filepath.FromSlash(at))
	if err != nil {
		return 0, Plain(at, err)
	}
	defer dir.Close()

	names, err := dir.Readdirnames(maxBelow)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, Plain(at, err)
	}
	return len(names), nil
}

// Secret returns an error if a file or folder at a resolved path may hold secrets, and is not allowed, or is the
// server's own.
func (f *Folder) Secret(at string) error { return f.allowed.Secret(at) }
