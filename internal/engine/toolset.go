package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// Tools returns tools by their names, which may be patterns, and those of MCP servers. form, and agents
// as agent.<name>, are among them.
func (r *Run) Tools(ctx context.Context, names, servers []string) (*tool.Set, error) {
	var own []tool.Tool
	var others []string
	for _, name := range names {
		switch t, ok, err := r.ownTool(name); {
		case err != nil:
			return nil, err
		case ok:
			own = append(own, t)
		default:
			others = append(others, name)
		}
	}
	set, err := r.parts.Tools(ctx, others, servers)
	if err == nil && len(own) > 0 {
		set, err = tool.NewSet(append(set.Tools(), own...)...)
	}
	if err != nil {
		if cause := r.boundary(ctx); cause != nil {
			return nil, cause
		}
		return nil, &RunError{Kind: "tools", Message: "The tools cannot be had: " + r.redact(err.Error())}
	}
	return set, nil
}

// ownTool returns a tool that the run itself carries.
func (r *Run) ownTool(name string) (tool.Tool, bool, error) {
	if name == FormTool {
		return newForm(), true, nil
	}
	kind, of, found := strings.Cut(name, ".")
	executor, ok := r.engine.executors[kind].(Callable)
	if !found || !ok {
		return nil, false, nil
	}
	description, schema, ok := executor.Tool(r.parts, of)
	if !ok {
		return nil, false, &RunError{Kind: "configuration", Message: fmt.Sprintf("There is no %s called %q any more.", kind, of)}
	}
	return subRun{spec: tool.Spec{Name: name, Description: description, Schema: schema}, executor: executor, name: of}, true, nil
}
