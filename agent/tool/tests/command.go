package tests

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool/internal/command"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// Command is how tests are run.
type Command struct {
	// Name makes the name of the tool: tests.<name>.
	Name string
	// Dir is the folder in which the command runs.
	Dir string
	// Arguments are the program and its arguments. No shell reads them. A program with a "/" that is not
	// absolute is one of the folder. {report} in them stands for the file into which the program writes its report.
	Arguments []string
	// Format is how the command reports its tests. Empty: that of the program, as far as it is known.
	Format Format
	// Report is a pattern of the files below Dir into which the command writes its report, such as
	// **/target/surefire-reports/*.xml. Those that a run has written are read.
	Report string
	// Env are variables for the command, besides those of [sandbox.Environment].
	Env map[string]string
	// Sandbox is what the command can reach besides its folder. The zero value is the best that the system
	// has.
	Sandbox sandbox.Sandbox
}

// Check returns an error if the format and the report of the command do not go together.
func (c Command) Check() error {
	_, err := c.known()
	return err
}

// known returns what is known of the program of the command, as its configuration wants it.
func (c Command) known() (program, error) {
	p := programOf(c.Arguments)
	if c.Format != "" && !slices.Contains(Formats(), c.Format) {
		return p, fmt.Errorf("format: there is no %q", c.Format)
	}
	if c.Format == Text {
		p.format, p.files = Text, ""
		p.report, p.coverage = nil, nil
		return p, nil
	}
	if c.Format != "" && c.Format != p.format {
		p = otherProgram(c.Format, p.name)
	}

	placed := slices.ContainsFunc(c.Arguments, func(each string) bool { return strings.Contains(each, reportMark) })
	elsewhere := slices.ContainsFunc(c.Arguments, p.reports)
	switch {
	case c.Report != "":
		if _, err := folder.ReadGlob(c.Report); err != nil {
			return p, fmt.Errorf("report: %w", err)
		}
		p.files, p.report = c.Report, nil

	case placed:
		p.report = nil
	case elsewhere: // in a file that nobody named
		p.format, p.report = Text, nil
	case p.format != Go && p.files == "" && len(p.report) == 0 && p.format != Text:
		return p, fmt.Errorf("report: say which files have the report, or let the command write it to %s", reportMark)
	}
	return p, nil
}

type runner struct {
	Command
	program program
}

// execute runs a command, whose output goes to out and errors, and returns its exit code. It may write in the folder
// temporary.
func (r runner) execute(ctx context.Context, arguments []string, temporary string, out, errs io.Writer) (int, error) {
	env := map[string]string{}
	maps.Copy(env, r.Env)
	if r.program.writes() {
		env["COVERAGE_FILE"] = filepath.Join(temporary, ".coverage") // Python's, else in the folder
	}
	if r.program.format == Jest {
		options, err := nodeOptions(temporary, env["NODE_OPTIONS"])
		if err != nil {
			return 0, fmt.Errorf("the tests cannot be started: %w", err)
		}
		env["NODE_OPTIONS"] = options
	}

	box := r.Sandbox
	box.Write = append(box.Write[:len(box.Write):len(box.Write)], temporary)

	c := command.Command{Dir: r.Dir, Arguments: arguments, Env: env, Sandbox: box}
	code, err := c.Execute(ctx, out, errs)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("the tests cannot be started: %w", err)
	}
	return code, err
}
