package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/internal/view/words"
)

type agentsCmd struct {
	JSON bool `help:"Print the agents as JSON, one per line."`
	serverFlags
}

type toolsCmd struct {
	JSON bool `help:"Print the tools as JSON, one per line, and then the MCP servers."`
	serverFlags
}

type modelsCmd struct {
	JSON bool `help:"Print the models as JSON, one per line."`
	serverFlags
}

// agentView is what the command shows of an agent.
type agentView struct {
	Name, Description string
	Model             *struct{ Name string }
	Tools             []string
	MCPServers        []string
	SubAgents         []string
	EnableWrite       bool
	Version           *int64
	Configured        bool
	Workers           int64
}

// toolView is what the command shows of a tool.
type toolView struct {
	Name, Description string
	UsedBy            []string
	Policy            struct {
		Writes    bool
		Approval  json.RawMessage // true, false or {"notStarter": true}
		OnUnknown string
		Timeout   string
	}
}

// mcpServerView is an MCP server, which is asked for its tools when a run needs them.
type mcpServerView struct {
	Name   string
	UsedBy []string
}

// modelView is what the command shows of a model.
type modelView struct {
	Name, Provider, Model, Host string
	Priced, Configured          bool
	MaxConcurrent, Workers      int64
}

func (c *agentsCmd) Run(ctx context.Context, e *env, client *client) error {
	const what = "list agents"
	var list struct{ Items []json.RawMessage }
	if err := client.get(ctx, what, "/api/v1/agents", &list); err != nil {
		return err
	}
	if c.JSON {
		return printLines(e, what, list.Items)
	}

	agents, err := decodeAll[agentView](what, list.Items)
	if err != nil {
		return err
	}
	if len(agents) == 0 {
		return none(e, "agents")
	}

	t := &table{columns: []column{
		{head: "AGENT"}, {head: "MODEL"}, {head: "WRITES"}, {head: "VERSION"}, {head: "WORKERS"}, {head: "TOOLS", share: 2},
		{head: "DESCRIPTION", share: 3},
	}}
	for i := range agents {
		t.add(agents[i].cells()...)
	}
	return t.write(e.stdout, widthOf(e.stdout))
}

func (a *agentView) cells() []string {
	model, version := "-", "-"
	if a.Model != nil {
		model = cmp.Or(words.Clean(a.Model.Name), "-")
	}
	if a.Version != nil {
		version = words.Grouped(*a.Version)
	}

	tools := a.Tools
	for _, server := range a.MCPServers {
		tools = append(tools, "mcp:"+server)
	}
	for _, sub := range a.SubAgents {
		tools = append(tools, "agent."+sub)
	}

	description := a.Description
	if !a.Configured {
		description = strings.TrimSpace("(only on workers) " + description)
	}

	return []string{
		words.Clean(a.Name), model, yes(a.EnableWrite), version, words.Grouped(a.Workers), listOf(tools),
		words.Shorten(description, cellRunes),
	}
}

func (c *toolsCmd) Run(ctx context.Context, e *env, client *client) error {
	const what = "list tools"
	var list struct{ Items, MCPServers []json.RawMessage }
	if err := client.get(ctx, what, "/api/v1/tools", &list); err != nil {
		return err
	}
	if c.JSON {
		return printLines(e, what, append(list.Items, list.MCPServers...))
	}

	tools, err := decodeAll[toolView](what, list.Items)
	if err != nil {
		return err
	}
	servers, err := decodeAll[mcpServerView](what, list.MCPServers)
	if err != nil {
		return err
	}

	if len(tools)+len(servers) == 0 {
		return none(e, "tools")
	}

	t := &table{columns: []column{
		{head: "TOOL"}, {head: "WRITES"}, {head: "APPROVAL"}, {head: "UNKNOWN"}, {head: "TIMEOUT"},
		{head: "USED BY", share: 2}, {head: "DESCRIPTION", share: 3},
	}}
	for i := range tools {
		t.add(tools[i].cells()...)
	}
	for _, s := range servers {
		const what = "MCP server: asked for its tools when a run needs them"
		t.add(words.Clean("mcp:"+s.Name), "-", "-", "-", "-", listOf(s.UsedBy), what)
	}
	return t.write(e.stdout, widthOf(e.stdout))
}

func (v *toolView) cells() []string {
	p, approval := &v.Policy, "no"
	switch strings.TrimSpace(string(p.Approval)) {
	case "", "false", "null":
	case "true":
		approval = "yes"
	default:
		approval = "by another"
	}
	return []string{
		words.Clean(v.Name), yes(p.Writes), approval, cmp.Or(words.Clean(p.OnUnknown), "report"),
		cmp.Or(words.Clean(p.Timeout), "-"), listOf(v.UsedBy), words.Shorten(v.Description, cellRunes),
	}
}

func (c *modelsCmd) Run(ctx context.Context, e *env, client *client) error {
	const what = "list models"
	var list struct{ Items []json.RawMessage }
	if err := client.get(ctx, what, "/api/v1/models", &list); err != nil {
		return err
	}
	if c.JSON {
		return printLines(e, what, list.Items)
	}

	models, err := decodeAll[modelView](what, list.Items)
	if err != nil {
		return err
	}
	if len(models) == 0 {
		return none(e, "models")
	}

	t := &table{columns: []column{
		{head: "NAME"}, {head: "PROVIDER"}, {head: "MODEL", share: 1}, {head: "HOST", share: 1}, {head: "PRICED"},
		{head: "AT ONCE"}, {head: "WORKERS"},
	}}
	for _, m := range models {
		priced, most := yes(m.Priced), "any"
		if m.MaxConcurrent > 0 {
			most = words.Grouped(m.MaxConcurrent)
		}
		if !m.Configured { // only the name is known
			priced, most = "-", "-"
		}

		t.add(
			words.Clean(m.Name), cmp.Or(words.Clean(m.Provider), "-"), cmp.Or(words.Clean(m.Model), "-"),
			cmp.Or(words.Clean(m.Host), "-"), priced, most, words.Grouped(m.Workers),
		)
	}
	return t.write(e.stdout, widthOf(e.stdout))
}

// cellRunes bounds a text in a cell, in characters.
const cellRunes = 200

func listOf(names []string) string {
	return cmp.Or(words.Shorten(strings.Join(names, ", "), cellRunes), "-")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// none says on stderr that a server has none of something.
func none(e *env, things string) error {
	const where = "They are in the file of actlog serve --config and actlog work --config"
	_, err := fmt.Fprintf(e.stderr, "actlog: the server has no %s. %s\n", things, where)
	return err
}

// printLines writes items of an answer as JSON, one per line.
func printLines(e *env, what string, items []json.RawMessage) error {
	for _, raw := range items {
		if err := printJSON(e.stdout, raw); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

func decodeAll[T any](what string, items []json.RawMessage) ([]T, error) {
	all := make([]T, len(items))
	for i, raw := range items {
		if err := json.Unmarshal(raw, &all[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return all, nil
}
