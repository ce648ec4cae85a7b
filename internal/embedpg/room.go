package embedpg

import (
	"fmt"
	"syscall"
)

// reserve is what stays free on the disk of the data: Postgres goes down, reads and
// all, when it cannot extend its write-ahead log, to which reads and upkeep add, too.
// Two batches of 8 MiB that were under way took 40 MiB; three of the worst should take
// less than this.
const reserve = 128 << 20

// Room tells why more must not be written; nil where it may, or where that cannot be
// told.
func (s *Server) Room() error { return room(s.cluster.data, reserve) }

func room(dir string, reserve uint64) error {
	var disk syscall.Statfs_t
	err := syscall.Statfs(dir, &disk)
	if free := disk.Bavail * uint64(disk.Bsize); err == nil && free < reserve {
		return fmt.Errorf("%d MiB are free on the disk of %s, %d MiB have to stay so", free>>20, dir, reserve>>20)
	}
	return nil
}
