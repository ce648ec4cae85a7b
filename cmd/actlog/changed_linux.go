package main

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt returns when a file was changed: written or, if an older one took its place, put there.
func changedAt(info fs.FileInfo) time.Time {
	written := info.ModTime()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return written
	}
	if put := time.Unix(stat.Ctim.Unix()); put.After(written) {
		return put
	}
	return written
}
