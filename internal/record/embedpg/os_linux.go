package embedpg

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// userNamespace runs Postgres under the uid of this program, which the namespace maps to the
// uid of an ordinary user. Files keep their owner, and Postgres can enter private folders of
// this user.
func userNamespace() []identity {
	uid, gid := 65534, 65534
	if ids := otherUsers("postgres", "nobody"); len(ids) > 0 {
		uid, gid = int(ids[0].attrs.Credential.Uid), int(ids[0].attrs.Credential.Gid)
	}
	return []identity{{"a user namespace", syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}},
	}}}
}

// isPostmaster reports whether pid is a running postmaster of the data directory.
func isPostmaster(pid int, data string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return false
	}
	args := strings.Split(string(cmdline), "\x00")
	if name := filepath.Base(args[0]); name != "postgres" && name != "postmaster" {
		return false
	}

	// The working directory is certain, but some containers hide it.
	if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err == nil {
		return cwd == resolve(data)
	}
	return slices.Contains(args[1:], data)
}

// orphans lists the processes that a dead postmaster of the data directory left behind.
func orphans(data string) []int {
	data = resolve(data)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, proc := range dirs {
		if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err != nil || cwd != data {
			continue
		}
		exe, err := os.Readlink(filepath.Join(proc, "exe"))
		if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "postgres" {
			continue
		}

		if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// allocate makes a file take up room, without writing to it.
func allocate(f *os.File, size int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, size) }

// memoryDir returns a folder in memory with room for a test server, or "".
func memoryDir() string {
	const dir, needed = "/dev/shm", 1 << 30
	if free, err := freeBytes(dir); err != nil || free < needed {
		return ""
	}
	return dir
}
