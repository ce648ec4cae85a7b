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
func (f *Folder) Replace(at string, content []byte, before fs.FileInfo) (err error) {
	if err := f.Available(at, before); err != nil {
		return err
	}

	name := filepath.FromSlash(at)
	if before == nil {
		if err := f.root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return Plain(path.Dir(at), err)
		}
	}
	temporary := filepath.Join(filepath.Dir(name), ".actlog-"+rand.Text())
	file, err := f.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return Plain(at, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(Plain(at, err), f.root.Remove(temporary))
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
