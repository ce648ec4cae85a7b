//go:build unix && !linux

package embedpg

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// userNamespace returns nothing: only Linux has user namespaces.
func userNamespace() []identity { return nil }

// isPostmaster reports whether pid is a running postmaster of the data directory.
func isPostmaster(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	line := strings.TrimSpace(string(out))
	path, args, _ := strings.Cut(line, " -D ")
	name := filepath.Base(path)
	return (name == "postgres" || name == "postmaster") && (args == data || strings.HasPrefix(args, data+" "))
}

// orphans returns nothing: here they cannot be recognized. Postgres waits until they exit.
func orphans(string) []int { return nil }

// allocate fails: here a file takes up room once it is written.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

// memoryDir returns "": no folder in memory.
func memoryDir() string { return "" }
