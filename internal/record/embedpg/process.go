//go:build unix

package embedpg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/actlog/actlog/agent/sandbox"
)

// graceBeforeKill is how long Postgres may take to exit after SIGQUIT. Then it is killed.
const graceBeforeKill = 5 * time.Second

// process is a postmaster that this program started.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{}
}

func launch(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, started: time.Now(), exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // reason describes the exit
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// reason describes how the process exited. Call it only after exited is closed.
func (p *process) reason() string { return p.cmd.ProcessState.String() }

// stop requests a fast shutdown: Postgres ends all sessions and writes everything to disk.
func (p *process) stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		p.quit()
		return fmt.Errorf("stop postgres: not finished in time: %w", ctx.Err())
	}
}

// quit ends the server at once. Its next start needs a recovery.
func (p *process) quit() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.exited:
	case <-time.After(graceBeforeKill):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// command prepares a Postgres program to run as id. It gets a session of its own, so that a
// Ctrl-C for this program does not reach it.
func command(ctx context.Context, id identity, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = new(id.attrs)
	cmd.SysProcAttr.Setsid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// execute runs cmd with the given input. The error contains the end of its output.
func execute(cmd *exec.Cmd, input string) error {
	cmd.Stdin = strings.NewReader(input)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return withLog(err, out)
	}
	return nil
}

// userVariables name the user whom Postgres runs as, where containers give it no name.
var userVariables = []string{"LD_PRELOAD", "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"}

// environment returns the variables of Postgres: no secrets of this program, and none that would
// configure Postgres or make it differ between machines.
func environment() []string {
	env := slices.DeleteFunc(sandbox.Environment(nil), func(kv string) bool { return strings.HasPrefix(kv, "LC_") })
	for _, name := range userVariables {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}

// withLog adds the last lines of the Postgres log to err.
func withLog(err error, log []byte) error {
	const lines, size = 15, 4096
	log = bytes.TrimSpace(log[max(0, len(log)-size):])
	if len(log) == 0 {
		return err
	}
	all := bytes.Split(log, []byte("\n"))
	tail := bytes.Join(all[max(0, len(all)-lines):], []byte("\n\t"))
	return fmt.Errorf("%w; postgres said:\n\t%s", err, tail)
}
