//go:build unix

package folder

import (
	"io/fs"
	"syscall"
)

// HasOtherNames reports whether a file has more than one name.
func HasOtherNames(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink > 1
}
