package runstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestReportRun checks the columns of the views of the runtime that are not those of a table: a run is
// claimed, waits, is taken over from a worker that was lost, and ends.
func TestReportRun(t *testing.T) {
	t.Parallel()
	s := open(t)
	line := func(sql string) string { t.Helper(); return strings.Join(storetest.Lines(t, s.DB(), sql), "; ") }
	const sqlRun = `SELECT concat_ws(' ', project, user_id, state, desired, worker_id, due_at IS NULL, done, claim_seconds >= 0, first_claimed_at < claimed_at,
		duration_seconds >= claim_seconds, claims, takeovers, waits, wait_seconds, error_kind, cycles, tool_calls, input_tokens, output_tokens, cost_usd,
		priority, concurrency_key) FROM report.run WHERE is_root`
	const sqlWorkers = "SELECT concat_ws(' ', worker_id, runs, alive, stopped_at IS NULL) FROM report.worker ORDER BY " +
		"worker_id"

	root, child := newRun("p"), newRun("q")
	root.Priority, root.ConcurrencyKey = 7, "ticket"
	child.RootPlanID, child.Depth = "p", 1
	child.Parent = &runstore.ParentCall{PlanID: "p", StepID: "s", ToolCallID: "c"}
	if err := s.StartRun(t.Context(), root,
		[]record.Change{
			&record.Plan{RootPlanID: "p", CurrentPlanID: "p", UserID: new("ada"), Project: new("support")},
		}); err != nil {
		t.Fatal(err)
	}

	if got, want := line(sqlRun), "support ada PENDING RUN f f 0 0 0 0 0 0 0 0 7 ticket"; got != want {
		t.Errorf("started: %q, want %q", got, want)
	}
	addWorker(t, s, "a", time.Hour)
	held := claimOne(t, s, "a")
	if got, want := line(sqlWorkers), "a 1 t t"; got != want {
		t.Errorf("workers: %q, want %q", got, want)
	}

	if err := s.WriteRun(t.Context(), held.Lease, []record.Change{
		&record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: 0, ModelName: new("m"), InputTokens: new(int64(100)),
			OutputTokens: new(int64(10)), CostUSD: new(0.25),
		},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "c"},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"},
		&record.Plan{RootPlanID: "p", CurrentPlanID: "q", ParentPlanID: new("p"), ToolCallID: new("c")},
		&record.ThinkAct{RootPlanID: "p", StepID: "of q", Seq: 0, ModelName: new("m"), InputTokens: new(int64(1000))},
		&record.AgentExecution{RootPlanID: "p", PlanID: "q", StepID: "of q"},
		&record.Wait{
			RootPlanID: "p", PlanID: "p", WaitID: "w", StartTime: storetest.At(0), EndTime: storetest.At(90),
			State: new(record.Approved),
		},
		&record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "open", StartTime: storetest.At(0)},
	}, runstore.Begin(child), runstore.Park(time.Now())); err != nil {
		t.Fatal(err)
	}

	for _, c := range claim(t, s, "a", 10) {
		if c.PlanID == "p" {
			held = c
		}
	}
	storetest.Exec(t, s.Store, "UPDATE actlog.worker SET lease_until = now()") // it was killed
	addWorker(t, s, "b", time.Hour)
	if got, want := line(sqlWorkers), "a 2 f t; b 0 t t"; got != want {
		t.Errorf("workers: %q, want %q", got, want)
	}

	bury(t, s, "a", 2)
	for _, c := range claim(t, s, "b", 10) {
		if c.PlanID == "p" {
			held = c
		}
	}
	if err := s.WriteRun(t.Context(), held.Lease,
		[]record.Change{
			&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Failed), ErrorKind: new("limit_cost")},
		}, runstore.Finish(nil)); err != nil {
		t.Fatal(err)
	}

	const ended = "support ada FAILED RUN t t t t t 3 1 2 90 limit_cost 1 1 100 10 0.25 7 ticket"
	if got, want := line(sqlRun), ended; got != want {
		t.Errorf("ended: %q, want %q", got, want)
	}
	if got, want := line("SELECT concat_ws(' ', parent_plan_id, depth, user_id, worker_id, claims, takeovers, "+
		"input_tokens) FROM report.run WHERE NOT is_root"), "p 1 ada 2 1 1000"; got != want {
		t.Errorf("below: %q, want %q", got, want)
	}

	if err := s.StopWorker(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got, want := line(sqlWorkers), "a 0 f f; b 0 f f"; got != want {
		t.Errorf("workers: %q, want %q", got, want)
	}
}
