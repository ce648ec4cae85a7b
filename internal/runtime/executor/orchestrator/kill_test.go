package orchestrator_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// journey is a run whose plan is modified once and then accepted, with an action that is approved, one that is
// rejected, a step that fails, and one that depends on what did not happen.
func journey() ([]scriptmodel.Scene, human) {
	return scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Commit A"))), says(plan(
			step(1, "RAG_SEARCH", "Search"), step(2, "GIT", "Commit A", 1), step(3, "GIT", "Commit B"),
			step(4, "CODE_ANALYSIS", "Smell"),
			step(5, "RAG_SEARCH", "Search B", 3), step(6, "RAG_SEARCH", "Search A", 2)))},
			map[string][]scriptmodel.Turn{
				"Search": calls("search.searchCode", query{"TODO"}), "Commit A": calls("git.commit", query{"A"}),
				"Commit B": calls("git.commit", query{"B"}),
				"Smell":    calls("code.smells", object{}), "Search A": calls("search.searchCode", query{"A"}),
			}),
		func(w *record.Wait) decision.Decision {
			subject := decision.SubjectOf(w)
			switch {
			case subject.Plan != nil && !strings.Contains(string(subject.Plan), "Smell"):
				return decision.Decision{Decision: decision.Modify, Text: "Search first."}
			case strings.Contains(string(subject.Parameters), "B"):
				return decision.Decision{Decision: decision.Reject, Text: "Not B.", By: "ann"}
			}
			return accept(w)
		}
}

func sixSteps(o *define.Orchestrator) { o.MaxPlanSteps = 6 }

// C9: the worker is killed before and after each write of a journey, and each write fails once: the run comes to
// the same end, with the same rows, and no effect twice.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	all, as := journey()
	carry := func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		var effects sync.Map
		h := build(t, definition(sixSteps), all, tools(func(id, _ string) {
			if _, twice := effects.LoadOrStore(id, true); twice {
				t.Error("an effect twice")
			}
		}))
		disturb(h.House)
		h.Work(h.Engine)
		return h.story(h.ended(h.start(object{"request": "Do it"}), as))
	}

	want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
		t.Helper()
		// Of a call that was under way nobody can say how it ended: what follows says so, too.
		if got != want && !strings.Contains(got, " UNKNOWN ") {
			t.Errorf("it came to another end:\n%s\nwant:\n%s", got, want)
		}
	})

	for _, part := range []string{
		"FAILED 1 of 6 steps failed.\nAnswer to Request: Do it", "step 1 GIT COMPLETED: committed A",
		"step 2 GIT SKIPPED:  A human rejected this call. It was not made. They say: Not B.",
		"step 3 CODE_ANALYSIS FAILED:  no such folder", "step 4 RAG_SEARCH SKIPPED:  Step 3 was not completed.",
		"step 5 RAG_SEARCH COMPLETED", "step 10 ORCHESTRATOR COMPLETED",
		"wait PLAN_VALIDATION MODIFIED", "wait PLAN_VALIDATION ACCEPTED", "wait ACTION_VALIDATION APPROVED",
		"wait ACTION_VALIDATION REJECTED",
	} {
		if !strings.Contains(want, part) {
			t.Errorf("it lacks %q:\n%s", part, want)
		}
	}
}
