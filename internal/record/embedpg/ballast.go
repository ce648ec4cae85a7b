//go:build unix

package embedpg

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const (
	// startRoom is the space that Postgres needs to start after a crash, in bytes: a segment of its
	// write-ahead log of 16 MiB, and a little more. Measured: 16 MiB were too few, 20 enough.
	startRoom = 32 << 20
	// keepBallastEvery is how often a missing ballast is looked for.
	keepBallastEvery = time.Minute
)

// ballast is a file that only takes up room. On a full disk Postgres cannot start. Then the file is
// removed, and nobody has to find out what else can be.
type ballast struct {
	dir  string
	size int64 // see Config.Ballast
	log  *slog.Logger
}

func (b ballast) path() string { return filepath.Join(b.dir, "ballast") }

// giveUp removes the ballast, whoever made it, if the disk has no room for a start of Postgres.
func (b ballast) giveUp() {
	free, err := freeBytes(b.dir)
	if err != nil || free >= startRoom {
		return
	}

	if err := os.Remove(b.path()); err == nil {
		b.log.Warn("the disk is full: removed the ballast so that postgres can start; make room", "file", b.path(),
			"free_mib", free>>20)
	} else if !errors.Is(err, os.ErrNotExist) {
		b.log.Error("the disk is full, and the ballast cannot be removed", "error", err)
	}
}

// ensure makes the ballast if it is missing and the disk has plenty of room: writes stop long before
// that is used up. It removes the ballast if there is to be none.
func (b ballast) ensure() {
	switch b.size {
	case 0:
		return
	case NoBallast:
		if err := os.Remove(b.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
			b.log.Warn("remove the ballast failed", "file", b.path(), "error", err)
		}
		return
	}

	if info, err := os.Stat(b.path()); err == nil && info.Size() == b.size {
		return
	}
	if free, err := freeBytes(b.dir); err != nil || free < uint64(b.size)+2*reserve {
		return
	}

	if err := b.make(); err != nil {
		b.log.Warn("make the ballast for a full disk failed", "file", b.path(), "error", err)
	}
}

func (b ballast) make() error {
	f, err := os.OpenFile(b.path(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	if err = allocate(f, b.size); err != nil {
		err = fill(f, b.size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(b.path()))
	}
	return nil
}

// fill writes a file that no file system can make smaller.
func fill(f *os.File, size int64) error {
	random := rand.NewChaCha8([32]byte{})
	block := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(block)) {
		_, _ = random.Read(block) // it never fails
		if _, err := f.WriteAt(block[:min(int64(len(block)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}
