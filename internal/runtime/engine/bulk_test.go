package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// manyFailed is a house with runs that failed, until b is mended.
func manyFailed(t *testing.T, b *broken, n int) *enginetest.House {
	t.Helper()
	refuses := scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}
	h := build(t, []scriptmodel.Scene{
		{Name: "s", Turns: []scriptmodel.Turn{b.turn(refuses, calls(terminate("done"))[0])}},
	}, map[string]define.Definition{"a": {}}, nil)
	h.Work(h.Engine)

	for i := range n {
		h.Start("a", fmt.Sprint("Go ", i), func(r *engine.Request) { r.Project, r.Tags = "p", []string{"nightly"} })
	}
	storetest.Until(t, "all have failed", func() bool { return count(h, "FAILED") == n })
	return h
}

// count counts the runs in a state.
func count(h *enginetest.House, state string) int {
	return int(storetest.Query[int64](h.T, h.Store,
		"SELECT count(*) FROM actlog.plan_execution_record WHERE state = $1", state))
}

func bulk(h *enginetest.House, id string) runstore.Bulk {
	h.T.Helper()
	b, err := h.Runs.Reader.Bulk(h.T.Context(), id)
	if err != nil {
		h.T.Fatal(err)
	}
	return b
}

// TestBulk: a job asks each run that matched when it started, once, however many workers there are and although one
// forgets what it did.
func TestBulk(t *testing.T) {
	t.Parallel()
	const n = 25
	for action, want := range map[runstore.BulkAction]string{
		runstore.BulkRetry: "25 runs, attempt 2", runstore.BulkAgain: "50 runs, attempt 1",
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			var b broken
			h := manyFailed(t, &b, n)
			h.Work(h.NewEngine(nil))
			h.Work(h.NewEngine(nil))
			b.mended.Store(true)

			filter := runstore.BulkFilter{
				State: record.Failed, ErrorKind: "invalid_request", Executor: "agent", Name: "a", Agent: "a", Project: "p",
				Tag: "nightly",
			}

			matches, some, err := h.Runs.Reader.BulkMatches(t.Context(), filter, 10)
			if err != nil || matches != n || len(some) != 10 || some[0].State != record.Failed {
				t.Fatalf("%d match, %d are shown: %v", matches, len(some), err)
			}
			id, err := h.Runs.StartBulk(t.Context(), runstore.NewBulk{Action: action, Filter: filter, Rate: 100})
			if err != nil {
				t.Fatal(err)
			}
			h.Start("a", "Go on.") // does not match any more

			ended := func() bool { return bulk(h, id).State == record.Completed }
			storetest.Until(t, "the job has ended", ended)
			storetest.Exec(t, h.Store, "UPDATE actlog.bulk_run SET handled_at = NULL WHERE place % 2 = 0")
			storetest.Exec(t, h.Store, "UPDATE actlog.bulk SET state = 'RUNNING', due_at = now(), ended_at = NULL")
			storetest.Until(t, "the job has ended again", ended)
			storetest.Until(t, "all have ended", func() bool {
				return storetest.Query[bool](t, h.Store, "SELECT bool_and(done) FROM actlog.run")
			})

			got := storetest.Query[string](t, h.Store, `SELECT count(*) || ' runs, attempt ' || max(COALESCE(p.attempt, 1))
				FROM actlog.run AS r JOIN actlog.plan_execution_record AS p ON p.current_plan_id = r.plan_id
				WHERE r.input->>'request' <> 'Go on.'`)
			if j := bulk(h, id); got != want || j.Matches != n || j.Done != n || j.Failed != 0 || j.EndedAt == nil {
				why := storetest.Query[*string](t, h.Store, "SELECT string_agg(DISTINCT error, chr(10)) FROM actlog.bulk_run")
				t.Errorf("%s, want %s; the job: %+v; %s", got, want, j, optional.Value(why))
			}
		})
	}
}

// TestBulkFails: a job says how many runs did not do what they were asked, and goes on with the others. One that is
// stopped asks no more.
func TestBulkFails(t *testing.T) {
	t.Parallel()
	var b broken
	h := manyFailed(t, &b, 4)
	b.mended.Store(true)
	start := func(rate float64) string {
		t.Helper()
		id, err := h.Runs.StartBulk(t.Context(), runstore.NewBulk{
			Action: runstore.BulkRetry, Filter: runstore.BulkFilter{Executor: "agent"}, Rate: rate,
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}

	retry(t, h.Engine, storetest.Query[string](t, h.Store, "SELECT min(plan_id) FROM actlog.run"), engine.NewLimits{})
	storetest.Until(t, "one is completed", func() bool { return count(h, "COMPLETED") == 1 })
	id := start(50)
	storetest.Until(t, "the job has ended", func() bool { return bulk(h, id).State == record.Completed })

	if j := bulk(h, id); j.Done != 3 || j.Failed != 1 {
		t.Errorf("%+v", j)
	}
	if why := storetest.Query[string](t, h.Store, "SELECT error FROM actlog.bulk_run WHERE error IS NOT NULL"); why == "" {
		t.Error("it does not say why")
	}

	slow := start(0.001)
	storetest.Until(t, "the first is asked", func() bool { j := bulk(h, slow); return j.Done+j.Failed == 1 })
	if err := h.Runs.StopBulk(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	if j := bulk(h, slow); j.State != record.Cancelled || j.Done+j.Failed != 1 || j.EndedAt == nil {
		t.Errorf("it was stopped: %+v", j)
	}

	if err := h.Runs.StopBulk(t.Context(), slow); !errors.Is(err, runstore.ErrEnded) {
		t.Errorf("it is stopped again: %v", err)
	}
	if err := h.Runs.StopBulk(t.Context(), "none"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("there is no such job: %v", err)
	}
}
