// Package try is the executor that asks a model once, as another call was made or as a request says, and calls no tool.
package try

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// Executor carries runs that ask a model once.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return engine.TryExecutor }

// About implements [engine.Described]. Nothing is asked for in a form: most runs try the call of another plan.
func (Executor) About() engine.About {
	return engine.About{
		Description: "Asks a model once, with the messages and tools of a call on record, and calls no tool.",
		Text:        "messages",
		Schema: json.RawMessage(`{"type":"object","required":["model","messages"],"properties":{"model":{"type":"string"},` +
			`"messages":{"type":"array","minItems":1,"items":{"type":"object","required":["role","parts"],"properties":{` +
			`"role":{"enum":["system","user","assistant","tool"]},"parts":{"type":"array","items":{"type":"object"}}}}},` +
			`"tools":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},` +
			`"description":{"type":"string"},"schema":{"type":"object"}}}},` +
			`"temperature":{"type":"number","minimum":0,"maximum":2},"maxTokens":{"type":"integer","minimum":0}}}`),
		AnswersText: true,
		Startables:  func(engine.Parts) []engine.Startable { return nil },
	}
}

// Prepare implements [engine.Executor].
func (Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var in engine.TryInput
	if err := engine.ReadInput(r.Input, "an object with model and messages", &in); err != nil {
		return p, err
	}
	if r.Name != "" {
		return p, &engine.UnknownError{Kind: r.Executor, Name: r.Name}
	}
	if err := check(&in); err != nil {
		return p, err
	}

	redact(&in, parts.Redact)
	p.UserRequest = lastOfUser(in.Messages)
	p.Title = cmp.Or(engine.Title(p.UserRequest), "Try a call of a model")
	p.Needs = []string{"model:" + in.Model}
	if m, ok := parts.Model(in.Model); ok { // else the start of the run says what there is
		p.ModelName = m.Name()
	}
	p.Input, err = json.Marshal(in)
	return p, err
}

func check(in *engine.TryInput) error {
	switch {
	case in.Model == "":
		return engine.NoInput("input.model")
	case len(in.Messages) == 0:
		return engine.NoInput("input.messages")
	case in.Temperature != nil && !(*in.Temperature >= 0 && *in.Temperature <= 2):
		return engine.BadInput("input.temperature", "must be from 0 to 2")
	case in.MaxTokens < 0 || in.MaxTokens > record.MaxCount:
		return engine.BadInput("input.maxTokens", "must not be negative")
	}

	for i, m := range in.Messages {
		if err := checkMessage(m); err != nil {
			return engine.BadInput(fmt.Sprintf("input.messages[%d]", i), err.Error())
		}
	}
	if _, err := offered(in.Tools); err != nil {
		return engine.BadInput("input.tools", err.Error())
	}
	return nil
}

func checkMessage(m model.Message) error {
	if !slices.Contains([]model.Role{model.RoleSystem, model.RoleUser, model.RoleAssistant, model.RoleTool}, m.Role) {
		return errors.New("must have the role system, user, assistant or tool")
	}
	for _, p := range m.Parts {
		switch {
		case p.Call != nil && m.Role != model.RoleAssistant:
			return errors.New("has a tool call, which only the assistant makes")
		case (p.Result != nil) != (m.Role == model.RoleTool):
			return errors.New("must have results of tool calls if its role is tool, and else none")
		}
	}
	return nil
}

// offered returns tools that a model is offered, and that nobody calls.
func offered(specs []model.ToolSpec) (*tool.Set, error) {
	if len(specs) == 0 {
		return nil, nil //nolint:nilnil // none
	}
	tools := make([]tool.Tool, len(specs))
	for i, s := range specs {
		if s.Schema == nil {
			s.Schema = json.RawMessage(`{"type":"object"}`)
		}
		tools[i] = uncalled{tool.Spec{Name: s.Name, Description: s.Description, Schema: s.Schema}}
	}
	return tool.NewSet(tools...)
}

// uncalled is a tool that a model is offered and that is not called.
type uncalled struct{ spec tool.Spec }

func (u uncalled) Spec() tool.Spec { return u.spec }

func (uncalled) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Failed: true, Text: notMade}, nil
}

const notMade = "This call was not made: the model was only tried."

// redact redacts what a model is asked. What only its provider reads is left out if that has something to hide.
func redact(in *engine.TryInput, clean func(string) string) {
	for i := range in.Messages {
		m := &in.Messages[i]
		for j := range m.Parts {
			p := &m.Parts[j]
			p.Text = clean(p.Text)
			if p.Call != nil {
				p.Call.Name, p.Call.Arguments = clean(p.Call.Name), clean(p.Call.Arguments)
			}
			if p.Result != nil {
				p.Result.Name, p.Result.Text = clean(p.Result.Name), clean(p.Result.Text)
			}
		}
		if raw := string(m.Raw); clean(raw) != raw {
			m.Provider, m.Raw = "", nil
		}
	}

	for i := range in.Tools {
		t := &in.Tools[i]
		t.Description = clean(t.Description)
		if schema := json.RawMessage(clean(string(t.Schema))); t.Schema != nil && json.Valid(schema) {
			t.Schema = schema
		}
	}
}

func lastOfUser(messages []model.Message) string {
	for _, m := range slices.Backward(messages) {
		if text := strings.TrimSpace(m.Text()); m.Role == model.RoleUser && text != "" {
			return text
		}
	}
	return ""
}

// Advance implements [engine.Executor].
func (x Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var in engine.TryInput
	if err := run.Read(&in, nil); err != nil {
		return engine.Result{}, err
	}
	m, err := run.Model(in.Model)
	if err != nil {
		return engine.Result{}, err
	}

	tools, err := offered(in.Tools)
	if err != nil {
		return engine.Result{}, engine.Fail("configuration", "%v", err)
	}

	info := engine.StepInfo{Agent: x.Kind(), Request: lastOfUser(in.Messages), Model: in.Model}
	_, answer, err := run.Do(ctx, 0, info, func(step *engine.Step) (string, error) {
		response, err := step.Think(ctx, 0, engine.Thinking{
			Model: m, Messages: in.Messages, Tools: tools, Temperature: in.Temperature, MaxTokens: in.MaxTokens,
			NotMade: notMade,
		})
		if err != nil {
			return "", err
		}
		return response.Message.Text(), nil // also if it was cut
	})
	return engine.Result{Summary: answer}, err
}
