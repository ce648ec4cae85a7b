package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
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
		r := runner{Command: c}
		r.Dir = dir
		tools = append(tools, tool.Func("tests."+c.Name, "Runs tests: "+strings.Join(c.Arguments, " ")+".", r.call,
			tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Exclusive: true, Timeout: timeout})))
	}
	return tools, errors.Join(errs...)
}

// timeout bounds a run of tests.
const timeout = 10 * time.Minute

type arguments struct {
	Path string `json:"path,omitempty" jsonschema:"only the tests of this file or folder, relative to the top folder; it becomes the last argument of the command"`
}

// report is what a tool returns as JSON, and the artifact test_results.
type report struct {
	Command  []string `json:"command"`
	Passed   bool     `json:"passed"`
	ExitCode int      `json:"exitCode"`         // -1 if a signal ended the command
	Counts   *counts  `json:"counts,omitempty"` // if the output says them
	Output   string   `json:"output"`           // the end of it
}

// maxReported bounds the output in a report, in bytes.
const maxReported = 8 << 10

func (r runner) call(ctx context.Context, in arguments) (tool.Result, error) {
	command := r.Arguments
	if in.Path != "" {
		path, err := r.within(in.Path)
		if err != nil {
			return tool.Result{}, err
		}
		command = append(command[:len(command):len(command)], path)
	}
	o, code, err := r.run(ctx, command)
	if err != nil {
		return tool.Result{}, err
	}
	text := o.String()
	rep := report{Command: command, Passed: code == 0, ExitCode: code, Counts: count(text), Output: end(text, maxReported)}
	data, err := json.Marshal(rep)
	if err != nil {
		return tool.Result{}, err
	}
	summary := rep.summary()
	return tool.Result{
		Text: summary + ".\n" + text, Failed: !rep.Passed, Summary: summary, Data: data,
		Artifacts: []tool.Artifact{{Name: "test_results", Type: "tests", Value: data}},
	}, nil
}

// within returns the path of a file or folder of the folder as an argument, which is no option.
func (r runner) within(name string) (string, error) {
	path := filepath.FromSlash(name)
	if !filepath.IsLocal(path) || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("path: %q is not a path below the folder", name)
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return "", errors.New("the folder of the tests cannot be opened")
	}
	defer root.Close()
	if _, err := root.Stat(path); err != nil { // also if a link leaves the folder
		return "", fmt.Errorf("path: there is no %s in the folder", name)
	}
	return "." + string(filepath.Separator) + path, nil
}

func (r report) summary() string {
	switch c := r.Counts; {
	case c == nil && r.Passed:
		return "Tests passed"
	case c == nil:
		return fmt.Sprintf("Tests failed (exit code %d)", r.ExitCode)
	case r.Passed:
		return c.String()
	default:
		return fmt.Sprintf("Tests failed (exit code %d): %s", r.ExitCode, c)
	}
}
