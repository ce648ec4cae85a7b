package embedpg

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// userNamespace runs Postgres under our own uid, which in there goes by the number of
// an ordinary user: files keep their owner and a folder only we can enter is no obstacle.
func userNamespace() []identity {
	uid, gid := 65534, 65534
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		id, err := otherUser(u)
		if err == nil && id.uid != 0 {
			uid, gid = id.uid, id.gid
			break
		}
	}
	return []identity{{
		name: "a user namespace",
		attributes: func() *syscall.SysProcAttr {
			return &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}},
			}
		},
	}}
}

// isPostmaster says whether pid is a living postmaster of the data directory. The
// working directory tells for certain, but is hidden from us in some containers.
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
	if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err == nil {
		return cwd == resolve(data)
	}
	for _, arg := range args[1:] {
		if arg == data {
			return true
		}
	}
	return false
}

// orphans lists the processes that a dead postmaster of the data directory left behind.
func orphans(data string) []int {
	data = resolve(data)
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
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

// memoryDir is a folder in memory with room for a test server, or "".
func memoryDir() string {
	const dir, room = "/dev/shm", 1 << 30
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Bavail*uint64(st.Bsize) < room {
		return ""
	}
	return dir
}
