package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/internal/runtime/catalog"
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

func (c *agentsCmd) Run(ctx context.Context, e *env, client *client) error {
	columns := []column{
		{head: "AGENT"}, {head: "MODEL"}, {head: "WRITES"}, {head: "VERSION"}, {head: "WORKERS"}, {head: "TOOLS", share: 2},
		{head: "DESCRIPTION", share: 3},
	}
	return listThings(ctx, client, e, "agents", c.JSON, columns, agentCells)
}

func agentCells(a *catalog.Agent) []string {
	model, version := "-", "-"
	if a.Model != nil {
		model = cmp.Or(words.Clean(a.Model.Name), "-")
	}
	if a.Version != nil {
		version = words.Grouped(int64(*a.Version))
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
		words.Clean(a.Name), model, yes(a.EnableWrite), version, words.Grouped(int64(a.Workers)), listOf(tools),
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
	columns := []column{
		{head: "NAME"}, {head: "PROVIDER"}, {head: "MODEL", share: 1}, {head: "HOST", share: 1}, {head: "PRICED"},
		{head: "AT ONCE"}, {head: "WORKERS"},
	}
	return listThings(ctx, client, e, "models", c.JSON, columns, modelCells)
}

func modelCells(m *catalog.Model) []string {
	priced, most := yes(m.Priced), "any"
	if m.MaxConcurrent > 0 {
		most = words.Grouped(int64(m.MaxConcurrent))
	}
	if !m.Configured { // only the name is known
		priced, most = "-", "-"
	}

	return []string{
		words.Clean(m.Name), cmp.Or(words.Clean(m.Provider), "-"), cmp.Or(words.Clean(m.Model), "-"),
		cmp.Or(words.Clean(m.Host), "-"), priced, most, words.Grouped(int64(m.Workers)),
	}
}

// listThings lists what a server has for runs: as JSON, or as a table with the cells of each.
func listThings[T any](
	ctx context.Context, c *client, e *env, things string, asJSON bool, columns []column, cells func(*T) []string,
) error {
	what := "list " + things
	var list struct{ Items []json.RawMessage }
	if err := c.get(ctx, what, "/api/v1/"+things, &list); err != nil {
		return err
	}
	if asJSON {
		return printLines(e, what, list.Items)
	}

	all, err := decodeAll[T](what, list.Items)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return none(e, things)
	}

	t := &table{columns: columns}
	for i := range all {
		t.add(cells(&all[i])...)
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
