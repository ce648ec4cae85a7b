package upkeep_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/internal/upkeep"
	"github.com/actlog/actlog/record"
)

// interrupt marks the runs that have been silent for a minute.
func interrupt(t testing.TB, u *upkeep.Upkeep) {
	t.Helper()
	if err := upkeep.InterruptDead(u, t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
}

// writeRun writes a run that is under way. Its process sent a heartbeat if seen is not nil.
func writeRun(t testing.TB, s *store.Store, root string, seen *time.Time) {
	t.Helper()
	storetest.Write(t, s,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running), StartTime: storetest.At(0), LastSeenAt: seen, Rev: new(int64(5))},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new(root + "-t"), State: new(record.Running)},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-done", ParentPlanID: &root, ToolCallID: new(root + "-d"), State: new(record.Failed), ErrorKind: new("mine"), EndTime: storetest.At(3)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-done", State: new(record.Completed), EndTime: storetest.At(1)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-a", State: new(record.Running), Attempt: new(int64(2)), StartTime: storetest.At(2)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-next"},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 0, State: new(record.Completed)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 1, State: new(record.Running), ThinkStartTime: storetest.At(3)},
		&record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.AwaitingApproval), StartTime: storetest.At(4)},
		&record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-planned"},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w"},
	)
}

// silent lets time pass since the last heartbeat of a run, by the clock of the database.
func silent(t testing.TB, s *store.Store, root, since string) {
	t.Helper()
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET beat_at = beat_at - $2::text::interval WHERE root_plan_id = $1", root, since)
}

// states returns the states of all rows of a tree.
func states(t testing.TB, pg *pgtest.DB, root string) []string {
	t.Helper()
	return storetest.Lines(t, pg.Pool, `
		SELECT concat_ws(' ', 'plan', current_plan_id, state, error_kind, end_time AT TIME ZONE 'utc') FROM actlog.plan_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'step', step_id, state, error_kind, end_time AT TIME ZONE 'utc') FROM actlog.agent_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'cycle', seq, state, error_kind, think_end_time) FROM actlog.think_act_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'tool', tool_call_id, state, error_kind, end_time AT TIME ZONE 'utc') FROM actlog.act_tool_info WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'wait', wait_id, state) FROM actlog.wait_state WHERE root_plan_id = $1
		ORDER BY 1`, root)
}

// TestDeadRuns checks when a silent run is interrupted, what is marked, and that its true outcome
// wins if it is written later.
func TestDeadRuns(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := open(t, pg.URL)
	u := idle(t, s)
	writeRun(t, s, "p", storetest.At(50))
	before := states(t, pg, "p")
	interrupt(t, u)
	silent(t, s, "p", "59 seconds")
	interrupt(t, u)
	if diff := cmp.Diff(before, states(t, pg, "p")); diff != "" {
		t.Errorf("a minute is not over (-before +after):\n%s", diff)
	}
	silent(t, s, "p", "1 second")
	interrupt(t, u)
	want := []string{
		"cycle 0 COMPLETED", "cycle 1 INTERRUPTED not_seen",
		"plan p INTERRUPTED not_seen 2026-11-20 12:00:50", "plan p-done FAILED mine 2026-11-20 12:00:03", "plan p-sub INTERRUPTED not_seen 2026-11-20 12:00:50",
		"step p-a INTERRUPTED not_seen 2026-11-20 12:00:50", "step p-done COMPLETED 2026-11-20 12:00:01", "step p-next IDLE",
		"tool p-planned PENDING", "tool p-t INTERRUPTED not_seen 2026-11-20 12:00:50", "wait w WAITING",
	}
	if diff := cmp.Diff(want, states(t, pg, "p")); diff != "" {
		t.Errorf("interrupted (-want +got):\n%s", diff)
	}
	if n := u.Stats().RunsInterrupted; n != 1 {
		t.Errorf("%d runs interrupted", n)
	}
	// A heartbeat alone does not change that. The true outcome does.
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", LastSeenAt: storetest.At(55), State: new(record.Running), Rev: new(int64(6))})
	if p := storetest.PlanTree(t, s, "p").Record; *p.State != record.Interrupted || !p.LastSeenAt.Equal(*storetest.At(55)) {
		t.Errorf("after a heartbeat: %+v", p)
	}
	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Completed), EndTime: storetest.At(59), Rev: new(int64(1))},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "p-a", State: new(record.Completed), Attempt: new(int64(2)), Rev: new(int64(1))},
		&record.ThinkAct{RootPlanID: "p", StepID: "p-a", Seq: 1, State: new(record.Failed), Rev: new(int64(1))},
		&record.ActTool{RootPlanID: "p", StepID: "p-a", Seq: 1, ToolCallID: "p-t", State: new(record.Cancelled), Rev: new(int64(1))})
	p, st := storetest.PlanTree(t, s, "p").Record, storetest.StepDetail(t, s, "p-a")
	if *p.State != record.Completed || !p.EndTime.Equal(*storetest.At(59)) || *st.Record.State != record.Completed ||
		*st.Cycles[1].Record.State != record.Failed || *st.Cycles[1].ToolCalls[1].Record.State != record.Cancelled && *st.Cycles[1].ToolCalls[0].Record.State != record.Cancelled {
		t.Errorf("a late outcome does not win: %+v %+v", p, st)
	}
}

// TestRunsThatAreNotDead checks the runs that are not interrupted: those that never sent a
// heartbeat, whose sub-plan still sends some, that wait or pause on purpose, that have ended, and
// of which only a sub-plan that has ended sent heartbeats.
func TestRunsThatAreNotDead(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := open(t, pg.URL)
	u := idle(t, s)
	for root, more := range map[string]*record.Plan{
		"imported": nil,
		"sub":      {RootPlanID: "sub", CurrentPlanID: "sub-sub", LastSeenAt: storetest.At(1)},
		"waiting":  {RootPlanID: "waiting", CurrentPlanID: "waiting", State: new(record.Waiting)},
		"paused":   {RootPlanID: "paused", CurrentPlanID: "paused-sub", State: new(record.Paused)},
		"ended":    {RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Completed)},
		"silent":   {RootPlanID: "silent", CurrentPlanID: "silent-sub", State: new(record.Completed)},
	} {
		var seen *time.Time
		if root != "imported" && root != "silent" {
			seen = storetest.At(0)
		}
		writeRun(t, s, root, seen)
		if root == "silent" { // only its sub-plan sends heartbeats
			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", LastSeenAt: storetest.At(0)})
		}
		if root == "ended" {
			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", State: new(record.Completed)})
		}
		silent(t, s, root, "1 day")
		if more != nil {
			storetest.Write(t, s, more)
		}
	}
	interrupt(t, u)
	if got := storetest.Lines(t, pg.Pool, "SELECT current_plan_id FROM actlog.plan_execution_record WHERE state = 'INTERRUPTED'"); len(got) > 0 {
		t.Errorf("interrupted: %q", got)
	}
}

// TestAServerListensFirst checks that a server waits for the heartbeats of live runs after its
// start, before it marks any run dead.
func TestAServerListensFirst(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	for _, root := range []string{"lives", "dead"} {
		writeRun(t, s, root, storetest.At(0))
		silent(t, s, root, "1 day")
	}
	storetest.Upkeep(t, storetest.OpenURL(t, pg.URL), upkeep.Config{InterruptAfter: 2 * time.Second})
	second := 0
	storetest.Until(t, "the dead run is interrupted", func() bool {
		second++
		storetest.Write(t, s, &record.Plan{RootPlanID: "lives", CurrentPlanID: "lives", LastSeenAt: storetest.At(second)})
		return *storetest.PlanTree(t, s, "dead").Record.State == record.Interrupted
	})
	if state := *storetest.PlanTree(t, s, "lives").Record.State; state != record.Running {
		t.Errorf("the live run is %s", state)
	}
}

// TestSkewedHeartbeats checks processes whose clocks are years off: they live as long as their
// heartbeats advance. The same heartbeat again does not count.
func TestSkewedHeartbeats(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u := idle(t, s)
	for root, year := range map[string]int{"behind": 1999, "ahead": 2099} {
		beat := func(second int) {
			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running), LastSeenAt: new(time.Date(year, 1, 1, 0, 0, second, 0, time.UTC))})
		}
		state := func() record.State { return *storetest.PlanTree(t, s, root).Record.State }
		beat(1)
		interrupt(t, u)
		silent(t, s, root, "1 hour")
		beat(2)
		interrupt(t, u)
		if state() != record.Running {
			t.Errorf("%s: the live run is %s", root, state())
		}
		beatAt := storetest.Query[time.Time](t, s, "SELECT beat_at FROM actlog.plan_execution_record WHERE root_plan_id = $1", root)
		if now := storetest.Query[time.Time](t, s, "SELECT now()"); now.Sub(beatAt) > time.Hour || beatAt.After(now) {
			t.Errorf("%s: beat at %s", root, beatAt)
		}
		silent(t, s, root, "1 hour")
		beat(2) // the same again
		beat(1)
		interrupt(t, u)
		if p := storetest.PlanTree(t, s, root).Record; *p.State != record.Interrupted || p.LastSeenAt.Year() != year || !p.EndTime.Equal(*p.LastSeenAt) {
			t.Errorf("%s: the silent run is %+v", root, p)
		}
	}
}

// TestTwoServersInterrupt checks that two servers can interrupt many runs, in several batches, at
// the same time.
func TestTwoServersInterrupt(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s := storetest.OpenURL(t, url)
	keepers := []*upkeep.Upkeep{idle(t, s), idle(t, storetest.OpenURL(t, url))}
	var changes []record.Change
	for i := range 250 {
		id := fmt.Sprint("run-", i)
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id, State: new(record.Running), LastSeenAt: storetest.At(1)})
	}
	storetest.Write(t, s, changes...)
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET beat_at = beat_at - interval '1 hour'")
	var wg sync.WaitGroup
	for _, u := range keepers {
		wg.Go(func() { interrupt(t, u) })
	}
	wg.Wait()
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.plan_execution_record WHERE state = 'INTERRUPTED' AND error_kind = 'not_seen' AND end_time = last_seen_at"); n != 250 {
		t.Errorf("%d runs interrupted", n)
	}
}
