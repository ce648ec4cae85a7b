// Package follow carries plan templates: steps that agents do, one after the other.
package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
)

// Prepare prepares a run of the template that a request names. Its input is the values of the placeholders.
func Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	d, err := engine.Find[define.PlanDefinition](parts, "plan", r.Name)
	if unknown, ok := errors.AsType[*engine.UnknownError](err); ok {
		unknown.Kind = "plan template"
	}
	if err != nil {
		return p, err
	}

	values := map[string]string{}
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &values); err != nil {
			return p, engine.BadInput("input", "must be an object with a text for each placeholder")
		}
	}

	if name, lacks := define.Lacking(d.Placeholders, values); lacks {
		return p, engine.NoInput("input." + name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(d.Placeholders, name) {
			return p, engine.BadInput("input."+name, "is no placeholder of the template")
		}
		values[name] = parts.Redact(values[name])
	}

	for _, s := range d.Steps {
		p.Needs = append(p.Needs, s.Agent.Needs()...)
	}
	filled := define.Fill(d.Title, "<<planId>>", values)
	p.Name = r.Name
	p.UserRequest, p.Title = filled, engine.Title(filled)
	err = p.Keep(values, d)
	return p, err
}

// Startables returns the templates, each of which asks for a text for each placeholder.
func Startables(parts engine.Parts) []engine.Startable {
	return engine.Defined(parts, "plan", func(s *engine.Startable, body json.RawMessage) {
		s.Sort = "plan template"
		var d struct{ Placeholders []string }
		_ = json.Unmarshal(body, &d) // Prepare says what is wrong with it
		for _, name := range d.Placeholders {
			if name != "planId" { // the run itself knows it
				s.Fields = append(s.Fields, engine.LongText(name, name))
			}
		}
	})
}

// Tools makes tools of templates: with it, an executor is a [engine.Callable].
type Tools struct{}

// Call implements [engine.Callable]: the arguments are the input.
func (Tools) Call(_ string, arguments json.RawMessage) (json.RawMessage, error) {
	return arguments, nil
}

// Tool implements [engine.Callable]. It returns the description of a template as a tool, and the schema of its
// placeholders.
func (Tools) Tool(parts engine.Parts, name string) (description string, schema json.RawMessage, ok bool) {
	d, err := engine.Find[define.PlanDefinition](parts, "plan", name)
	if err != nil {
		return "", nil, false
	}
	if description = d.Description; description == "" {
		description = "Follows the plan " + d.Title + "."
	}

	properties := map[string]any{}
	for _, each := range d.Placeholders {
		properties[each] = map[string]string{"type": "string"}
	}
	required := append([]string{}, d.Placeholders...)
	schema, err = json.Marshal(map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	})
	return description, schema, err == nil
}

// Advance lets the agents of a template do its steps in order, and returns what the last one answers. Each
// is told what those before it answered.
func Advance(ctx context.Context, run *engine.Run) (answer string, err error) {
	var of define.PlanDefinition
	var values map[string]string
	if err := run.Read(&values, &of); err != nil {
		return "", err
	}

	var before []answered
	for i, s := range of.Steps {
		request := define.Fill(s.Request, run.ID(), values)
		asked := thinkact.Asked{Request: stepPrompt(request, before)}
		if answer, err = thinkact.Work(ctx, run, i, s.Agent.Agent, s.Agent, asked); err != nil {
			return "", err
		}
		before = append(before, answered{s.Agent.Agent, request, answer})
	}
	return answer, nil
}

// maxAnswer bounds what a step of a template is told of each answer before, in bytes.
const maxAnswer = 20 << 10

type answered struct{ agent, request, answer string }

// stepPrompt is the request of a step, with what the steps before it answered.
func stepPrompt(request string, before []answered) string {
	if len(before) == 0 {
		return request
	}

	var b strings.Builder
	b.WriteString(request + "\n\nThe steps before yours, and what they answered:")
	for i, each := range before {
		fmt.Fprintf(&b, "\n\n%d. %s was asked: %s\nAnswer: %s", i+1, each.agent, tool.Cut(each.request, maxAnswer),
			tool.Cut(each.answer, maxAnswer))
	}
	return b.String()
}
