package sandbox

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// memory is that of this process, which is closed to other processes while a program starts. The thread that starts it
// is under its restrictions, and what is under the same restrictions may look at each other: the program would read all
// that this process holds by way of that thread, until it has ended.
var memory struct {
	sync.Mutex
	starts int  // under way
	opens  bool // after the last of them
}

// closeMemory keeps other programs of the same user from the memory of this process until open is called. Nor can it
// be dumped meanwhile.
func closeMemory() (open func(), err error) {
	memory.Lock()
	defer memory.Unlock()

	if memory.starts == 0 {
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("sandbox: is the memory of this process closed: %w", err)
		}
		if memory.opens = dumpable == 1; memory.opens {
			if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
				return nil, fmt.Errorf("sandbox: close the memory of this process: %w", err)
			}
		}
	}

	memory.starts++
	return openMemory, nil
}

func openMemory() {
	memory.Lock()
	defer memory.Unlock()
	if memory.starts--; memory.starts == 0 && memory.opens {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // it was so before
	}
}
