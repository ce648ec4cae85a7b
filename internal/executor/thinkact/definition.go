package thinkact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
)

// defaultMaxSteps is how many rounds an agent has.
const defaultMaxSteps = 30

// input is what a run of an agent is given.
type input struct {
	Agent   string `json:"agent"`
	Request string `json:"request"`
}

// Executor carries runs of agents.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "agent" }

var _ engine.Callable = Executor{}

// Prepare implements [engine.Executor].
func (Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var in input
	d := json.NewDecoder(bytes.NewReader(r.Input))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return p, &record.InvalidError{Code: record.CodeUnknownField, Field: "input." + strings.Trim(field, `"`), Reason: "is not known"}
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return p, invalid("input."+wrong.Field, "must be a text")
		}
		return p, invalid("input", "must be an object with agent and request")
	}
	if in.Agent == "" {
		in.Agent = r.Name
	}
	switch {
	case in.Agent == "":
		return p, &record.InvalidError{Code: record.CodeMissingField, Field: "input.agent", Reason: "is required"}
	case r.Name != "" && r.Name != in.Agent:
		return p, invalid("name", "is not that of input.agent")
	case strings.TrimSpace(in.Request) == "":
		return p, &record.InvalidError{Code: record.CodeMissingField, Field: "input.request", Reason: "is required"}
	}
	body, ok := parts.Definition("agent", in.Agent)
	if !ok {
		return p, &engine.UnknownError{Kind: "agent", Name: in.Agent, There: parts.Names("agent")}
	}
	agent, err := decode(body)
	if err != nil {
		return p, fmt.Errorf("agent %q: %w", in.Agent, err)
	}
	in.Request = parts.Redact(in.Request)
	if p.Input, err = json.Marshal(in); err != nil {
		return p, err
	}
	p.Name, p.Definition, p.UserRequest, p.Title, p.ModelName, p.Limits = in.Agent, body, in.Request, title(in.Request), agent.Model.Model, new(engine.Limits(agent.Limits))
	p.Needs = needs(agent)
	return p, nil
}

// needs returns what a worker must have for an agent. Tools that a pattern matches may be missing, those of
// MCP servers are known only when they are asked, and every worker has form and terminate.
func needs(agent config.Definition) []string {
	all := []string{"model:" + agent.Model.Name}
	for _, server := range agent.MCPServers {
		all = append(all, "mcp:"+server)
	}
	for _, name := range agent.Tools {
		everywhere := name == terminateTool || name == engine.FormTool
		ofServer := slices.ContainsFunc(agent.MCPServers, func(server string) bool { return strings.HasPrefix(name, server+"-") })
		if !everywhere && !ofServer && !strings.Contains(name, "*") {
			all = append(all, "tool:"+name)
		}
	}
	return all
}

func decode(body json.RawMessage) (d config.Definition, err error) {
	if err := json.Unmarshal(body, &d); err != nil {
		return d, err
	}
	if d.MaxSteps == 0 {
		d.MaxSteps = defaultMaxSteps
	}
	return d, nil
}

// read returns what a run does.
func read(run *engine.Run) (d config.Definition, in input, err error) {
	if d, err = decode(run.Definition()); err == nil {
		err = json.Unmarshal(run.Input(), &in)
	}
	if err != nil {
		return d, in, &engine.RunError{Kind: "configuration", Message: "The run cannot be read: " + err.Error()}
	}
	return d, in, nil
}

// maxTitle bounds a title, in bytes.
const maxTitle = 100

// title returns the first line of a request.
func title(request string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(request), "\n")
	if len(line) <= maxTitle {
		return line
	}
	end := maxTitle
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "..."
}

// Tool implements [engine.Callable].
func (Executor) Tool(parts engine.Parts, name string) (description string, schema json.RawMessage, ok bool) {
	body, ok := parts.Definition("agent", name)
	if !ok {
		return "", nil, false
	}
	agent, err := decode(body)
	if err != nil {
		return "", nil, false
	}
	if description = agent.Description; description == "" {
		description = "Asks the agent " + name + "."
	}
	return description, json.RawMessage(`{"type":"object","properties":{"request":{"type":"string","description":"What the agent is to do, with all that it must know"}},"required":["request"],"additionalProperties":false}`), true
}

// Call implements [engine.Callable].
func (Executor) Call(name string, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Request string `json:"request"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, errors.New("request: required, a text")
	}
	return json.Marshal(input{Agent: name, Request: in.Request})
}

// invalid returns the error of a field of a request.
func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}
