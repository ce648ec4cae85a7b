//go:build !linux

package main

import (
	"io/fs"
	"time"
)

// changedAt returns when a file was written.
func changedAt(info fs.FileInfo) time.Time { return info.ModTime() }
