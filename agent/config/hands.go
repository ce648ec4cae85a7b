package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// openHands adds the tools of the toolsets that reach beyond files: other servers, a database, commands, containers.
func (p *Parts) openHands(t Toolsets, hide []string) error {
	var errs []error
	add := func(toolset string, there bool, open func() ([]tool.Tool, error)) {
		if !there {
			return
		}
		tools, err := open()
		if err != nil {
			errs = append(errs, fmt.Errorf("toolsets.%s: %w", toolset, err))
		}
		p.Tools = append(p.Tools, tools...)
	}
	add("http", t.HTTP != nil, func() ([]tool.Tool, error) { return t.HTTP.open() })
	add("db", t.DB != nil, func() ([]tool.Tool, error) { return t.DB.open() })
	add("shell", t.Shell != nil, func() ([]tool.Tool, error) { return t.Shell.open(hide) })
	add("docker", t.Docker != nil, func() ([]tool.Tool, error) { return t.Docker.open() })
	return errors.Join(errs...)
}

// optionProblem notes what a toolset says about its options, at the place of the field that it names: "field: message".
func (g given) optionProblem(err error) {
	if err == nil {
		return
	}
	field, message, _ := strings.Cut(err.Error(), ": ")
	at := g.at(field)
	at.path = below(g.node.path, field)
	at.problem("%s", message)
}
