// Package command runs the programs that a configuration names, for the tools that do: in a folder, in a sandbox,
// without a shell, and with an end to all that they start.
package command

import (
	"context"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/internal/group"
	"github.com/actlog/actlog/agent/sandbox"
)

// Command is a program that runs.
type Command struct {
	// Dir is the absolute path of the folder in which it runs.
	Dir string
	// Arguments are the program and its arguments. No shell reads them. A program with a "/" that is not
	// absolute is one of the folder.
	Arguments []string
	// Env are variables besides those of [sandbox.Environment] and those that name the tool call. Python compiles
	// files afresh, unless PYTHONDONTWRITEBYTECODE is here and empty.
	Env map[string]string
	// Sandbox is what it can reach besides its folder.
	Sandbox sandbox.Sandbox
}

// grace is how long the output stays open after the command has ended.
const grace = 2 * time.Second

// Execute runs the command until it or the context ends, and returns its exit code: -1 if a signal ended it. What it
// started and left behind is ended, too. The two outputs may be the same.
func (c Command) Execute(ctx context.Context, out, errs io.Writer) (int, error) {
	name := c.Arguments[0]
	if strings.ContainsRune(filepath.ToSlash(name), '/') && !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}

	cmd := exec.CommandContext(ctx, name, c.Arguments[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append(sandbox.Environment(c.variables()), startedBy(ctx)...)
	cmd.Stdout, cmd.Stderr = out, errs
	group.Lead(cmd)
	cmd.Cancel = func() error { group.Kill(cmd); return nil }
	cmd.WaitDelay = grace

	end, err := c.Sandbox.Start(cmd)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, err
	}
	defer end()

	err = cmd.Wait()
	group.Kill(cmd)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// variables returns those of the command. Python keeps what it compiled for as long as a file has the same size and
// the same second of its change. A model changes a file twice in a second, so Python would run the old code.
func (c Command) variables() map[string]string {
	all := map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}
	maps.Copy(all, c.Env)
	return all
}
