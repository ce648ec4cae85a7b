package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// Tools returns the tools that there are, and those of MCP servers. names, which may be patterns, say
// which of the tools that the run itself carries are among them: form, and agents as agent.<name>.
func (r *Run) Tools(ctx context.Context, names, servers []string) ([]tool.Tool, error) {
	own, err := r.ownTools(names)
	if err != nil {
		return nil, err
	}
	others, err := r.parts.Tools(ctx, servers)
	if err != nil {
		if cause := r.boundary(ctx); cause != nil {
			return nil, cause
		}
		return nil, &RunError{Kind: "tools", Message: "The tools cannot be had: " + r.redact(err.Error())}
	}
	return append(others, own...), nil
}

// ownTools returns those of the tools that the run itself carries that match any of the names.
func (r *Run) ownTools(names []string) (own []tool.Tool, err error) {
	wanted := func(name string) bool {
		return slices.ContainsFunc(names, func(pattern string) bool { return tool.Match(pattern, name) })
	}
	if wanted(FormTool) {
		own = append(own, newForm())
	}
	found := map[string]bool{}
	for kind, x := range r.engine.executors {
		executor, ok := x.(Callable)
		if !ok {
			continue
		}
		for _, of := range r.parts.Names(kind) {
			name := kind + "." + of
			description, schema, ok := executor.Tool(r.parts, of)
			if !ok || !wanted(name) {
				continue
			}
			found[name] = true
			own = append(own, subRun{spec: tool.Spec{Name: name, Description: description, Schema: schema}, executor: executor, name: of})
		}
	}
	for _, name := range names {
		if kind, of, ok := strings.Cut(name, "."); ok && !found[name] && !strings.Contains(name, "*") && r.engine.executors[kind] != nil {
			return nil, &RunError{Kind: "configuration", Message: fmt.Sprintf("There is no %s called %q any more.", kind, of)}
		}
	}
	return own, nil
}
