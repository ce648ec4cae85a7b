package sandbox

import "strings"

// AsOnWindows lets the names of variables be compared as on Windows, until restore is called.
func AsOnWindows() (restore func()) {
	before := sameName
	sameName = strings.EqualFold
	return func() { sameName = before }
}
