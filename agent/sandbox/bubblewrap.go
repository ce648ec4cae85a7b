package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// wrapper is the program bwrap.
type wrapper struct {
	path string
	err  error // why it cannot be used
}

// bubblewrap looks for bwrap, and tries whether the system lets it make sandboxes.
var bubblewrap = sync.OnceValue(func() wrapper {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return wrapper{err: errors.New("no bubblewrap: the program bwrap is not installed")}
	}

	runtime.LockOSThread() // see startHeld
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	try := exec.CommandContext(ctx, path,
		slices.Concat(apart, []string{"--ro-bind", "/", "/", "--proc", "/proc", "--", path, "--version"})...)
	try.Env = Environment(nil)
	if out, err := try.CombinedOutput(); err != nil {
		return wrapper{err: fmt.Errorf("no bubblewrap: bwrap does not work here: %s", strings.TrimSpace(string(out)))}
	}
	return wrapper{path: path}
})

// apart are options: processes and IPC of its own, no terminal, no powers, and an end with ours.
var apart = []string{"--unshare-pid", "--unshare-ipc", "--new-session", "--die-with-parent", "--cap-drop", "ALL"}

// mount is what bwrap puts at a path, by its options.
type mount struct {
	path string
	args []string
}

// startWrapped starts a program by bwrap. The caller calls end when it has ended.
func startWrapped(cmd *exec.Cmd, r *reach, hidden []string) (end func(), err error) {
	if _, err := os.Stat(cmd.Path); err != nil { // bwrap would end as if the program had
		return nil, err
	}
	mounts, err := r.mounts(hidden)
	if err != nil {
		return nil, err
	}

	options := slices.Concat(apart, []string{"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"})
	for _, path := range system { // /bin is a link to /usr/bin, as a rule
		if target, err := os.Readlink(path); err == nil {
			options = append(options, "--symlink", target, path)
		}
	}
	for _, each := range mounts {
		options = append(options, each.args...)
	}
	options = append(options, "--chdir", cmp.Or(cmd.Dir, "/"), "--")

	cmd.Args = slices.Concat([]string{"bwrap"}, options, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path = bubblewrap().path
	return startHeld(cmd)
}

// mounts returns what can be reached, and what lies over that, a folder before what is in it.
func (r *reach) mounts(hidden []string) (all []mount, err error) {
	for _, path := range r.read {
		if !strings.HasPrefix(path, "/proc/") { // it gets a /proc with its own processes
			all = append(all, mount{path, []string{"--ro-bind", path, path}})
		}
	}
	for _, path := range r.write {
		all = append(all, mount{path, []string{"--bind", path, path}})
	}
	for _, path := range r.repositories {
		all = append(all, mount{path, []string{"--ro-bind", path, path}})
	}

	var over []mount
	for _, path := range hidden {
		if !below(path, slices.Concat(r.read, r.write)) {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil { // it is not there yet: what has gone is an error of its own
			continue
		}
		if real, ok := resolve(path, nil); !ok || real != path {
			// What it leads to is hidden. Where the program could lead the link elsewhere, whoever uses the path
			// would get what the program wants.
			if link := firstLink(path); below(filepath.Dir(link), r.write) {
				return nil, fmt.Errorf("sandbox: %s leads to a file that programs must not reach, and is a link in a folder "+
					"that the program writes: name the file itself, or use landlock", filepath.Base(link))
			}
			continue
		}

		if info.IsDir() {
			over = append(over, mount{path, []string{"--tmpfs", path}})
		} else {
			over = append(over, mount{path, []string{"--ro-bind", "/dev/null", path}})
		}
		for _, dir := range r.between(path) {
			if !below(dir, r.repositories) {
				all = append(all, mount{dir, []string{"--bind", dir, dir}})
			}
		}
	}

	slices.SortStableFunc(all, func(a, b mount) int { return strings.Compare(a.path, b.path) })
	return append(all, over...), nil
}

// between returns the folders between a path and the folders above it that are written. A program could rename one of
// them, and what is hidden would have another name the next time. What is mounted cannot be renamed.
func (r *reach) between(path string) (folders []string) {
	for dir := filepath.Dir(path); below(dir, r.write); dir = filepath.Dir(dir) {
		if !slices.Contains(r.write, dir) && !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	return folders
}

// firstLink returns the first part of a path that is a link.
func firstLink(path string) string {
	for i, c := range path {
		if c == filepath.Separator && i > 0 && !isPlace(path[:i]) {
			return path[:i]
		}
	}
	return path
}

// startHeld starts a program on a thread that is there until the program ends. --die-with-parent sends the signal
// when the thread ends that started bwrap, not the process, and threads do end here: see onThread. It stays, because
// nothing else ends the program when this process is killed with -9: package group needs somebody who kills.
func startHeld(cmd *exec.Cmd) (end func(), err error) {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-ended
		}
	}()

	return sync.OnceFunc(func() { close(ended) }), <-started
}
