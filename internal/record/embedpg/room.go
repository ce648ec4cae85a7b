//go:build unix

package embedpg

import (
	"fmt"
	"syscall"
)

// reserve is the space that must stay free on the disk of the data, in bytes. If Postgres
// cannot extend its write-ahead log, it goes down and stops serving reads too. Reads and
// upkeep also add to that log. Two batches of 8 MiB in progress took 40 MiB, so three of the
// largest batches should fit.
const reserve = 128 << 20

// Room returns an error if the disk is too full to write more, and nil if there is room or
// if the free space is unknown.
func (s *Server) Room() error { return room(s.cluster.data, reserve) }

func room(dir string, reserve uint64) error {
	free, err := freeBytes(dir)
	if err == nil && free < reserve {
		return fmt.Errorf("only %d MiB are free on the disk of %s; %d MiB must stay free", free>>20, dir, reserve>>20)
	}
	return nil
}

func freeBytes(dir string) (uint64, error) {
	var disk syscall.Statfs_t
	err := syscall.Statfs(dir, &disk)
	return disk.Bavail * uint64(disk.Bsize), err
}
