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
		{
			Name: "plan", Match: scriptmodel.Match{System: "acyclic graph"},
			Turns: []scriptmodel.Turn{{Content: `{"title":"Two","nodes":[{"id":"a"},{"id":"b"}]}`}},
		},
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

	ended := func(job agent.Job) *agent.Run {
		t.Helper()
		planID, err := a.Start(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Wait(t.Context(), planID)
		if err != nil || r.State != record.Completed {
			t.Fatalf("a.Wait(planID) = %+v %v", r, err)
		}
		return r
	}

	draft := ended(agent.Job{Work: agent.Graph{Prompt: "Go.", Draft: true, Provider: "scripted"}})
	if draft.Result != "Two" || draft.Figures.ModelCalls != 1 {
		t.Errorf("draft = %+v", draft)
	}

	for _, job := range []agent.Job{
		{Work: agent.Graph{PlanID: draft.PlanID}}, {
			Work: agent.Graph{PlanID: draft.PlanID, Eager: true}, Tags: []string{"again"},
		},
		{Work: agent.Graph{Prompt: "Go."}},
	} {
		if r := ended(job); r.Result != "done\n\ndone" || r.Title != "Two" {
			t.Errorf("ended(job) = %+v", r)
		}
	}

	last := ended(agent.Job{Work: agent.Graph{PlanID: draft.PlanID}})
	var result agent.GraphResult
	err = a.Result(t.Context(), last.PlanID, &result)
	want := agent.GraphResult{PlanID: draft.PlanID, Status: "completed", Nodes: []agent.GraphNode{
		{ID: "a", Name: "a", Dependencies: []string{}, Status: "completed", Result: "done"},
		{ID: "b", Name: "b", Dependencies: []string{}, Status: "completed", Result: "done"},
	}}
	if err != nil {
		t.Fatal(err)
	}

	if n := len(result.Logs); n != 7 {
		t.Errorf("result.Logs = %q", result.Logs)
	}
	result.Logs = nil
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}

	if err := a.Result(t.Context(), draft.PlanID, &result); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("a.Result(draft.PlanID, &result) = %v", err)
	}
	if err := a.Result(t.Context(), "none", &result); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a.Result = %v", err)
	}

	first, second := ended(agent.Job{Work: agent.Graph{Prompt: "Go."}, IdempotencyKey: "k"}),
		ended(agent.Job{Work: agent.Graph{Prompt: "Go."}, IdempotencyKey: "k"})
	if first.PlanID != second.PlanID {
		t.Errorf("first.PlanID = %s and %s", first.PlanID, second.PlanID)
	}

	for field, job := range map[string]agent.Job{
		"prompt": {Work: agent.Graph{Prompt: "\x00"}}, "plan_id": {Work: agent.Graph{PlanID: "none"}},
		"provider": {Work: agent.Graph{Prompt: "x", Provider: "moon"}},
		"model":    {Work: agent.Graph{Prompt: "x", Model: "\x00"}},
		"project":  {Work: agent.Graph{Prompt: "x"}, Project: strings.Repeat("x", 300)},
		"tags":     {Work: agent.Graph{Prompt: "x"}, Tags: slices.Repeat([]string{"t"}, 100_000)},
	} {
		_, err := a.Start(t.Context(), job)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
