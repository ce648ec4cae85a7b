package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// E5, E6, E9, E15: a Go program plans a graph, and carries it out: once planned, as often as it likes.
func TestGraph(t *testing.T) {
	t.Parallel()
	script := scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{Name: "plan", Match: scriptmodel.Match{System: "acyclic graph"}, Turns: []scriptmodel.Turn{{Content: `{"title":"Two","nodes":[{"id":"a"},{"id":"b"}]}`}}},
		{Name: "node", Turns: []scriptmodel.Turn{{Content: "done"}}},
	}}
	server, err := scriptmodel.Start(script, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	m, err := newModel(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.Open(t.Context(), pgtest.New(t).URL, agent.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
	if err := a.Register(agent.Parts{Models: map[string]model.Model{"default": m}}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.Work(t.Context()) }()
	ended := func(g agent.Graph) *agent.Run {
		t.Helper()
		planID, err := a.StartGraph(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Wait(t.Context(), planID)
		if err != nil || r.State != record.Completed {
			t.Fatalf("%+v %v", r, err)
		}
		return r
	}
	draft := ended(agent.Graph{Prompt: "Go.", Draft: true, Provider: "scripted"})
	if draft.Result != "Two" || draft.Figures.ModelCalls != 1 {
		t.Errorf("%+v", draft)
	}
	for _, g := range []agent.Graph{{PlanID: draft.PlanID}, {PlanID: draft.PlanID, Eager: true, Tags: []string{"again"}}, {Prompt: "Go."}} {
		if r := ended(g); r.Result != "done\n\ndone" || r.Title != "Two" {
			t.Errorf("%+v", r)
		}
	}
	last := ended(agent.Graph{PlanID: draft.PlanID})
	result, err := a.WaitGraph(t.Context(), last.PlanID)
	want := &agent.GraphResult{PlanID: draft.PlanID, Status: "completed", Nodes: []agent.GraphNode{
		{ID: "a", Name: "a", Dependencies: []string{}, Status: "completed", Result: "done"}, {ID: "b", Name: "b", Dependencies: []string{}, Status: "completed", Result: "done"},
	}}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(result.Logs); n != 7 {
		t.Errorf("%q", result.Logs)
	}
	result.Logs = nil
	if diff := cmp.Diff(want, result); diff != "" {
		t.Error(diff)
	}
	if _, err := a.WaitGraph(t.Context(), draft.PlanID); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("%v", err)
	}
	if _, err := a.WaitGraph(t.Context(), "none"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("%v", err)
	}
	first, second := ended(agent.Graph{Prompt: "Go.", IdempotencyKey: "k"}), ended(agent.Graph{Prompt: "Go.", IdempotencyKey: "k"})
	if first.PlanID != second.PlanID {
		t.Errorf("%s and %s", first.PlanID, second.PlanID)
	}
	for field, g := range map[string]agent.Graph{
		"prompt": {Prompt: "\x00"}, "plan_id": {PlanID: "none"}, "provider": {Prompt: "x", Provider: "moon"}, "model": {Prompt: "x", Model: "\x00"},
		"project": {Prompt: "x", Project: strings.Repeat("x", 300)}, "tags": {Prompt: "x", Tags: slices.Repeat([]string{"t"}, 100_000)},
	} {
		_, err := a.StartGraph(t.Context(), g)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
