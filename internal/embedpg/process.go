package embedpg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// graceBeforeKill is how long Postgres gets between being told to drop everything
// (SIGQUIT) and being killed.
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
		_ = cmd.Wait() // reason tells
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// reason says how it exited; call it after exited.
func (p *process) reason() string { return p.cmd.ProcessState.String() }

// stop asks for a fast shutdown: sessions end, everything is written.
func (p *process) stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		p.quit()
		return fmt.Errorf("cut short: %w", ctx.Err())
	}
}

// quit ends the server at once and leaves the rest to recovery.
func (p *process) quit() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	t := time.NewTimer(graceBeforeKill)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// command prepares a Postgres program to run as id in a session of its own, so that
// a Ctrl-C meant for this program does not reach it.
func command(ctx context.Context, id identity, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = id.attributes()
	cmd.SysProcAttr.Setsid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run executes cmd with input; the error carries what it said.
func run(cmd *exec.Cmd, input string) error {
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return withLog(err, out.Bytes())
	}
	return nil
}

// environment is ours without what would steer the server or make it differ between
// machines.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") {
			env = append(env, kv)
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}

// withLog adds the last lines that Postgres wrote to err.
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
