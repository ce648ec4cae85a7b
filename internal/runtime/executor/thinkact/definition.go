package thinkact

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
)

// Asked is what an agent is asked.
type Asked struct {
	Agent   string `json:"agent"`
	Request string `json:"request"`
	// History is what was said before the request, oldest first, of a client that keeps the conversation itself.
	History []historyMessage `json:"history,omitempty"`
}

type historyMessage struct {
	Role    model.Role `json:"role"` // user or assistant
	Content string     `json:"content"`
}

const (
	// maxHistory bounds the messages of a history.
	maxHistory = 1_000
	// maxHistoryBytes bounds its texts together. With the work of the agent they must fit into what it is told.
	maxHistoryBytes = 200_000
)

// Executor carries runs of agents.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "agent" }

var _ engine.Callable = Executor{}

// About implements [engine.Described].
func (Executor) About() engine.About {
	return engine.About{
		Schema: json.RawMessage(`{"type":"object","required":["agent","request"],"properties":{` +
			`"agent":{"type":"string"},"request":{"type":"string"},"history":{"type":"array","maxItems":1000,"items":{"type":"object",` +
			`"required":["role","content"],"properties":{"role":{"enum":["user","assistant"]},"content":{"type":"string"}}}}}}`),
		AnswersText: true,
		Startables: func(parts engine.Parts) []engine.Startable {
			return engine.Defined(parts, "agent", func(s *engine.Startable, _ json.RawMessage) {
				s.Input = map[string]any{"agent": s.Name}
				s.Fields = []engine.Field{engine.LongText("What is it to do?", "request")}
			})
		},
	}
}

// Prepare implements [engine.Executor].
func (Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var in Asked
	if err := engine.ReadInput(r.Input, "an object with agent and request", &in); err != nil {
		return p, err
	}

	if in.Agent == "" {
		in.Agent = r.Name
	}
	switch {
	case in.Agent == "":
		return p, engine.NoInput("input.agent")
	case r.Name != "" && r.Name != in.Agent:
		return p, engine.BadInput("name", "is not that of input.agent")
	case strings.TrimSpace(in.Request) == "":
		return p, engine.NoInput("input.request")
	}

	agent, err := engine.Find[define.Definition](parts, "agent", in.Agent)
	if err != nil {
		return p, err
	}

	in.Request = parts.Redact(in.Request)
	if err := clean(in.History, parts.Redact); err != nil {
		return p, err
	}

	p.Name, p.Agent = in.Agent, in.Agent
	p.UserRequest = in.Request
	p.Title = engine.Title(in.Request)
	p.ModelName, p.Needs = agent.Model.Model, agent.Needs()
	p.Limits = new(engine.Limits(agent.Limits))
	err = p.Keep(in, agent)
	return p, err
}

// clean checks a history, and redacts its texts.
func clean(history []historyMessage, redact func(string) string) error {
	bytes := 0
	for i := range history {
		m := &history[i]
		bytes += len(m.Content)
		at := fmt.Sprintf("input.history[%d].", i)
		switch {
		case m.Role != model.RoleUser && m.Role != model.RoleAssistant:
			return engine.BadInput(at+"role", "must be user or assistant")
		case strings.TrimSpace(m.Content) == "":
			return engine.BadInput(at+"content", "must not be empty; leave the message out")
		}
		m.Content = redact(m.Content)
	}

	if len(history) > maxHistory || bytes > maxHistoryBytes {
		return engine.BadInput("input.history",
			fmt.Sprintf("must have at most %d messages, of %d bytes together; leave out the oldest, or sum them up in one",
				maxHistory, maxHistoryBytes))
	}
	return nil
}

// Tool implements [engine.Callable].
func (Executor) Tool(parts engine.Parts, name string) (description string, schema json.RawMessage, ok bool) {
	agent, err := engine.Find[define.Definition](parts, "agent", name)
	if err != nil {
		return "", nil, false
	}

	if description = agent.Description; description == "" {
		description = "Asks the agent " + name + "."
	}
	return description, json.RawMessage(
		`{"type":"object","properties":{"request":{"type":"string","description":"What the agent is to do, with all that it must know"}},"required":["request"],"additionalProperties":false}`,
	), true
}

// Call implements [engine.Callable].
func (Executor) Call(name string, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Request string `json:"request"`
	}
	if err := tool.Decode(arguments, &in); err != nil {
		return nil, fmt.Errorf("request: required, a text: %w", err)
	}
	return json.Marshal(Asked{Agent: name, Request: in.Request})
}
