//go:build unix

package embedpg

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guard is a shell that waits until this process has ended: then its input ends. It stops the server in a folder then,
// and removes the folder.
type guard struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// guarding is the script of a guard. A line says that it is not needed any more.
const guarding = `
read -r line && exit 0
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; then
	for second in 1 2 3 4 5; do
		kill -0 "$pid" 2>/dev/null || break
		sleep 1
	done
fi
rm -rf "$1"`

func newGuard(dir string) (*guard, error) {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", guarding, "sh", dir)} //nolint:noctx // it outlives all contexts
	g.cmd.Env, g.cmd.Dir = environment(), "/"
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C does not reach it

	var err error
	if g.input, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("guard the server: %w", err)
	}
	return g, nil
}

// dismiss ends the guard, which does nothing then.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_, _ = io.WriteString(g.input, "done\n") // or it has ended itself
	_ = g.cmd.Wait()
}
