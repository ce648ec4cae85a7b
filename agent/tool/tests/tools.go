package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/command"
)

// Tools returns a tool for each command. Errors name the command.
func Tools(commands ...Command) (tools []tool.Tool, err error) {
	var errs []error
	for _, c := range commands {
		if len(c.Arguments) == 0 || c.Arguments[0] == "" {
			errs = append(errs, fmt.Errorf("%s: it has no program", c.Name))
			continue
		}
		dir, err := filepath.Abs(c.Dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: folder: %w", c.Name, err))
			continue
		}
		if err := c.Sandbox.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: sandbox: %w", c.Name, err))
			continue
		}

		known, err := c.known()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			continue
		}

		r := runner{Command: c, program: known}
		r.Dir = dir
		tools = append(tools, tool.Func("tests."+c.Name, "Runs tests: "+strings.Join(c.Arguments, " ")+".", r.call,
			tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Exclusive: true, Timeout: timeout})))
	}
	return tools, errors.Join(errs...)
}

// timeout bounds a run of tests.
const timeout = 10 * time.Minute

func (r runner) call(ctx context.Context, in arguments) (tool.Result, error) {
	wanted, err := r.commandOf(in)
	if err != nil {
		return tool.Result{}, err
	}
	at, err := r.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer at.close()
	filled := at.fill(wanted)

	var o command.Output
	var out io.Writer = &o
	var events *goEvents
	if r.program.format == Go {
		events = newGoEvents(&o, r.Dir, isVerbose(filled))
		out = events
	}

	code, err := r.execute(ctx, filled, at.dir, out, &o)
	if err != nil {
		return tool.Result{}, err
	}
	if events != nil && len(events.line) > 0 {
		events.end("")
	}

	text := o.String()
	rep := report{Command: at.hide(filled), Passed: code == 0, ExitCode: code, Output: command.End(text, maxReported)}
	rep.take(r.readReport(ctx, at, events), text)
	if in.Coverage {
		rep.Coverage = r.covered(at)
	}
	return rep.result(text)
}

// readReport returns the counts and failures in the program's report. They are empty if there is no report, or if it
// cannot be read: then the output is used.
func (r runner) readReport(ctx context.Context, at *place, events *goEvents) *outcome {
	var o outcome
	switch r.program.format {
	case Go:
		return &events.outcome
	case JUnit:
		_ = at.read(ctx, o.readJUnit) // an unreadable report counts as empty
	case Jest:
		_ = at.read(ctx, func(in io.Reader) error { return o.readJest(in, r.Dir) })
	case Text:
	}
	return &o
}

// take takes what a report says, else what the output does.
func (r *report) take(o *outcome, output string) {
	if !o.any() {
		r.Counts = count(output)
		return
	}
	r.Counts = &o.counts
	r.FailedTests, r.MoreFailed = o.failures, o.more
}

// covered returns how much of the code a run reached; nil: it does not say.
func (r runner) covered(at *place) (c *coverage) {
	name, read := jestSummary, func(in io.Reader) (*coverage, error) { return readJestSummary(in, r.Dir) }
	switch r.program.format {
	case Go:
		name, read = goProfile, readGoProfile
	case JUnit:
		name, read = coberturaFile, readCobertura
	case Jest, Text:
	}

	_ = readFile(at.folder, name, func(in io.Reader) (err error) { // a report that cannot be read says nothing
		c, err = read(in)
		return err
	})
	return c
}
