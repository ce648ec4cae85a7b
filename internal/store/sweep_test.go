package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// interrupt marks what has been silent for a minute.
func interrupt(t testing.TB, s *store.Store) {
	t.Helper()
	if err := store.InterruptDead(s, t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
}

// tellRun writes a run in the middle of things. Its process tells signs of life
// where seen is not nil.
func tellRun(t testing.TB, s *store.Store, root string, seen *time.Time) {
	t.Helper()
	write(t, s,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running), StartTime: at(0), LastSeenAt: seen, Rev: new(int64(5))},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new(root + "-t"), State: new(record.Running)},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-done", ParentPlanID: &root, ToolCallID: new(root + "-d"), State: new(record.Failed), ErrorKind: new("mine"), EndTime: at(3)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-done", State: new(record.Completed), EndTime: at(1)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-a", State: new(record.Running), Attempt: new(int64(2)), StartTime: at(2)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-next"},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 0, State: new(record.Completed)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 1, State: new(record.Running), ThinkStartTime: at(3)},
		&record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.AwaitingApproval), StartTime: at(4)},
		&record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-planned"},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w"},
	)
}

// silent lets time pass since a run was heard of, by the clock of the database.
func silent(t testing.TB, s *store.Store, root, since string) {
	t.Helper()
	exec(t, s, "UPDATE actlog.plan_execution_record SET beat_at = beat_at - $2::text::interval WHERE root_plan_id = $1", root, since)
}

// states tells the state of everything in a tree.
func states(t testing.TB, pg *pgtest.DB, root string) []string {
	t.Helper()
	return lines(t, pg.Pool, `
		SELECT concat_ws(' ', 'plan', current_plan_id, state, error_kind, end_time AT TIME ZONE 'utc') FROM actlog.plan_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'step', step_id, state, error_kind, end_time AT TIME ZONE 'utc') FROM actlog.agent_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'cycle', seq, state, error_kind, think_end_time) FROM actlog.think_act_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'tool', tool_call_id, state, error_kind, end_time AT TIME ZONE 'utc') FROM actlog.act_tool_info WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'wait', wait_id, state) FROM actlog.wait_state WHERE root_plan_id = $1
		ORDER BY 1`, root)
}

func TestDeadRuns(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL)
	tellRun(t, s, "p", at(50))
	before := states(t, pg, "p")
	interrupt(t, s)
	silent(t, s, "p", "59 seconds")
	interrupt(t, s)
	if diff := cmp.Diff(before, states(t, pg, "p")); diff != "" {
		t.Errorf("a minute is not over (-before +after):\n%s", diff)
	}
	silent(t, s, "p", "1 second")
	interrupt(t, s)
	want := []string{
		"cycle 0 COMPLETED", "cycle 1 INTERRUPTED not_seen",
		"plan p INTERRUPTED not_seen 2026-11-20 12:00:50", "plan p-done FAILED mine 2026-11-20 12:00:03", "plan p-sub INTERRUPTED not_seen 2026-11-20 12:00:50",
		"step p-a INTERRUPTED not_seen 2026-11-20 12:00:50", "step p-done COMPLETED 2026-11-20 12:00:01", "step p-next IDLE",
		"tool p-planned PENDING", "tool p-t INTERRUPTED not_seen 2026-11-20 12:00:50", "wait w WAITING",
	}
	if diff := cmp.Diff(want, states(t, pg, "p")); diff != "" {
		t.Errorf("interrupted (-want +got):\n%s", diff)
	}
	if n := s.Stats().RunsInterrupted; n != 1 {
		t.Errorf("%d runs interrupted", n)
	}
	// A sign of life alone does not bring it back; what truly came of it does.
	write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", LastSeenAt: at(55), State: new(record.Running), Rev: new(int64(6))})
	if p := planTree(t, s, "p").Record; *p.State != record.Interrupted || !p.LastSeenAt.Equal(*at(55)) {
		t.Errorf("after a sign of life: %+v", p)
	}
	write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Completed), EndTime: at(59), Rev: new(int64(1))},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "p-a", State: new(record.Completed), Attempt: new(int64(2)), Rev: new(int64(1))},
		&record.ThinkAct{RootPlanID: "p", StepID: "p-a", Seq: 1, State: new(record.Failed), Rev: new(int64(1))},
		&record.ActTool{RootPlanID: "p", StepID: "p-a", Seq: 1, ToolCallID: "p-t", State: new(record.Cancelled), Rev: new(int64(1))})
	p, st := planTree(t, s, "p").Record, stepDetail(t, s, "p-a")
	if *p.State != record.Completed || !p.EndTime.Equal(*at(59)) || *st.Record.State != record.Completed ||
		*st.Cycles[1].Record.State != record.Failed || *st.Cycles[1].ToolCalls[1].Record.State != record.Cancelled && *st.Cycles[1].ToolCalls[0].Record.State != record.Cancelled {
		t.Errorf("a late truth does not win: %+v %+v", p, st)
	}
}

// TestWhoIsNotDead: whoever never gave a sign of life, whose sub-plan still does,
// who waits or pauses on purpose, and who has ended; the sub-plan's end is no
// silence of the rest.
func TestWhoIsNotDead(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL)
	for root, more := range map[string]*record.Plan{
		"imported": nil,
		"sub":      {RootPlanID: "sub", CurrentPlanID: "sub-sub", LastSeenAt: at(1)},
		"waiting":  {RootPlanID: "waiting", CurrentPlanID: "waiting", State: new(record.Waiting)},
		"paused":   {RootPlanID: "paused", CurrentPlanID: "paused-sub", State: new(record.Paused)},
		"ended":    {RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Completed)},
		"silent":   {RootPlanID: "silent", CurrentPlanID: "silent-sub", State: new(record.Completed)},
	} {
		var seen *time.Time
		if root != "imported" && root != "silent" {
			seen = at(0)
		}
		tellRun(t, s, root, seen)
		if root == "silent" { // only its sub-plan gives any
			write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", LastSeenAt: at(0)})
		}
		if root == "ended" {
			write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", State: new(record.Completed)})
		}
		silent(t, s, root, "1 day")
		if more != nil {
			write(t, s, more)
		}
	}
	interrupt(t, s)
	if got := lines(t, pg.Pool, "SELECT current_plan_id FROM actlog.plan_execution_record WHERE state = 'INTERRUPTED'"); len(got) > 0 {
		t.Errorf("interrupted: %q", got)
	}
}

// TestWhoeverWasAwayListensFirst: a server that was down hears what lives before it
// takes anything for dead.
func TestWhoeverWasAwayListensFirst(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	for _, root := range []string{"lives", "dead"} {
		tellRun(t, s, root, at(0))
		silent(t, s, root, "1 day")
	}
	openURL(t, pg.URL, func(c *store.Config) { c.InterruptAfter = 2 * time.Second })
	second := 0
	until(t, "the dead run is interrupted", func() bool {
		second++
		write(t, s, &record.Plan{RootPlanID: "lives", CurrentPlanID: "lives", LastSeenAt: at(second)})
		return *planTree(t, s, "dead").Record.State == record.Interrupted
	})
	if state := *planTree(t, s, "lives").Record.State; state != record.Running {
		t.Errorf("the run that lives is %s", state)
	}
}

// TestSkewedHeartbeats: a process whose clock is years off lives as long as it
// tells that it does; only advances count, once.
func TestSkewedHeartbeats(t *testing.T) {
	t.Parallel()
	s := open(t)
	for root, year := range map[string]int{"behind": 1999, "ahead": 2099} {
		beat := func(second int) {
			write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running), LastSeenAt: new(time.Date(year, 1, 1, 0, 0, second, 0, time.UTC))})
		}
		state := func() record.State { return *planTree(t, s, root).Record.State }
		beat(1)
		interrupt(t, s)
		silent(t, s, root, "1 hour")
		beat(2)
		interrupt(t, s)
		if state() != record.Running {
			t.Errorf("%s: it lives, yet is %s", root, state())
		}
		beatAt := query[time.Time](t, s, "SELECT beat_at FROM actlog.plan_execution_record WHERE root_plan_id = $1", root)
		if now := query[time.Time](t, s, "SELECT now()"); now.Sub(beatAt) > time.Hour || beatAt.After(now) {
			t.Errorf("%s: beat at %s", root, beatAt)
		}
		silent(t, s, root, "1 hour")
		beat(2) // nothing new, told again
		beat(1)
		interrupt(t, s)
		if p := planTree(t, s, root).Record; *p.State != record.Interrupted || p.LastSeenAt.Year() != year || !p.EndTime.Equal(*p.LastSeenAt) {
			t.Errorf("%s: it is silent, yet %+v", root, p)
		}
	}
}

// TestTwoServersInterrupt many runs, in several batches.
func TestTwoServersInterrupt(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	stores := []*store.Store{openURL(t, url), openURL(t, url)}
	var changes []record.Change
	for _, c := range plans("run-", 250) {
		p := c.(*record.Plan)
		p.State, p.LastSeenAt = new(record.Running), at(1)
		changes = append(changes, p)
	}
	write(t, stores[0], changes...)
	exec(t, stores[0], "UPDATE actlog.plan_execution_record SET beat_at = beat_at - interval '1 hour'")
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() { interrupt(t, s) })
	}
	wg.Wait()
	if n := query[int](t, stores[0], "SELECT count(*) FROM actlog.plan_execution_record WHERE state = 'INTERRUPTED' AND error_kind = 'not_seen' AND end_time = last_seen_at"); n != 250 {
		t.Errorf("%d runs interrupted", n)
	}
}

func TestChangeSweep(t *testing.T) {
	t.Parallel()
	s := open(t)
	exec(t, s, "INSERT INTO actlog.change (root_plan_id, kinds, at) SELECT 'r', '{plan}', now() - make_interval(hours => 25) FROM generate_series(1, 12000)")
	exec(t, s, "INSERT INTO actlog.change (root_plan_id, kinds, at) SELECT 'r', '{plan}', now() - make_interval(hours => 23) FROM generate_series(1, 7)")
	if err := store.SweepChanges(s, t.Context(), 24); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.change"); n != 7 {
		t.Errorf("%d rows are left", n)
	}
}

// TestTheStoreKeepsItself: all of it happens without anybody's asking.
func TestTheStoreKeepsItself(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	tellTree(t, s, "detail", record.Completed)
	tellTree(t, s, "tree", record.Completed)
	tellRun(t, s, "run", at(1))
	age(t, pg.Pool, oldMonday, "detail")
	exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '1 day' WHERE root_plan_id = 'detail'")
	exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '61 days' WHERE root_plan_id = 'tree'")
	exec(t, s, "UPDATE actlog.change SET at = at - interval '2 hours'")
	silent(t, s, "run", "1 hour")
	keeper := openURL(t, pg.URL, keepDetail(30), func(c *store.Config) {
		c.KeepDays, c.ChangeHours, c.InterruptAfter = 60, 1, 100*time.Millisecond
	})
	until(t, "everything is done", func() bool {
		return query[bool](t, s, `SELECT count(*) = 2 AND bool_and(completed) AND NOT EXISTS (SELECT FROM actlog.change WHERE at < now() - interval '1 hour')
			AND to_regclass('actlog.act_tool_info_p20260105') IS NULL AND EXISTS (SELECT FROM actlog.tool_daily)
			FROM actlog.plan_execution_record WHERE current_plan_id = root_plan_id`)
	})
	until(t, "it is counted", func() bool {
		st := keeper.Stats()
		return st.PartitionsDropped == 2 && st.TreesDeleted == 1 && st.RunsInterrupted == 1
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("a")}, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Summary: new("b")},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"}) // with its step and cycle
	if _, err := s.Write(t.Context(), []record.Change{&record.Plan{RootPlanID: "p"}}); err != nil {
		t.Fatal(err)
	}
	got := s.Stats()
	if got.BatchSeconds.Sum <= 0 || len(got.BatchSeconds.Counts) != len(got.BatchSeconds.Bounds)+1 || got.BatchSeconds.Count != 1 {
		t.Errorf("histogram = %+v", got.BatchSeconds)
	}
	if got.Pool.Max != 4 || got.Pool.Acquired+got.Pool.Idle < 1 {
		t.Errorf("pool = %+v", got.Pool)
	}
	if want := store.PeriodStart(today(t, pg.Pool), 7).AddDate(0, 0, 7*(1+store.PartitionsAhead)); !got.PartitionsUntil.Equal(want) {
		t.Errorf("partitions until %s, want %s", got.PartitionsUntil, want)
	}
	got.BatchSeconds, got.Pool, got.PartitionsUntil = store.Histogram{}, store.PoolStats{}, time.Time{}
	want := store.Stats{Batches: 1, Rows: 4, Folded: 1, Refused: 1, PartitionsAdded: 3 * (1 + store.PartitionsAhead)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatsOfAnOutage: what was tried again and what was given up.
func TestStatsOfAnOutage(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	s := openURL(t, o.db.URL, impatient)
	o.begin(t)
	for range 2 {
		if _, err := s.Write(t.Context(), plans("p", 3)); err == nil {
			t.Error("it was written")
		}
	}
	until(t, "nobody is waited for any more", func() bool { st := s.Stats(); return st.QueueRows == 0 && !st.LastErrorAt.IsZero() })
	o.end(t)
	if st := s.Stats(); st.GivenUp != 6 || st.Batches != 0 {
		t.Errorf("%+v", st)
	}
}
