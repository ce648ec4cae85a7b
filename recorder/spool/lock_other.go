//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package spool

import (
	"errors"
	"fmt"
	"os"
)

// lockFile refuses: without a lock two processes would damage each other's log.
func lockFile(f *os.File) error {
	return fmt.Errorf("lock %s: %w on this operating system", f.Name(), errors.ErrUnsupported)
}

func unlockFile(*os.File) error { return nil }

func isFull(error) bool { return false }
