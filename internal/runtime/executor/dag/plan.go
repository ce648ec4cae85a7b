package dag

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/graph"
)

// asking asks the model of a step in a cycle, and returns the trimmed answer.
type asking func(seq int64, system, user string) (string, error)

// asks returns what asks a model of the configuration in a step.
func asks(ctx context.Context, run *engine.Run, step *engine.Step, name string) asking {
	return func(seq int64, system, user string) (string, error) {
		m, err := run.Model(name)
		if err != nil {
			return "", err
		}

		t := engine.Thinking{Model: m, Messages: []model.Message{model.System(system), model.User(user)}}
		answer, err := step.Think(ctx, seq, t)
		if err != nil {
			return "", err
		}
		text, err := t.Whole(answer)
		return strings.TrimSpace(text), err
	}
}

// plan returns the graph of a task, as JSON.
func plan(ctx context.Context, run *engine.Run, in input, d definition) (string, error) {
	m, err := d.find(in.Provider, in.Model)
	if err != nil {
		return "", &engine.RunError{Kind: "provider", Message: err.Error()}
	}

	info := engine.StepInfo{Agent: "planner", Description: "Plans the graph", Request: in.Prompt, Model: m.Name}
	_, text, err := run.Do(ctx, 0, info, func(step *engine.Step) (string, error) {
		text, err := planned(asks(ctx, run, step, m.Name), in, d)
		failure, ok := errors.AsType[*engine.RunError](err)
		if ok && !engine.OfRun(err) && !strings.HasPrefix(failure.Message, notJSON) {
			return "", &engine.RunError{Kind: failure.Kind, Message: "Planning failed: " + failure.Message}
		}
		return text, err
	})
	return text, err
}

const notJSON = "Failed to parse planner response as JSON: "

// planned asks for a graph, and for its title if it has none.
func planned(ask asking, in input, d definition) (string, error) {
	answer, err := ask(0, plannerSystem(d), plannerPrompt(in.Prompt, d))
	if err != nil {
		return "", err
	}
	var raw json.RawMessage
	if err := engine.ReadAnswer(answer, &raw); err != nil {
		return "", &engine.RunError{Kind: "planning", Message: notJSON + err.Error()}
	}

	g, err := graph.Read(raw)
	if err == nil {
		_, err = d.choose(g, in)
	}
	if err != nil {
		return "", &engine.RunError{Kind: "planning", Message: err.Error()}
	}

	if strings.TrimSpace(g.Title) == "" {
		title, err := ask(1, titleSystem, titlePrompt(in.Prompt))
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
