package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/actlog/actlog/agent/tool"
)

// Unpriced returns which limits of cost cannot be kept, because a model has no price: that of the agent, or of
// another one that it can call. priced reports whether a model of a provider has one. Log the lines when the
// configuration is loaded.
func (c *Config) Unpriced(priced func(provider, model string) bool) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if c.Agents[name].Limits.CostUSD == 0 {
			continue
		}
		for _, agent := range c.callable(name) {
			if m := c.Models[c.Agents[agent].Model]; m.Model != "" && !priced(m.Provider, m.Model) {
				line := fmt.Sprintf("agents.%s.limits.costUsd: model %s has no price", name, m.Model)
				if agent != name {
					line = fmt.Sprintf("agents.%s.limits.costUsd: model %s of agent %s has no price", name, m.Model, agent)
				}
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// callable returns an agent, and all that it and those that it calls can call.
func (c *Config) callable(agent string) []string {
	all := []string{agent}
	for i := 0; i < len(all); i++ {
		a := c.Agents[all[i]]
		for _, other := range slices.Sorted(maps.Keys(c.Agents)) {
			matches := func(pattern string) bool { return tool.Match(pattern, "agent."+other) }
			if slices.ContainsFunc(a.Tools, matches) && !slices.ContainsFunc(a.Exclude, matches) && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
	}
	return all
}
