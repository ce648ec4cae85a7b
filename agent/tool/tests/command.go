package tests

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/internal/group"
)

// Command is how tests are run.
type Command struct {
	// Name makes the name of the tool: tests.<name>.
	Name string
	// Dir is the folder in which the command runs.
	Dir string
	// Arguments are the program and its arguments. No shell reads them. A program with a "/" that is not
	// absolute is one of the folder.
	Arguments []string
	// Env are variables for the command, besides those of [sandbox.Environment].
	Env map[string]string
	// Sandbox is what the command can reach besides its folder. The zero value is the best that the system
	// has.
	Sandbox sandbox.Sandbox
}

type runner struct{ Command }

// grace is how long the output stays open after the command has ended.
const grace = 2 * time.Second

// run runs a command and returns what it wrote and its exit code. What it started and left behind is
// ended, too.
func (r runner) run(ctx context.Context, command []string) (*output, int, error) {
	program := command[0]
	if strings.ContainsRune(filepath.ToSlash(program), '/') && !filepath.IsAbs(program) {
		program = filepath.Join(r.Dir, program)
	}
	cmd := exec.CommandContext(ctx, program, command[1:]...)
	cmd.Dir, cmd.Env = r.Dir, append(sandbox.Environment(r.Env), startedBy(ctx)...)
	var o output
	cmd.Stdout, cmd.Stderr = &o, &o
	group.Lead(cmd)
	cmd.Cancel = func() error { group.Kill(cmd); return nil }
	cmd.WaitDelay = grace
	end, err := r.Sandbox.Start(cmd)
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		return nil, 0, fmt.Errorf("the tests cannot be started: %w", err)
	}
	defer end()
	err = cmd.Wait()
	group.Kill(cmd)
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, 0, fmt.Errorf("run the tests: %w", err)
	}
	return &o, cmd.ProcessState.ExitCode(), nil
}

// Bounds of what is kept of an output, in bytes. What failed stands at the end as a rule.
const (
	maxHead = 8 << 10
	maxTail = 48 << 10
)

// output keeps the beginning and the end of what is written.
type output struct {
	head, tail []byte
	dropped    int
}

func (o *output) Write(b []byte) (int, error) {
	n := len(b)
	room := min(maxHead-len(o.head), len(b))
	o.head = append(o.head, b[:room]...)
	o.tail = append(o.tail, b[room:]...)
	if more := len(o.tail) - maxTail; more > maxTail { // not for each write
		o.drop(more)
	}
	return n, nil
}

func (o *output) drop(n int) {
	o.tail = append([]byte(nil), o.tail[n:]...)
	o.dropped += n
}

// String returns what was kept as valid UTF-8, with a notice of what was not.
func (o *output) String() string {
	if more := len(o.tail) - maxTail; more > 0 {
		o.drop(more)
	}
	text := string(o.head)
	if o.dropped > 0 {
		text += fmt.Sprintf("\n... (%d bytes left out)\n", o.dropped)
	}
	return strings.ToValidUTF8(text+string(o.tail), "\uFFFD")
}

// end returns the last bytes of a text, at most limit.
func end(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
