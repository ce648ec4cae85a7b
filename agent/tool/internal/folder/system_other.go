//go:build !unix

package folder

import "io/fs"

// HasOtherNames reports whether a file has more than one name. On this system nobody knows.
func HasOtherNames(fs.FileInfo) bool { return false }
