//go:build !linux

package embedpg

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// userNamespace is a thing of Linux.
func userNamespace() []identity { return nil }

// isPostmaster says whether pid is a living postmaster of the data directory.
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

// orphans cannot be told apart here; Postgres waits for them to leave by themselves.
func orphans(string) []int { return nil }

// memoryDir would be a folder in memory.
func memoryDir() string { return "" }
