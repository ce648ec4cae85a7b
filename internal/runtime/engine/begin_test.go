package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// chapter goes on from the artifact that another run of it produced, and may wait for a signal.
type chapter struct{ saved chan<- string }

func (chapter) Kind() string { return "chapter" }

func (chapter) From(r engine.Request) (rootPlanID, artifact string) {
	var in struct{ After string }
	_ = json.Unmarshal(r.Input, &in)
	return in.After, "end"
}

func (chapter) Prepare(_ engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	p = engine.Prepared{Input: r.Input, Title: "A chapter"}
	if r.From != nil {
		p.Artifacts = []tool.Artifact{{Name: "before", Value: r.From}}
	}
	return p, nil
}

func (x chapter) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	s, err := run.Step(ctx, 0, engine.StepInfo{Agent: "a", Metadata: json.RawMessage(`{"node":"hidden"}`)})
	if err != nil {
		return engine.Result{}, err
	}
	run.Title("Another title")
	s.End("written", nil)
	if s.Took() < 0 {
		return engine.Result{}, errors.New("it took less than nothing")
	}

	run.Skip(1, engine.StepInfo{Agent: "b"}, record.Blocked, "not hidden")
	run.Artifact(tool.Artifact{Name: "end", Value: json.RawMessage(`"The end."`)})
	if err := errors.Join(run.Save(), run.Save()); err != nil { // the second has nothing to write
		return engine.Result{}, err
	}

	x.saved <- run.ID()
	<-ctx.Done()
	return engine.Result{}, ctx.Err()
}

// startOf starts a run of chapter.
func startOf(h *enginetest.House, r engine.Request) string {
	h.T.Helper()
	r.Executor = "chapter"
	started, err := h.Engine.Start(h.T.Context(), r)
	if err != nil {
		h.T.Fatal(err)
	}
	return started.PlanID
}

// TestHeld checks a run that does not begin before it is told to, once, and what an executor puts on record before
// the run ends: a title, steps that are not carried out, metadata without secrets.
func TestHeld(t *testing.T) {
	t.Parallel()
	saved := make(chan string, 2)
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:    []scriptmodel.Scene{{Name: "none", Turns: []scriptmodel.Turn{{Content: "-"}}}},
		Executors: []engine.Executor{chapter{saved}},
	})
	h.Parts.Secret = "hidden"
	held := startOf(h, engine.Request{Input: json.RawMessage(`{}`), Held: true})
	h.Work(h.Engine)
	other := startOf(h, engine.Request{Input: json.RawMessage(`{}`)})

	if got := <-saved; got != other {
		t.Fatalf("%s began, which is held", got)
	}
	if p := h.Plan(held); *p.Record.State != record.Pending {
		t.Errorf("p.Record.State = %s", *p.Record.State)
	}

	if err := h.Runs.Begin(t.Context(), other, ""); !errors.Is(err, runstore.ErrBegun) {
		t.Errorf("h.Runs.Begin = %v", err)
	}
	if err := h.Runs.Begin(t.Context(), held, "somebody"); err != nil {
		t.Fatal(err)
	}
	if err := h.Runs.Begin(t.Context(), held, "somebody"); !errors.Is(err, runstore.ErrBegun) {
		t.Errorf("h.Runs.Begin = %v", err)
	}

	if got := <-saved; got != held {
		t.Fatalf("%s began", got)
	}
	p := h.Plan(held)
	if *p.Record.State != record.Running || text(p.Record.Title) != "Another title" || len(p.Steps) != 2 {
		t.Fatalf("%s %q, %d steps", *p.Record.State, text(p.Record.Title), len(p.Steps))
	}

	done, skipped := p.Steps[0].Record, p.Steps[1].Record
	if text(done.Result) != "written" || string(done.Metadata) != `{"node":"[secret]"}` {
		t.Errorf("done.Result = %q %s", text(done.Result), done.Metadata)
	}
	if *skipped.State != record.Blocked || skipped.StartTime != nil || text(skipped.ErrorMessage) != "not [secret]" ||
		text(skipped.AgentName) != "b" {
		t.Errorf("skipped = %+v", skipped)
	}

	for _, id := range []string{held, other} {
		if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
			t.Fatal(err)
		}
		h.Await(id, record.Cancelled)
	}

	if err := h.Runs.Begin(t.Context(), held, ""); !errors.Is(err, runstore.ErrEnded) {
		t.Errorf("h.Runs.Begin = %v", err)
	}
}

// TestHeldIsStopped stops a run that is held.
func TestHeldIsStopped(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:    []scriptmodel.Scene{{Name: "none", Turns: []scriptmodel.Turn{{Content: "-"}}}},
		Executors: []engine.Executor{chapter{}},
	})

	h.Work(h.Engine)
	held := startOf(h, engine.Request{Input: json.RawMessage(`{}`), Held: true})
	if err := h.Runs.Control(t.Context(), held, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(held, record.Cancelled)
}

// TestContinuing starts a run with what another one produced, which is on record from the start.
func TestContinuing(t *testing.T) {
	t.Parallel()
	saved := make(chan string, 1)
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:    []scriptmodel.Scene{{Name: "none", Turns: []scriptmodel.Turn{{Content: "-"}}}},
		Executors: []engine.Executor{chapter{saved}},
	})

	h.Work(h.Engine)
	first := startOf(h, engine.Request{Input: json.RawMessage(`{}`)})
	<-saved
	if err := h.Runs.Control(t.Context(), first, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(first, record.Cancelled)

	for after, want := range map[string]string{first: `"The end."`, "none": "", "\x00": ""} {
		input, err := json.Marshal(map[string]string{"after": after})
		if err != nil {
			t.Fatal(err)
		}

		id := startOf(h, engine.Request{Input: input, Held: true})
		row, err := h.Store.Row(t.Context(), record.Key{Kind: record.KindArtifact, Root: id, Parent: id, ID: "before"})
		if want == "" && !errors.Is(err, record.ErrNotFound) || want != "" &&
			(err != nil || string(row.(*record.Artifact).Value) != want) {
			t.Errorf("%q: %v %v", after, row, err)
		}
	}
}
