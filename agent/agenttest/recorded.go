package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// answering makes parts answer from a recording: nothing is asked or executed.
type answering struct {
	*recording
	redact  func(string) string
	servers []string // the names of all MCP servers
	named   []string // the tools that agents and workflows name
}

// parts returns parts that answer from the recording. What would only take time is left out, and so are limits of time
// and cost, of which a replay has neither.
func (a *answering) parts(p agent.Parts) agent.Parts {
	p.Models = each(p.Models, func(_ string, m model.Model) model.Model { return orNil(m, a.model) })
	p.Tools = a.tools(p.Tools)
	p.MCPServers = each(p.MCPServers, a.server)
	p.Policies = a.rules(p.Policies)

	p.Agents = each(p.Agents, func(_ string, of agent.Agent) agent.Agent {
		a.named = append(a.named, of.Tools...)
		of.Limits.CostUSD, of.Limits.Seconds = 0, 0
		return of
	})
	for _, w := range p.Workflows {
		a.named = append(a.named, w.Tools...)
	}

	if from, ok := p.Config.(define.Configuration); ok {
		p.Config = &configuration{p.Config, from, a}
	}
	return p
}

// each returns a map with other values; nil stays nil.
func each[V any](of map[string]V, with func(name string, v V) V) map[string]V {
	out := maps.Clone(of)
	for name, v := range of {
		out[name] = with(name, v)
	}
	return out
}

// orNil leaves a model or a tool that is nil to those who check the parts.
func orNil[T comparable](of T, with func(T) T) T {
	if of == *new(T) {
		return of
	}
	return with(of)
}

// rules returns rules without what takes time.
func (*answering) rules(of tool.Rules) tool.Rules {
	of = slices.Clone(of)
	for i := range of {
		of[i].Retry, of[i].Limits = nil, limit.Limits{}
		of[i].Timeout = nil
	}
	return of
}

// configuration is a configuration file whose parts answer from a recording.
type configuration struct {
	agent.Configuration
	from define.Configuration
	*answering
}

// Configured implements [define.Configuration].
func (c *configuration) Configured() (*define.Configured, func(), error) {
	in, release, err := c.from.Configured()
	if err != nil {
		return nil, release, err
	}

	out := *in
	out.Models = each(in.Models, func(_ string, m define.Model) define.Model {
		m.Model = c.model(m.Model)
		return m
	})
	out.Tools, out.Servers = c.tools(in.Tools), each(in.Servers, c.server)
	out.Policies, out.Schedules = c.rules(in.Policies), nil
	out.Agents = each(in.Agents, func(_ string, a define.Agent) define.Agent {
		a.Limits.CostUSD, a.Limits.Seconds = 0, 0
		return a
	})
	return &out, release, nil
}

// StoreVectors implements [define.Configuration]: nothing is searched.
func (*configuration) StoreVectors(define.VectorStore) {}

// Loads implements [define.Configuration].
func (c *configuration) Loads() define.Loads { return c.from.Loads() }

// recordedModel answers as on record.
type recordedModel struct {
	*answering
	provider, name string
}

func (a *answering) model(of model.Model) model.Model {
	return recordedModel{a, of.Provider(), of.Name()}
}

// Provider implements [model.Model].
func (m recordedModel) Provider() string { return m.provider }

// Name implements [model.Model].
func (m recordedModel) Name() string { return m.name }

// Generate implements [model.Model].
func (m recordedModel) Generate(ctx context.Context, _ model.Request, _ func(model.Delta)) (*model.Response, error) {
	at, _ := engine.AskedIn(ctx) // nothing is on record at no place
	c, step := m.cycles[cycleAt{at.StepID, at.Seq}], m.steps[at.StepID]
	if c == nil || step == nil || optional.Value(step.AgentName) != at.Agent {
		return nil, &engine.OffRecordError{}
	}

	if c.ThinkEndTime != nil && c.Message != nil {
		return engine.RecordedAnswer(c)
	}
	failed := &model.Error{Kind: model.Kind(optional.Value(c.ErrorKind))}
	if optional.Value(c.State) != record.Failed || failed.Retryable() {
		return nil, &engine.OffRecordError{}
	}
	return nil, recordedError{optional.Value(c.ErrorMessage), failed}
}

// recordedError says what is on record.
type recordedError struct {
	message string
	failed  *model.Error
}

func (e recordedError) Error() string { return e.message }

// Unwrap returns the error of the model.
func (e recordedError) Unwrap() error { return e.failed }

// recordedTool returns what is on record of its calls.
type recordedTool struct {
	*answering
	spec  tool.Spec
	check func(arguments json.RawMessage) error
}

func (a *answering) tools(of []tool.Tool) []tool.Tool {
	out := slices.Clone(of)
	for i, t := range of {
		out[i] = orNil(t, a.tool)
	}
	return out
}

func (a *answering) tool(of tool.Tool) tool.Tool {
	spec := of.Spec()
	spec.Policy.Retry, spec.Policy.Timeout = nil, 0
	return recordedTool{a, spec, func(arguments json.RawMessage) error { return tool.CheckArguments(of, arguments) }}
}

// Spec implements [tool.Tool].
func (t recordedTool) Spec() tool.Spec { return t.spec }

// CheckArguments implements [tool.ArgumentChecker].
func (t recordedTool) CheckArguments(arguments json.RawMessage) error { return t.check(arguments) }

// Call implements [tool.Tool].
func (t recordedTool) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	c := t.calls[call.ID]
	if c == nil || optional.Value(c.Name) != t.spec.Name ||
		!same(optional.Value(c.Parameters), t.redact(string(call.Arguments))) {
		return tool.Result{}, &engine.OffRecordError{}
	}
	made := t.made(c)
	if made == nil {
		return tool.Result{}, &engine.OffRecordError{}
	}

	result := tool.Result{Text: optional.Value(c.Result)}
	var about struct{ Summary string }
	if json.Unmarshal(c.Metadata, &about) == nil { // without it there is none
		result.Summary = about.Summary
	}

	timedOut := optional.Value(made.ErrorKind) == string(tool.OnTimeout)
	switch optional.Value(made.State) {
	case record.Completed:
		return result, nil
	case record.Failed:
		result.Failed, result.TimedOut = true, timedOut
		return result, nil
	case record.Unknown:
		if timedOut {
			return tool.Result{}, fmt.Errorf("%w: %w", tool.ErrTimeout, tool.ErrUnknown)
		}
		return tool.Result{}, tool.ErrUnknown
	}
	return tool.Result{}, &engine.OffRecordError{}
}

// same reports whether arguments are the same.
func same(a, b string) bool { return engine.Comparable(a) == engine.Comparable(b) }

// recordedServer has those tools of an MCP server that are on record, and those that are named.
type recordedServer struct {
	*answering
	name string
	tool.Server
}

func (a *answering) server(name string, of tool.Server) tool.Server {
	return orNil(of, func(tool.Server) tool.Server {
		a.servers = append(a.servers, name)
		return recordedServer{a, name, of}
	})
}

// NewPool implements [tool.Server].
func (s recordedServer) NewPool(*slog.Logger) tool.ServerPool { return recordedPool{s.answering} }

type recordedPool struct{ *answering }

// Close implements [tool.ServerPool].
func (recordedPool) Close() error { return nil }

// Tools implements [tool.ServerPool].
func (p recordedPool) Tools(_ context.Context, servers map[string]tool.Server) (all []tool.Tool, err error) {
	found := map[string]tool.Spec{}
	for _, name := range p.named {
		if server := tool.ServerOf(name, p.servers); server != "" && tool.CheckName(name) == nil {
			found[name] = tool.Spec{Name: name, Server: server}
		}
	}
	for _, c := range p.calls {
		spec := tool.Spec{Name: optional.Value(c.Name), Server: optional.Value(c.ServerName)}
		if spec.Server == "" || tool.CheckName(spec.Name) != nil {
			continue
		}
		if json.Unmarshal(c.Policy, &spec.Policy) != nil { // the record has none
			spec.Policy = tool.Policy{}
		}
		found[spec.Name] = spec
	}

	for _, name := range slices.Sorted(maps.Keys(found)) {
		spec := found[name]
		if _, wanted := servers[spec.Server]; !wanted {
			continue
		}
		spec.Schema = json.RawMessage(`{"type":"object"}`)
		spec.Policy.Retry, spec.Policy.Timeout = nil, 0
		all = append(all, recordedTool{p.answering, spec, func(json.RawMessage) error { return nil }})
	}
	return all, nil
}
