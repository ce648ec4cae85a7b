package orchestrator_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// TestRetryOfSteps: a retry carries the steps out again that failed or could not begin, and answers anew with what they
// found. The plan that was accepted stays.
func TestRetryOfSteps(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	status := scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
		if mended.Load() {
			return calls("git.status", object{})[0], nil
		}
		return scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}, nil
	}}
	planner := says(plan(step(1, "GIT", "Status"), step(2, "RAG_SEARCH", "Search"), step(3, "RAG_SEARCH", "More", 1)))
	search := calls("search.searchCode", query{"TODO"})

	h, p := run(t, definition(nil), scenes([]scriptmodel.Turn{planner}, map[string][]scriptmodel.Turn{
		"Search": search, "More": search, "Status": {status, repeats},
	}), accept)
	if story := h.story(p); !strings.HasPrefix(story, "FAILED ") || !strings.Contains(story, "step 2 RAG_SEARCH SKIPPED") {
		t.Fatalf("it came to %s", story)
	}

	mended.Store(true)
	before, seen := len(h.Model.Requests()), len(h.seen)
	id := p.Record.CurrentPlanID
	if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
		t.Fatal(err)
	}
	p = h.ended(id, accept)

	story := h.story(p)
	if *p.Record.State != record.Completed || strings.Contains(story, "SKIPPED") || strings.Contains(story, "FAILED") {
		t.Errorf("it came to %s", story)
	}
	// Status has a call and an answer, More, too; then the answer to the request.
	if asked := len(h.Model.Requests()) - before; asked != 5 || len(h.seen) != seen {
		t.Errorf("the model was asked %d times, a human %d times", asked, len(h.seen)-seen)
	}
}

// TestRetryOfLimit: a run that a limit ended goes on with the plan that was accepted, and nobody is asked about
// another.
func TestRetryOfLimit(t *testing.T) {
	t.Parallel()
	planner := says(plan(step(1, "GIT", "Status"), step(2, "RAG_SEARCH", "Search")))
	h := build(t, definition(nil), scenes([]scriptmodel.Turn{planner}, map[string][]scriptmodel.Turn{
		"Search": calls("search.searchCode", query{"TODO"}), "Status": calls("git.status", object{}),
	}), tools(nothing))
	h.Work(h.Engine)
	id := h.start(object{"request": "Do it"}, func(r *engine.Request) { r.Limits = &engine.Limits{Rounds: 2} })
	if p := h.ended(id, accept); text(p.Record.ErrorKind) != engine.LimitRounds {
		t.Fatalf("it ended as %s: %s", *p.Record.State, text(p.Record.ErrorKind))
	}

	seen := len(h.seen)
	err := h.Engine.Retry(t.Context(), engine.RetryRequest{
		PlanID: id, Limits: engine.NewLimits{Rounds: new(int64(50))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := h.ended(id, accept); *p.Record.State != record.Completed || len(h.seen) != seen ||
		len(h.Model.Requests()) != 6 {
		t.Errorf("it is %s, a human was asked %d times more, the model %d times", *p.Record.State, len(h.seen)-seen,
			len(h.Model.Requests()))
	}
}

// TestRetryOfARejectedPlan: who rejected a plan, and retries the run, is asked again.
func TestRetryOfARejectedPlan(t *testing.T) {
	t.Parallel()
	planner := says(plan(step(1, "GIT", "Status")))
	h, p := run(t, definition(nil), scenes([]scriptmodel.Turn{planner}, map[string][]scriptmodel.Turn{
		"Status": calls("git.status", object{}),
	}), func(*record.Wait) decision.Decision { return decision.Decision{Decision: decision.Reject, By: "ann"} })
	if *p.Record.State != record.Cancelled {
		t.Fatalf("it is %s", *p.Record.State)
	}

	id := p.Record.CurrentPlanID
	if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
		t.Fatal(err)
	}
	if p := h.ended(id, accept); *p.Record.State != record.Completed {
		t.Errorf("it is %s: %s", *p.Record.State, text(p.Record.ErrorMessage))
	}
}
