package config

import (
	"maps"
	"slices"

	"github.com/actlog/actlog/internal/runtime/define"
)

// Definition returns the definition of an agent, or false if there is no such agent.
func (c *Config) Definition(agent string) (define.Definition, bool) {
	a, ok := c.Agents[agent]
	if !ok {
		return define.Definition{}, false
	}
	return a.Definition(agent, c.Models[a.Model].Definition(a.Model), slices.Sorted(maps.Keys(c.MCPServers)), c.Policies),
		true
}
