package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Tools returns the tools that there are, and those of MCP servers. names, which may be patterns, say
// which of the tools that the run itself carries are among them: form, wait_for, and agents as agent.<name>. A name
// that no tool has is an error.
func (r *Run) Tools(ctx context.Context, names, servers []string) ([]tool.Tool, error) {
	others, err := r.parts.Tools(ctx, servers)
	if err != nil {
		if cause := r.boundary(ctx); cause != nil {
			return nil, cause
		}
		return nil, &RunError{Kind: "tools", Message: "The tools cannot be had: " + r.redact(err.Error())}
	}

	all := append(others, r.ownTools(names)...)
	for _, name := range names {
		if !strings.Contains(name, "*") && !slices.ContainsFunc(all, func(t tool.Tool) bool {
			return t.Spec().Name == name
		}) {
			return nil, Fail("configuration", "No tool is called %q any more.", name)
		}
	}
	return all, nil
}

// Set returns tools as a set.
func Set(tools ...tool.Tool) (*tool.Set, error) {
	set, err := tool.NewSet(tools...)
	if err != nil {
		return nil, Fail("configuration", "%v", err)
	}
	return set, nil
}

// ToolsOf returns the tools that an agent has, and more.
func (r *Run) ToolsOf(ctx context.Context, a define.Definition, more ...tool.Tool) (*tool.Set, error) {
	all, err := r.Tools(ctx, a.Tools, a.MCPServers)
	if err != nil {
		return nil, err
	}
	return Set(append(a.Select(all), more...)...)
}

// Thinking returns what an agent asks its model each time, but for the messages. more are tools that it has besides its
// own.
func (r *Run) Thinking(ctx context.Context, a define.Definition, more ...tool.Tool) (t Thinking, err error) {
	if t.Model, err = r.Model(a.Model.Name); err != nil {
		return t, err
	}
	if t.Tools, err = r.ToolsOf(ctx, a, more...); err != nil {
		return t, err
	}

	t.Policies, t.WaitTimeout = a.Policies, time.Duration(a.WaitTimeout)
	t.Temperature, t.MaxTokens = a.Model.Temperature, a.Model.MaxTokens
	return t, nil
}

// ownTools returns those of the tools that the run itself carries that match any of the names. One that is played from
// a record waits for nothing.
func (r *Run) ownTools(names []string) []tool.Tool {
	own := r.engine.ownTools(r.parts, names)
	for i, each := range own {
		if _, waits := each.(waitFor); waits {
			own[i] = r.played(each)
		}
	}
	return own
}

// played returns a tool as it answers in this run: from the record, if that is played.
func (r *Run) played(t tool.Tool) tool.Tool {
	if p := playedIn(r.leased); p != nil {
		return p.Tool(t)
	}
	return t
}

// ownTools returns those of the tools that a run itself carries that match any of the names.
func (e *Engine) ownTools(parts Parts, names []string) (own []tool.Tool) {
	wanted := func(name string) bool {
		return slices.ContainsFunc(names, func(pattern string) bool { return tool.Match(pattern, name) })
	}
	if wanted(FormTool) {
		own = append(own, newForm())
	}
	if wanted(define.WaitForTool) {
		own = append(own, newWaitFor())
	}

	for kind, x := range e.executors {
		executor, ok := x.(Callable)
		if !ok {
			continue
		}
		for _, of := range parts.Names(kind) {
			name := kind + "." + of
			description, schema, ok := executor.Tool(parts, of)
			if !ok || !wanted(name) {
				continue
			}
			own = append(own, subRun{
				spec: tool.Spec{Name: name, Description: description, Schema: schema}, executor: executor, name: of,
			})
		}
	}
	return own
}
