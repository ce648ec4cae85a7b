package config

import (
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
)

// openHands returns the tools of the toolsets that reach beyond files: other servers, a database, commands, containers.
func (t Toolsets) openHands(hide []string) (all []tool.Tool, err error) {
	var errs []error
	add := func(toolset string, there bool, open func() ([]tool.Tool, error)) {
		if !there {
			return
		}
		tools, err := open()
		if err != nil {
			errs = append(errs, fmt.Errorf("toolsets.%s: %w", toolset, err))
		}
		all = append(all, tools...)
	}

	add("http", t.HTTP != nil, func() ([]tool.Tool, error) { return t.HTTP.open() })
	add("db", t.DB != nil, func() ([]tool.Tool, error) { return t.DB.open() })
	add("shell", t.Shell != nil, func() ([]tool.Tool, error) { return t.Shell.open(hide) })
	add("docker", t.Docker != nil, func() ([]tool.Tool, error) { return t.Docker.open() })
	return all, errors.Join(errs...)
}
