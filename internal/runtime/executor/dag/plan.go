package dag

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/graph"
)

// ask asks a model of the configuration in a cycle of a step, and returns the trimmed answer.
func ask(ctx context.Context, step *engine.Step, seq int64, name, system, user string) (string, error) {
	t := engine.Thinking{Messages: []model.Message{model.System(system), model.User(user)}}
	text, err := step.Prompt(ctx, seq, define.DefinitionModel{Name: name}, t)
	return strings.TrimSpace(text), err
}

// plan returns the graph of a task, as JSON.
func plan(ctx context.Context, run *engine.Run, in input, d definition) (string, error) {
	m, err := d.find(in.Provider, in.Model)
	if err != nil {
		return "", engine.Fail("provider", "%v", err)
	}

	info := engine.StepInfo{Agent: "planner", Description: "Plans the graph", Request: in.Prompt, Model: m.Name}
	_, text, err := run.Do(ctx, 0, info, func(step *engine.Step) (string, error) {
		text, err := planned(ctx, step, m.Name, in, d)
		failure, ok := errors.AsType[*engine.RunError](err)
		if ok && !engine.OfRun(err) && !strings.HasPrefix(failure.Message, notJSON) {
			return "", engine.Fail(failure.Kind, "Planning failed: %s", failure.Message)
		}
		return text, err
	})
	return text, err
}

const notJSON = "Failed to parse planner response as JSON: "

// planned asks a model for a graph, and for its title if it has none.
func planned(ctx context.Context, step *engine.Step, name string, in input, d definition) (string, error) {
	answer, err := ask(ctx, step, 0, name, plannerSystem(d), plannerPrompt(in.Prompt, d))
	if err != nil {
		return "", err
	}
	var raw json.RawMessage
	if err := engine.ReadAnswer(answer, &raw); err != nil {
		return "", engine.Fail("planning", "%s%v", notJSON, err)
	}

	g, err := graph.Read(raw)
	if err == nil {
		_, err = d.choose(g, in)
	}
	if err != nil {
		return "", engine.Fail("planning", "%v", err)
	}

	if strings.TrimSpace(g.Title) == "" {
		title, err := ask(ctx, step, 1, name, titleSystem, titlePrompt(in.Prompt))
		if err != nil && engine.OfRun(err) {
			return "", err
		}
		if g.Title = strings.Trim(title, `"`); len(strings.Fields(title)) == 0 || len(title) > maxTitle {
			g.Title = firstWords(in.Prompt)
		}
	}

	g.Prompt = in.Prompt
	text, err := json.Marshal(g)
	return string(text), err
}
