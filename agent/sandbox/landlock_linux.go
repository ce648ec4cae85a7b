package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"sync"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockABI returns the version of Landlock that the kernel has; 0: none.
var landlockABI = sync.OnceValue(func() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
})

// Rights in the file system. Nobody gets the right to make devices: root could make one of the disk.
const (
	readFile  = ll.AccessFSExecute | ll.AccessFSReadFile
	readAll   = readFile | ll.AccessFSReadDir
	writeFile = readFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	writeAll  = writeFile | readAll | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg |
		ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer
	device = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

// startRestricted starts a program that reaches what it is granted, and no other processes.
func startRestricted(cmd *exec.Cmd, r *reach) error {
	config := landlock.V11.BestEffort()
	config.HandledAccessNet = 0 // ports can only be granted one by one: tests would serve nobody
	return startWith(cmd, config, func(rules *ruleset) {
		rules.add(r.read, readAll, readFile)
		rules.add(r.write, writeAll, writeFile)
		rules.add(r.devices, device, device)
		rules.add(r.list, ll.AccessFSReadDir, 0)
	})
}

// startIsolated starts a program that reaches all files, and no other processes.
func startIsolated(cmd *exec.Cmd) error {
	config := landlock.Config{Scoped: landlock.V11.Scoped}
	if landlockABI() < signalABI { // it has no scopes, but any domain keeps its programs from the memory of others
		config = landlock.Config{HandledAccessFS: ll.AccessFSMakeBlock}
	}
	return startWith(cmd, config.BestEffort(), func(*ruleset) {})
}

// startWith starts a program under a configuration of Landlock, with rules.
func startWith(cmd *exec.Cmd, config landlock.Config, grant func(*ruleset)) error {
	var rules ruleset
	defer rules.close()
	grant(&rules)

	fd, flags, err := config.NewRulesetFD(rules.rules...)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if fd < 0 {
		return errors.New("sandbox: Landlock restricts nothing")
	}
	defer func() { _ = unix.Close(fd) }()

	open, err := closeMemory()
	if err != nil {
		return err
	}
	defer open()

	return onThread(func() error {
		if err := restrictThread(fd, flags); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		return startProgram(cmd)
	})
}

var startProgram = (*exec.Cmd).Start

// ruleset are rules of Landlock. Their paths are open files, so that a rule is for the file that was looked
// at, even if something else stands there by now.
type ruleset struct {
	rules []landlock.Rule
	files []int
}

// add grants rights to paths: those of folders, or of files. What is not there, or is a link, gets none.
func (r *ruleset) add(paths []string, folder, file landlock.AccessFSSet) {
	for _, path := range paths {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			continue
		}
		r.files = append(r.files, fd)

		var info unix.Stat_t
		rights := file
		if unix.Fstat(fd, &info) == nil && info.Mode&unix.S_IFMT == unix.S_IFDIR {
			rights = folder
		}
		if rights != 0 {
			r.rules = append(r.rules, landlock.PathAccess(rights, "/proc/self/fd/"+strconv.Itoa(fd)))
		}
	}
}

func (r *ruleset) close() {
	for _, fd := range r.files {
		_ = unix.Close(fd)
	}
}

// onThread calls do on a thread of its own, and returns when that has ended. What do restricts is that thread, and the
// programs that it starts, which inherit it. Go starts no other thread from it.
func onThread(do func() error) error {
	done := make(chan error, 1)
	thread := make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // the first thread of a process cannot end: use another while this one is held
			defer runtime.UnlockOSThread()
			thread <- 0
			done <- onThread(do)
			return
		}

		thread <- unix.Gettid()
		done <- do() // never unlocked, so the thread ends
	}()

	id, err := <-thread, <-done
	for id != 0 && unix.Tgkill(unix.Getpid(), id, 0) == nil {
		runtime.Gosched()
	}
	return err
}

// restrictThread restricts this thread, for good.
func restrictThread(ruleset int, flags uint32) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := ll.LandlockRestrictSelf(ruleset, flags); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// keptCapabilities are what root keeps in a sandbox: power over files that it can reach, and over users.
// Without the others it cannot load code into the kernel, or reach disks, memory and the network's settings.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_BIND_SERVICE

// dropCapabilities takes capabilities from this thread. No program that it starts gets them back.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have, keep [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return err
	}

	for i, kept := range []uint32{keptCapabilities, 0} {
		keep[i] = unix.CapUserData{
			Effective: have[i].Effective & kept, Permitted: have[i].Permitted & kept, Inheritable: have[i].Inheritable & kept,
		}
	}

	if keep == have {
		return nil
	}
	return unix.Capset(&header, &keep[0])
}
