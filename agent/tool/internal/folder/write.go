package folder

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Replace writes a file at once: readers see the whole old or the whole new text. The mode of the old
// file stays. The path must be resolved; before is nil for a new file.
func (f *Folder) Replace(at string, content []byte, before fs.FileInfo) error {
	staged, err := f.Stage(at, content, before)
	if err != nil {
		return err
	}
	return errors.Join(staged.Commit(), staged.Discard())
}

// Staged is the new text of a file, which is written beside it and not in its place yet.
type Staged struct {
	folder    *Folder
	at        string
	temporary string // empty: it is in its place, or discarded
}

// Stage writes the new text of a file beside it. The mode of the old file stays. The path must be resolved; before is
// nil for a new file. The caller calls Discard in the end, also after Commit.
func (f *Folder) Stage(at string, content []byte, before fs.FileInfo) (s *Staged, err error) {
	if err := f.Available(at, before); err != nil {
		return nil, err
	}

	name := filepath.FromSlash(at)
	if before == nil {
		if err := f.root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return nil, Plain(path.Dir(at), err)
		}
	}

	s = &Staged{folder: f, at: at, temporary: filepath.Join(filepath.Dir(name), ".actlog-"+rand.Text())}
	file, err := f.root.OpenFile(s.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, Plain(at, err)
	}

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
		return nil, errors.Join(Plain(at, err), s.Discard())
	}
	return s, nil
}

// Commit puts the text in its place.
func (s *Staged) Commit() error {
	if err := s.folder.root.Rename(s.temporary, filepath.FromSlash(s.at)); err != nil {
		return Plain(s.at, err)
	}
	s.temporary = ""
	return nil
}

// Discard removes what Commit has not put in its place. A nil Staged has nothing.
func (s *Staged) Discard() error {
	if s == nil || s.temporary == "" {
		return nil
	}
	err := s.folder.root.Remove(s.temporary)
	s.temporary = ""
	return err
}
