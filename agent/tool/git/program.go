package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/internal/group"
	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool"
)

// program is git, as it is installed here.
type program struct {
	git      string
	identity []string // variables that say who commits
}

// timeout bounds a call that reaches no other machine.
const timeout = 30 * time.Second

// maxOutput bounds what is read from git, in bytes.
const maxOutput = 1 << 20

var errTooLong = errors.New("git wrote too much")

// execute runs git in a folder with some variables, besides those that it always gets, and returns what it
// wrote: at most maxOutput bytes, and errTooLong if there was more.
func (p program) execute(
	ctx context.Context, dir string, env []string, stdin string, arguments ...string,
) ([]byte, error) {
	var stdout output
	err := p.pipe(ctx, dir, env, stdin, &stdout, arguments...)
	if stdout.full && ctx.Err() == nil {
		err = errTooLong
	}
	return stdout.kept.Bytes(), err
}

// pipe runs git, as run does, and writes what it wrote.
func (p program) pipe(
	ctx context.Context, dir string, env []string, stdin string, stdout io.Writer, arguments ...string,
) error {
	cmd := exec.CommandContext(ctx, p.git, arguments...)
	cmd.Dir = dir
	cmd.Env = append(p.environment(), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr output
	cmd.Stdout, cmd.Stderr = stdout, &stderr

	// git removes its lock files when it is asked to end. What it started ends with it, and goes on changing nothing.
	group.Lead(cmd)
	cmd.Cancel = func() error { group.Terminate(cmd); return nil }
	cmd.WaitDelay = 2 * time.Second

	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		group.Kill(cmd)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay): // it did what it was told
		return unknownOutcome("read what git wrote", err)
	case err != nil && stderr.kept.Len() > 0:
		return errors.New(tool.Cut(strings.TrimSpace(stderr.kept.String()), 2000))
	case err != nil:
		return fmt.Errorf("git %s: %w", arguments[0], err)
	}
	return nil
}

// unknownOutcome returns an error for a call that changed something whose result could not be read.
func unknownOutcome(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", tool.ErrUnknown, what, err)
}

// environment returns the variables that git always gets: none of ours but those that it needs.
func (p program) environment() []string {
	env := []string{
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=false", "GIT_PAGER=cat", "LC_ALL=C",
		"GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0", // a configuration can name files for them
	}
	return slices.Concat(sandbox.Environment(nil), env, p.identity) // the last of a name counts
}

// output keeps the first maxOutput bytes. After them it ends the writer.
type output struct {
	kept bytes.Buffer
	full bool
}

func (o *output) Write(b []byte) (int, error) {
	room := maxOutput - o.kept.Len()
	if len(b) > room {
		o.full = true
		n, _ := o.kept.Write(b[:room])
		return n, errTooLong
	}
	return o.kept.Write(b)
}
