package config

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Names are what the agents of a program may refer to, beside each other, form and terminate.
type Names struct {
	Models  []string
	Servers []string // MCP servers
	Tools   []string // with agent.<name> for other agents
}

// CheckAgents checks agents that a program defines, by their names, as [Parse] checks those of a file. It
// returns them with their defaults. Texts are taken as they are: a dollar is a dollar. If there are
// mistakes, the error is of type *InvalidError and has all of them.
func CheckAgents(agents map[string]Agent, known Names) (map[string]Agent, error) {
	f := &file{literal: true}
	written := map[string]any{}
	for name, a := range agents {
		written[name] = a.written()
	}
	top := node{file: f, Node: &yaml.Node{}}
	if err := top.Encode(map[string]any{"agents": written}); err != nil {
		return nil, err
	}
	there := names{models: known.Models, servers: known.Servers, tools: append(slices.Clone(known.Tools), "form", "terminate")}
	for name := range agents {
		there.tools = append(there.tools, "agent."+name)
	}
	there.checkOffered(top)
	for _, name := range there.servers {
		there.tools = append(there.tools, name+"-*")
	}
	slices.Sort(there.tools)
	section(top.child("agents"), "agent.", func(_ string, n node) Agent { return readAgent(n, there) })
	if len(f.problems) > 0 {
		return nil, &InvalidError{Problems: f.problems}
	}
	checked := map[string]Agent{}
	for name, a := range agents {
		a.Model = cmp.Or(a.Model, defaultModel)
		checked[name] = a
	}
	return checked, nil
}

// written returns an agent as a file has it: without what is zero.
func (a Agent) written() map[string]any {
	out := map[string]any{"model": cmp.Or(a.Model, defaultModel), "enableWrite": a.EnableWrite}
	put := func(to map[string]any, key string, value any) {
		if !reflect.ValueOf(value).IsZero() {
			to[key] = value
		}
	}
	limits := map[string]any{}
	put(limits, "rounds", a.Limits.Rounds)
	put(limits, "toolCalls", a.Limits.ToolCalls)
	put(limits, "tokens", a.Limits.Tokens)
	put(limits, "costUsd", a.Limits.CostUSD)
	put(limits, "seconds", a.Limits.Seconds)
	if len(limits) > 0 {
		out["limits"] = limits
	}
	put(out, "description", a.Description)
	put(out, "systemPrompt", a.SystemPrompt)
	put(out, "temperature", a.Temperature)
	put(out, "tools", a.Tools)
	put(out, "mcpServers", a.MCPServers)
	put(out, "exclude", a.Exclude)
	put(out, "maxSteps", a.MaxSteps)
	put(out, "includeHistory", a.IncludeHistory)
	put(out, "waitTimeout", a.WaitTimeout)
	if a.ResponseSchema != nil {
		var schema any = string(a.ResponseSchema) // what is no JSON is no mapping either
		_ = json.Unmarshal(a.ResponseSchema, &schema)
		out["responseSchema"] = schema
	}
	return out
}
