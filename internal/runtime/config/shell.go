package config

import (
	"maps"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/shell"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Shell are commands that a model may run.
type Shell struct {
	Root     Value                   `json:"root"` // absolute; the folder in which they run
	Sandbox  Sandbox                 `json:"sandbox,omitzero"`
	Commands map[string]ShellCommand `json:"commands"` // by the name of their operation
}

// ShellCommand is a command that a model may run. [shell.Command] says what the fields mean.
type ShellCommand struct {
	Command      []string         `json:"command"` // the program and its first arguments
	Description  string           `json:"description,omitempty"`
	Arguments    string           `json:"arguments,omitempty"` // pattern of further arguments
	AllowOptions bool             `json:"allowOptions,omitempty"`
	Approval     bool             `json:"approval"` // true unless the file says otherwise
	Env          map[string]Value `json:"env,omitempty"`
	Timeout      define.Duration  `json:"timeout,omitempty"`
}

func readShell(n node, dir string) Shell {
	s := Shell{Root: Value{text: &dir}, Commands: map[string]ShellCommand{}}
	n.object(fields{
		"root":    func(n node) { s.Root = n.folder(dir) },
		"sandbox": func(n node) { s.Sandbox = n.sandbox(dir) },
		"commands": func(n node) {
			n.entries(func(name string, n node) {
				n.checkName("shell.", name)
				s.Commands[name] = readShellCommand(n)
			})
			if n.ShortTag() == "!!map" && len(s.Commands) == 0 {
				n.problem("name at least one command")
			}
		},
	}).require("commands")
	return s
}

// readShellCommand reads a command: a list, or a mapping with more.
func readShellCommand(n node) ShellCommand {
	c := ShellCommand{Approval: true}
	if n.ShortTag() != "!!map" {
		c.Command = n.command()
		return c
	}

	problems := len(n.file.problems)
	g := n.object(fields{
		"command":      func(n node) { c.Command = n.command() },
		"description":  func(n node) { c.Description = n.word() },
		"arguments":    func(n node) { c.Arguments = n.word() },
		"allowOptions": func(n node) { c.AllowOptions = n.boolean() },
		"approval":     func(n node) { c.Approval = n.boolean() },
		"env":          func(n node) { c.Env = n.values(checkVariable, func(n node) Value { return n.value(true) }) },
		"timeout":      func(n node) { c.Timeout = n.duration() },
	})

	g.require("command")
	if g.has("allowOptions") && !g.has("arguments") {
		g.at("allowOptions").problem("it needs arguments")
	}
	if len(n.file.problems) == problems {
		g.optionProblem(shell.Command{Arguments: c.Command, Allow: c.Arguments}.Check())
	}
	return c
}

func (s *Shell) open(hide []string) ([]tool.Tool, error) {
	var commands []shell.Command
	for _, name := range slices.Sorted(maps.Keys(s.Commands)) {
		c := s.Commands[name]
		commands = append(commands, shell.Command{
			Name: name, Description: c.Description, Dir: s.Root.Reveal(), Arguments: c.Command,
			Allow: c.Arguments, AllowOptions: c.AllowOptions, Env: revealAll(c.Env), Sandbox: s.Sandbox.open(hide),
			NoApproval: !c.Approval, Timeout: time.Duration(c.Timeout),
		})
	}
	return shell.Tools(commands...)
}

func (s *Shell) tools() (names []string) {
	if s == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Commands)) {
		names = append(names, "shell."+name)
	}
	return names
}
