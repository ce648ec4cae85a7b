package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	try := exec.CommandContext(ctx, path, slices.Concat(apart, []string{"--ro-bind", "/", "/", "--proc", "/proc", "--", path, "--version"})...)
	try.Env = Environment(nil)
	if out, err := try.CombinedOutput(); err != nil {
		return wrapper{err: fmt.Errorf("no bubblewrap: bwrap does not work here: %s", strings.TrimSpace(string(out)))}
	}
	return wrapper{path: path}
})

// apart are options: processes and IPC of its own, no terminal, no powers, and an end with ours.
var apart = []string{"--unshare-pid", "--unshare-ipc", "--new-session", "--die-with-parent", "--cap-drop", "ALL"}

// startWrapped starts a program by bwrap.
func startWrapped(cmd *exec.Cmd, r *reach, hidden []string) error {
	if _, err := os.Stat(cmd.Path); err != nil { // bwrap would end as if the program had
		return err
	}
	options := slices.Clone(apart)
	type mount struct {
		path string
		args []string
	}
	var mounts []mount
	for _, path := range r.read {
		if !strings.HasPrefix(path, "/proc/") { // it gets a /proc with its own processes
			mounts = append(mounts, mount{path, []string{"--ro-bind", path, path}})
		}
	}
	for _, path := range r.write {
		mounts = append(mounts, mount{path, []string{"--bind", path, path}})
	}
	slices.SortStableFunc(mounts, func(a, b mount) int { return strings.Compare(a.path, b.path) })

	options = append(options, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
	for _, path := range system { // /bin is a link to /usr/bin, as a rule
		if target, err := os.Readlink(path); err == nil {
			options = append(options, "--symlink", target, path)
		}
	}
	for _, each := range mounts {
		options = append(options, each.args...)
	}
	for _, path := range hidden {
		switch info, err := os.Lstat(path); {
		case err != nil || !slices.ContainsFunc(slices.Concat(r.read, r.write), func(folder string) bool { return within(path, folder) }):
		case info.IsDir():
			options = append(options, "--tmpfs", path)
		default:
			options = append(options, "--ro-bind", "/dev/null", path)
		}
	}
	options = append(options, "--chdir", cmp.Or(cmd.Dir, "/"), "--")
	cmd.Args = slices.Concat([]string{"bwrap"}, options, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path = bubblewrap().path
	return cmd.Start()
}
