package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/command"
)

// Tools returns a tool for each command. Errors name the command.
func Tools(commands ...Command) (tools []tool.Tool, err error) {
	var errs []error
	for _, c := range commands {
		r, err := newRunner(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			continue
		}
		tools = append(tools, r.tool())
	}
	return tools, errors.Join(errs...)
}

type runner struct {
	Command
	allowed *regexp.Regexp
}

func newRunner(c Command) (*runner, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := c.Sandbox.Check(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}

	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	c.Dir = dir
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	return &runner{c, regexp.MustCompile(c.pattern())}, nil
}

func (r *runner) tool() tool.Tool {
	description := cmp.Or(r.Description, "Runs a command")
	description = strings.TrimSuffix(description, ".") + ": " + shown(r.Arguments) + "."
	if r.Allow == "" {
		return toolOf(r, description, func(struct{}) []string { return nil })
	}
	description += " Arguments match " + r.Allow + "."
	return toolOf(r, description, func(in arguments) []string { return in.Arguments })
}

// toolOf returns the tool, whose arguments say what is added to the command.
func toolOf[In any](r *runner, description string, added func(In) []string) tool.Tool {
	return tool.CallFunc("shell."+r.Name, description,
		func(ctx context.Context, call tool.Call, in In) (tool.Result, error) {
			return r.execute(ctx, call, added(in))
		},
		tool.WithPolicy(tool.Policy{Approval: !r.NoApproval, Writes: true, Exclusive: true, Timeout: r.Timeout}),
		tool.WithPreview(func(_ context.Context, _ tool.Call, in In) (tool.Preview, error) { return r.preview(added(in)) }))
}

type arguments struct {
	Arguments []string `json:"arguments,omitempty" jsonschema:"added at the end of the command, each as it is"`
}

func (r *runner) preview(added []string) (tool.Preview, error) {
	if err := r.checkArguments(r.allowed, added); err != nil {
		return tool.Preview{}, err
	}
	whole := append(r.Arguments[:len(r.Arguments):len(r.Arguments)], added...)
	parts := append([]string{r.Dir, string(r.Sandbox.Mode)}, whole...)
	return tool.NewPreview(tool.PreviewCommand, shown(whole), parts...), nil
}

// shown returns a command in one line: what a shell or a reader could take for something else is in quotes.
func shown(whole []string) string {
	words := make([]string, len(whole))
	for i, word := range whole {
		if words[i] = word; !simple.MatchString(word) {
			words[i] = strconv.QuoteToASCII(word)
		}
	}
	return strings.Join(words, " ")
}

var simple = regexp.MustCompile(`^[A-Za-z0-9_./:=,+%@-]+$`)

type outcome struct {
	Command  []string `json:"command"`
	ExitCode int      `json:"exitCode"` // -1 if a signal ended it
	Output   string   `json:"output"`   // the end of it
}

const maxReported = 16 << 10 // bytes of the output in JSON

func (r *runner) execute(ctx context.Context, call tool.Call, added []string) (tool.Result, error) {
	now, err := r.preview(added)
	if err == nil {
		err = call.CheckApproved(now)
	}
	if err != nil {
		return tool.Result{}, err
	}

	whole := append(r.Arguments[:len(r.Arguments):len(r.Arguments)], added...)
	var out command.Output
	code, err := command.Command{Dir: r.Dir, Arguments: whole, Env: r.Env, Sandbox: r.Sandbox}.Execute(ctx, &out, &out)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, err
		}
		return tool.Result{}, fmt.Errorf("the command cannot be run: %w", err)
	}

	text := out.String()
	data, err := json.Marshal(outcome{whole, code, command.End(text, maxReported)})
	summary := fmt.Sprintf("%s ended with exit code %d", r.Name, code)
	return tool.Result{Text: summary + ".\n" + text, Failed: code != 0, Summary: summary, Data: data}, err
}
