package config

import (
	"cmp"
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
		for _, each := range c.callable(name) {
			for _, asked := range append([]string{each.model}, c.Models[each.model].Fallback...) {
				m := c.Models[asked]
				if m.Model == "" || m.Unpriced == allowUnpriced || priced(m.Provider, m.Model) {
					continue
				}

				line := fmt.Sprintf("agents.%s.limits.costUsd: model %s has no price", name, m.Model)
				if each.agent != name {
					line = fmt.Sprintf("agents.%s.limits.costUsd: model %s of agent %s has no price", name, m.Model, each.agent)
				}
				if !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

// caller is an agent, by itself or in a step of a plan, with what it can call.
type caller struct {
	agent, model   string
	tools, exclude []string
}

func (c *Config) caller(agent string) caller {
	a := c.Agents[agent]
	return caller{agent: agent, model: a.Model, tools: a.Tools, exclude: a.Exclude}
}

// callable returns an agent, and all that it and those that it calls can call: other agents, and the steps of plans.
func (c *Config) callable(agent string) []caller {
	all := []caller{c.caller(agent)}
	called := map[string]bool{"agent." + agent: true}
	for i := 0; i < len(all); i++ {
		calls := func(name string) bool {
			matches := func(pattern string) bool { return tool.Match(pattern, name) }
			if called[name] || !slices.ContainsFunc(all[i].tools, matches) || slices.ContainsFunc(all[i].exclude, matches) {
				return false
			}
			called[name] = true
			return true
		}

		for _, other := range slices.Sorted(maps.Keys(c.Agents)) {
			if calls("agent." + other) {
				all = append(all, c.caller(other))
			}
		}

		for _, plan := range slices.Sorted(maps.Keys(c.Plans)) {
			if !calls("plan." + plan) {
				continue
			}
			for _, step := range c.Plans[plan].Steps {
				one := c.caller(step.Agent)
				one.model = cmp.Or(step.Model, one.model)
				if len(step.Tools) > 0 {
					one.tools = step.Tools
				}
				all = append(all, one)
			}
		}
	}
	return all
}
