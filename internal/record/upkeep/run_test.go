package upkeep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// interrupt marks the runs that have been silent for a minute.
func interrupt(t testing.TB, u *upkeep.Upkeep) {
	t.Helper()
	if err := upkeep.InterruptDead(t.Context(), u, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// writeRun writes a run that is under way. Its process sent a heartbeat if seen is not nil.
func writeRun(t testing.TB, s *store.Store, root string, seen *time.Time) {
	t.Helper()

	storetest.Write(t, s,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, State: new(record.Running), StartTime: storetest.At(0), LastSeenAt: seen,
			Rev: new(int64(5)),
		},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new(root + "-t"),
			State: new(record.Running),
		},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "-done", ParentPlanID: &root, ToolCallID: new(root + "-d"),
			State: new(record.Failed), ErrorKind: new("mine"), EndTime: storetest.At(3),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-done", State: new(record.Completed), EndTime: storetest.At(1),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-a", State: new(record.Running), Attempt: new(int64(2)),
			StartTime: storetest.At(2),
		},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-next"},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 0, State: new(record.Completed)},
		&record.ThinkAct{
			RootPlanID: root, StepID: root + "-a", Seq: 1, State: new(record.Running), ThinkStartTime: storetest.At(3),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.AwaitingApproval),
			StartTime: storetest.At(4),
		},
		&record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-planned"},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w", ExpiresAt: expired},
	)
}

// expired is long ago.
var expired = new(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))

// silent lets time pass since the last heartbeat of a run, by the clock of the database.
func silent(t testing.TB, s *store.Store, root, since string) {
	t.Helper()
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET beat_at = beat_at - $2::text::interval WHERE "+
		"root_plan_id = $1", root, since)
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

// rows returns the rows of a tree whose ids begin with its root, without what differs from tree to tree.
func rows(t testing.TB, pg *pgtest.DB, root string) (all []string) {
	t.Helper()
	for _, table := range []string{
		"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info",
	} {
		all = append(all, storetest.Lines(t, pg.Pool,
			`SELECT replace((to_jsonb(x) - ARRAY['id', 'part', 'first_seen_at', 'beat_at'])::text, '"' || $1, '"r')
			FROM actlog.`+table+` AS x WHERE root_plan_id = $1 ORDER BY 1`, root)...)
	}
	return all
}

// TestDeadRuns checks when a silent run is interrupted, what is marked, and that its true outcome
// wins if it is written later, without a sign of life.
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
		"plan p INTERRUPTED not_seen 2026-11-20 12:00:50", "plan p-done FAILED mine 2026-11-20 12:00:03",
		"plan p-sub INTERRUPTED not_seen 2026-11-20 12:00:50",
		"step p-a INTERRUPTED not_seen 2026-11-20 12:00:50", "step p-done COMPLETED 2026-11-20 12:00:01", "step p-next IDLE",
		"tool p-planned PENDING", "tool p-t INTERRUPTED not_seen 2026-11-20 12:00:50", "wait w WAITING",
	}

	if diff := cmp.Diff(want, states(t, pg, "p")); diff != "" {
		t.Errorf("interrupted (-want +got):\n%s", diff)
	}
	storetest.CheckKept(t, s)
	if n := u.Stats().RunsInterrupted; n != 1 {
		t.Errorf("%d runs interrupted", n)
	}

	storetest.Write(t, s,
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", State: new(record.Completed), EndTime: storetest.At(59), Rev: new(int64(1)),
		},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "p-a", State: new(record.Completed), Attempt: new(int64(2)),
			Rev: new(int64(1)),
		},
		&record.ThinkAct{RootPlanID: "p", StepID: "p-a", Seq: 1, State: new(record.Failed), Rev: new(int64(1))},
		&record.ActTool{
			RootPlanID: "p", StepID: "p-a", Seq: 1, ToolCallID: "p-t", State: new(record.Cancelled), Rev: new(int64(1)),
		})

	p, st := storetest.PlanTree(t, s, "p").Record, storetest.StepDetail(t, s, "p-a")
	if *p.State != record.Completed || !p.EndTime.Equal(*storetest.At(59)) || *st.Record.State != record.Completed ||
		*st.Cycles[1].Record.State != record.Failed || *st.Cycles[1].ToolCalls[1].Record.State != record.Cancelled &&
		*st.Cycles[1].ToolCalls[0].Record.State != record.Cancelled {
		t.Errorf("a late outcome does not win: %+v %+v", p, st)
	}
}

// TestSignsOfLifeUndoTheMark checks that whatever a live process writes undoes the mark of the whole
// run, as if it had never been made, and that the run is marked again after the same silence.
//
// N11: a mark not_seen is undone by later signs of life.
func TestSignsOfLifeUndoTheMark(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	for name, sign := range map[string]func(root string) []record.Change{
		"heartbeat": func(root string) []record.Change {
			return []record.Change{&record.Plan{RootPlanID: root, CurrentPlanID: root, LastSeenAt: storetest.At(55)}}
		},
		"heartbeat of a sub-plan": func(root string) []record.Change {
			return []record.Change{&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", LastSeenAt: storetest.At(55)}}
		},
		"state": func(root string) []record.Change {
			return []record.Change{
				&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Waiting), Rev: new(int64(9))},
			}
		},
		"step": func(root string) []record.Change {
			return []record.Change{
				&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-next", State: new(record.Running)},
			}
		},
		"cycle": func(root string) []record.Change {
			return []record.Change{&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 1, State: new(record.Paused)}}
		},
		"tool call": func(root string) []record.Change {
			return []record.Change{
				&record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.Running)},
			}
		},
		"interrupted by the process": func(root string) []record.Change {
			return []record.Change{
				&record.ActTool{
					RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.Interrupted),
					ErrorKind: new("user"),
				},
			}
		},
		"state and error": func(root string) []record.Change {
			return []record.Change{
				&record.AgentExecution{
					RootPlanID: root, PlanID: root, StepID: root + "-a", Attempt: new(int64(2)), State: new(record.Waiting),
					ErrorKind: new("x"), EndTime: storetest.At(7), Rev: new(int64(3)),
				},
			}
		},
		"after an end": func(root string) []record.Change {
			return []record.Change{
				&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 1, State: new(record.Completed)},
				&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 2, State: new(record.Running)},
			}
		},
		"many": func(root string) (all []record.Change) {
			for i := range 300 {
				all = append(all, &record.ActTool{
					RootPlanID: root, StepID: root + "-b", Seq: int64(i / 10), ToolCallID: fmt.Sprint(root, i),
					State: new(record.Running),
				})
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.New(t)
			marks, s := open(t, pg.URL), storetest.OpenURL(t, pg.URL)

			for _, tt := range []struct {
				root string
				mark bool
			}{{"run-a", false}, {"run-b", true}} {
				writeRun(t, s, tt.root, storetest.At(50))
				if tt.mark {
					silent(t, s, tt.root, "1 hour")
					interrupt(t, idle(t, marks))
				}
				for _, c := range sign(tt.root) { // one by one, by the way of small batches
					storetest.Write(t, s, c)
				}
				storetest.Write(t, s, sign(tt.root)...)
			}

			if diff := cmp.Diff(rows(t, pg, "run-a"), rows(t, pg, "run-b")); diff != "" {
				t.Errorf("the mark left something (-never marked +marked):\n%s", diff)
			}
			if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.interrupted"); n != 0 {
				t.Errorf("%d rows are still saved", n)
			}
			interrupt(t, idle(t, marks))
			if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.interrupted"); n != 0 {
				t.Error("marked again at once")
			}
		})
	}
}

// TestSignsOfLifeInATransaction checks the same for [store.Store.InTx], and that a deleted tree
// leaves nothing of its mark.
func TestSignsOfLifeInATransaction(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, root := range []string{"p", "gone"} {
		writeRun(t, s, root, storetest.At(50))
		silent(t, s, root, "1 hour")
	}
	interrupt(t, idle(t, s))

	if err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Write(ctx, []record.Change{
			&record.Plan{RootPlanID: "p", CurrentPlanID: "p", LastSeenAt: storetest.At(55)},
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if p, st := storetest.PlanTree(t, s, "p").Record, storetest.StepDetail(t, s, "p-a"); *p.State != record.Running ||
		p.EndTime != nil || p.ErrorKind != nil || *st.Record.State != record.Running {
		t.Errorf("after a heartbeat: %+v %+v", p, st.Record)
	}

	if err := s.DeletePlan(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.interrupted"); n != 0 {
		t.Errorf("%d rows are still saved", n)
	}
}

// TestEndsUndoTheirOwnMark checks that an end counts as if its row had never been marked, also if it
// is before the last heartbeat, and that the other rows stay marked: somebody may only be recording
// how parts of a dead run ended.
//
// N11: a mark not_seen is undone by what is recorded later.
func TestEndsUndoTheirOwnMark(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()

	ends := map[string]func(root string) record.Change{
		"plan": func(root string) record.Change {
			return &record.Plan{
				RootPlanID: root, CurrentPlanID: root, State: new(record.Completed), EndTime: storetest.At(40),
				Summary: new("late"), Rev: new(int64(9)),
			}
		},
		"sub-plan": func(root string) record.Change {
			return &record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", State: new(record.Cancelled)}
		},
		"step": func(root string) record.Change {
			return &record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: root + "-a", Attempt: new(int64(2)), State: new(record.Completed),
				EndTime: storetest.At(60),
			}
		},
		"cycle": func(root string) record.Change {
			return &record.ThinkAct{
				RootPlanID: root, StepID: root + "-a", Seq: 1, State: new(record.Failed), ErrorKind: new("x"),
			}
		},
		"tool call": func(root string) record.Change {
			return &record.ActTool{
				RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.Completed),
				EndTime: storetest.At(30),
			}
		},
	}

	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.New(t)
			s := open(t, pg.URL)
			u := idle(t, s)

			writeRun(t, s, "run-a", storetest.At(50))
			storetest.Write(t, s, end("run-a"))
			writeRun(t, s, "run-b", storetest.At(50))
			silent(t, s, "run-b", "1 hour")
			interrupt(t, u)
			storetest.Write(t, s, end("run-b"))

			want, marked := states(t, pg, "run-a"), 0
			for i, got := range states(t, pg, "run-b") {
				if strings.Contains(got, "INTERRUPTED not_seen") {
					marked++
				} else if got = strings.ReplaceAll(got, "run-b", "run-a"); got != want[i] {
					t.Errorf("got %q, never marked %q", got, want[i])
				}
			}
			if marked != len(ends)-1 {
				t.Errorf("%d rows stay marked", marked)
			}
		})
	}

	t.Run("all", func(t *testing.T) {
		t.Parallel()
		pg := pgtest.New(t)
		s := open(t, pg.URL)
		for _, root := range []string{"run-a", "run-b"} {
			writeRun(t, s, root, storetest.At(50))
		}
		silent(t, s, "run-b", "1 hour")
		interrupt(t, idle(t, s))

		for _, name := range slices.Sorted(maps.Keys(ends)) {
			storetest.Write(t, s, ends[name]("run-a"))
			storetest.Write(t, s, ends[name]("run-b"))
		}
		if diff := cmp.Diff(rows(t, pg, "run-a"), rows(t, pg, "run-b")); diff != "" {
			t.Errorf("the marks left something (-never marked +marked):\n%s", diff)
		}
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.interrupted"); n != 0 {
			t.Errorf("%d rows are still saved", n)
		}
	})

	t.Run("earlier attempt", func(t *testing.T) {
		t.Parallel()
		s := storetest.Open(t)
		writeRun(t, s, "p", storetest.At(50))
		silent(t, s, "p", "1 hour")
		interrupt(t, idle(t, s))

		storetest.Write(t, s, &record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "p-a", Attempt: new(int64(1)), State: new(record.Failed),
		})
		if st := storetest.StepDetail(t, s, "p-a"); *st.Record.State != record.Interrupted ||
			*st.Record.ErrorKind != record.NotSeen {
			t.Errorf("after the end of an earlier attempt: %+v", st.Record)
		}
	})
}

// TestSignsOfLifeWhileMarking checks that a state that is written while its run is being marked undoes
// the mark: the writer waited for the lock of the tree.
//
// N11: a mark not_seen is undone by later signs of life.
func TestSignsOfLifeWhileMarking(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := open(t, pg.URL)
	u := idle(t, s)

	writeRun(t, s, "run-a", storetest.At(50))
	writeRun(t, s, "run-b", storetest.At(50))
	silent(t, s, "run-b", "1 hour")
	sign := func(root string) record.Change {
		return &record.ActTool{
			RootPlanID: root, StepID: root + "-a", Seq: 1, ToolCallID: root + "-t", State: new(record.Paused),
			Rev: new(int64(3)),
		}
	}
	storetest.Write(t, s, sign("run-a"))

	var wg sync.WaitGroup
	var once sync.Once
	upkeep.BeforeMarks(u, func() {
		once.Do(func() {
			wg.Go(func() { storetest.Write(t, s, sign("run-b")) })
			storetest.Until(t, "the writer waits", func() bool {
				return storetest.Query[bool](t, s,
					"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
			})
		})
	})
	interrupt(t, u)
	wg.Wait()

	if diff := cmp.Diff(rows(t, pg, "run-a"), rows(t, pg, "run-b")); diff != "" {
		t.Errorf("the mark left something (-never marked +marked):\n%s", diff)
	}
}

// TestNextAttemptUndoesTheMark checks that the next attempt at a step undoes the mark of the run, and
// that the attempt before stays interrupted: nobody saw its end, which is why there is another one.
func TestNextAttemptUndoesTheMark(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	writeRun(t, s, "p", storetest.At(50))
	silent(t, s, "p", "1 hour")
	interrupt(t, idle(t, s))
	storetest.Write(t, s, &record.AgentExecution{
		RootPlanID: "p", PlanID: "p", StepID: "p-a", Attempt: new(int64(3)), State: new(record.Running),
	})

	p, st := storetest.PlanTree(t, s, "p").Record, storetest.StepDetail(t, s, "p-a")
	if *p.State != record.Running || *st.Record.State != record.Running || *st.Cycles[1].Record.State != record.Running {
		t.Errorf("after the next attempt: %+v %+v", p, st.Record)
	}
	if last := st.PastAttempts[len(st.PastAttempts)-1]; last.Number != 2 || last.State != record.Interrupted ||
		*last.ErrorKind != record.NotSeen {
		t.Errorf("the attempt before: %+v", last)
	}
}

// TestLiveRunsSurviveASetClock sets the clock of the database while runs send heartbeats, in one of
// the minutes or in many. No live run is ever marked. A dead one is, once the clock is left alone.
//
// N11: a live run became INTERRUPTED when the database's clock stepped ahead.
func TestLiveRunsSurviveASetClock(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()

	const silence, minutes = 15 * time.Minute, 200
	for name, step := range map[string]func(minute int) time.Duration{
		"never": func(int) time.Duration { return 0 },
		"ahead": func(m int) time.Duration {
			return map[bool]time.Duration{true: 10 * time.Minute}[m%20 == 10 && m < 100]
		},
		"far ahead": func(m int) time.Duration { return map[int]time.Duration{30: 10_000 * time.Hour}[m] },
		"back":      func(m int) time.Duration { return map[int]time.Duration{30: -10_000 * time.Hour}[m] },
		"to and fro": func(m int) time.Duration {
			return map[int]time.Duration{10: time.Hour, 30: -2 * time.Hour, 50: 20 * time.Minute, 70: -16 * time.Minute}[m]
		},
		"creeping": func(m int) time.Duration { return map[bool]time.Duration{true: 50 * time.Second}[m < 60] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t)
			u := idle(t, s, func(c *upkeep.Config) { c.InterruptAfter = silence })
			var set, passed time.Duration
			upkeep.SetClocks(u, func() time.Duration { return set + passed }, func() time.Duration { return passed })

			beat := func(minute int, runs ...string) {
				t.Helper()
				var changes []record.Change
				for _, r := range runs {
					changes = append(changes, &record.Plan{
						RootPlanID: r, CurrentPlanID: r, State: new(record.Running), LastSeenAt: storetest.At(minute),
					})
				}
				storetest.Write(t, s, changes...)
				storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET beat_at = clock_timestamp() + $1 WHERE "+
					"root_plan_id = ANY ($2)", set+passed, runs)
			}
			beat(0, "dead", "live-0", "live-1", "live-2")

			var heard upkeep.Listening
			for minute := range minutes {
				passed += 30 * time.Second
				set += step(minute)
				if err := upkeep.InterruptSilent(u, t.Context(), &heard, time.Minute); err != nil {
					t.Fatal(err)
				}

				passed += 30 * time.Second
				if live := storetest.Query[int](t, s,
					"SELECT count(*) FROM actlog.plan_execution_record WHERE state = 'RUNNING' AND root_plan_id <> 'dead'"); live !=
					3 {
					t.Fatalf("minute %d: %d runs live", minute, live)
				}
				beat(minute+1, "live-0", "live-1", "live-2")
			}
			if p := storetest.PlanTree(t, s, "dead").Record; *p.State != record.Interrupted {
				t.Errorf("the dead run is %s", *p.State)
			}
		})
	}
}

// TestRunsThatAreNotDead checks the runs that are not interrupted: those that never sent a
// heartbeat, whose sub-plan still sends some, that wait or pause on purpose, that wait for a human,
// that have ended, and of which only a sub-plan that has ended sent heartbeats.
func TestRunsThatAreNotDead(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := open(t, pg.URL)
	u := idle(t, s)

	for root, more := range map[string]record.Change{
		"imported": nil,
		"sub":      &record.Plan{RootPlanID: "sub", CurrentPlanID: "sub-sub", LastSeenAt: storetest.At(1)},
		"waiting":  &record.Plan{RootPlanID: "waiting", CurrentPlanID: "waiting", State: new(record.Waiting)},
		"paused":   &record.Plan{RootPlanID: "paused", CurrentPlanID: "paused-sub", State: new(record.Paused)},
		"ended":    &record.Plan{RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Completed)},
		"silent":   &record.Plan{RootPlanID: "silent", CurrentPlanID: "silent-sub", State: new(record.Completed)},
		"asks":     &record.Wait{RootPlanID: "asks", PlanID: "asks", WaitID: "open"},
		"sub asks": &record.Wait{
			RootPlanID: "sub asks", PlanID: "sub asks-sub", WaitID: "open", ExpiresAt: new(time.Now().Add(time.Hour)),
		},
		"asked": &record.Wait{RootPlanID: "asked", PlanID: "asked-done", WaitID: "open", State: new(record.Waiting)},
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
	if got := storetest.Lines(t, pg.Pool,
		"SELECT current_plan_id FROM actlog.plan_execution_record WHERE state = 'INTERRUPTED'"); len(got) > 0 {
		t.Errorf("interrupted: %q", got)
	}
}

// TestWaitsThatNobodyWaitsFor checks that a wait keeps no run from its mark after it was decided, or
// once nothing waits for the answer any more.
func TestWaitsThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, root := range []string{"decided", "ended"} {
		writeRun(t, s, root, storetest.At(0))
		storetest.Write(t, s,
			&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", LastSeenAt: storetest.At(1)},
			&record.Wait{RootPlanID: root, PlanID: root, WaitID: "open"})
		silent(t, s, root, "1 day")
	}

	storetest.Write(t, s, &record.Wait{
		RootPlanID: "decided", PlanID: "decided", WaitID: "open", State: new(record.Submitted),
	})
	storetest.Write(t, s, &record.Plan{RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Completed)})
	interrupt(t, idle(t, s))

	for _, root := range []string{"decided", "ended"} {
		if p := storetest.PlanTree(t, s, root+"-sub").Record; *p.State != record.Interrupted {
			t.Errorf("%s: %s", root, *p.State)
		}
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

// stuck is a log that takes no warning before it is closed.
type stuck struct {
	slog.Handler
	closed chan struct{}
}

func (h stuck) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		<-h.closed
	}
	return h.Handler.Handle(ctx, r)
}

// TestTidyingDoesNotStopTheMarks checks that dead runs are marked however long it takes to remove what
// is too old: here, to log that it failed.
//
// N9: runs that sent lastSeenAt are marked by default.
func TestTidyingDoesNotStopTheMarks(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	writeRun(t, s, "dead", storetest.At(0))
	silent(t, s, "dead", "1 day")
	storetest.Exec(t, s, "ALTER TABLE actlog.otlp_trace RENAME TO lost")

	log := stuck{storetest.Logger(t).Handler(), make(chan struct{})}
	storetest.Upkeep(t, storetest.OpenURL(t, pg.URL), upkeep.Config{
		InterruptAfter: 2 * time.Second, TraceDays: 1, Logger: slog.New(log),
	})
	t.Cleanup(func() { close(log.closed) })
	storetest.Until(t, "the dead run is interrupted", func() bool {
		return *storetest.PlanTree(t, s, "dead").Record.State == record.Interrupted
	})
}

// TestSkewedHeartbeats checks processes whose clocks are years off: they live as long as their
// heartbeats advance. The same heartbeat again does not count.
func TestSkewedHeartbeats(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u := idle(t, s)
	for root, year := range map[string]int{"behind": 1999, "ahead": 2099} {
		beat := func(second int) {
			storetest.Write(t, s, &record.Plan{
				RootPlanID: root, CurrentPlanID: root, State: new(record.Running),
				LastSeenAt: new(time.Date(year, 1, 1, 0, 0, second, 0, time.UTC)),
			})
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

		beatAt := storetest.Query[time.Time](t, s,
			"SELECT beat_at FROM actlog.plan_execution_record WHERE root_plan_id = $1", root)
		if now := storetest.Query[time.Time](t, s, "SELECT now()"); now.Sub(beatAt) > time.Hour || beatAt.After(now) {
			t.Errorf("%s: beat at %s", root, beatAt)
		}

		silent(t, s, root, "1 hour")
		beat(2) // the same again
		beat(1)
		interrupt(t, u)
		if p := storetest.PlanTree(t, s, root).Record; *p.State != record.Interrupted || p.LastSeenAt.Year() != year ||
			!p.EndTime.Equal(*p.LastSeenAt) {
			t.Errorf("%s: the silent run is %+v", root, p)
		}
	}
}

// TestRefusedRowsDoNotStopTheMarks checks that runs are marked beside one whose mark is refused: it has a plan with an
// id that is only spaces, which only another program can have written.
//
// N9: runs that sent lastSeenAt are marked by default.
func TestRefusedRowsDoNotStopTheMarks(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var log storetest.Log
	u := idle(t, s, func(c *upkeep.Config) { c.Logger = log.Logger() })
	for _, root := range []string{"bad", "dead"} {
		storetest.Write(t, s, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, State: new(record.Running), LastSeenAt: storetest.At(1),
		})
		silent(t, s, root, "1 hour")
	}

	storetest.Exec(t, s, "INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) SELECT "+
		"'bad', ' ', part FROM actlog.plan_execution_record WHERE root_plan_id = 'bad'")
	interrupt(t, u)
	for root, want := range map[string]record.State{"bad": record.Running, "dead": record.Interrupted} {
		if p := storetest.PlanTree(t, s, root).Record; *p.State != want {
			t.Errorf("%s: %+v", root, p)
		}
	}

	if text := log.String(); !strings.Contains(text, "plan=bad") {
		t.Errorf("logged: %s", text)
	}
	storetest.CheckKept(t, s)
	if n := u.Stats().RunsInterrupted; n != 1 {
		t.Errorf("%d runs interrupted", n)
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
		changes = append(changes, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, State: new(record.Running), LastSeenAt: storetest.At(1),
		})
	}
	storetest.Write(t, s, changes...)
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET beat_at = beat_at - interval '1 hour'")

	var wg sync.WaitGroup
	for _, u := range keepers {
		wg.Go(func() { interrupt(t, u) })
	}
	wg.Wait()
	if n := storetest.Query[int](t, s,
		"SELECT count(*) FROM actlog.plan_execution_record WHERE state = 'INTERRUPTED' AND error_kind = 'not_seen' AND "+
			"end_time = last_seen_at"); n != 250 {
		t.Errorf("%d runs interrupted", n)
	}
}

// TestMarksBesideARun checks that a silent run is marked although a record of it names a plan that the runtime has
// begun since, and that it does not keep others from being marked.
func TestMarksBesideARun(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := open(t, pg.URL)
	u := idle(t, s)

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "beside", CurrentPlanID: "beside", State: new(record.Running), LastSeenAt: storetest.At(50)},
		&record.Plan{
			RootPlanID: "beside", CurrentPlanID: "run", ParentPlanID: new("beside"), ToolCallID: new("t"),
			State: new(record.Running),
		})
	writeRun(t, s, "p", storetest.At(50))

	run := runstore.NewRun{
		Run:   runstore.Run{RootPlanID: "run", PlanID: "run", Executor: "agent", Input: json.RawMessage(`{}`), Owner: "run"},
		Needs: []string{},
	}
	if err := runstore.New(s).StartRun(t.Context(), run,
		[]record.Change{&record.Plan{RootPlanID: "run", CurrentPlanID: "run", State: new(record.Pending)}}); err != nil {
		t.Fatal(err)
	}

	silent(t, s, "beside", "1 minute")
	silent(t, s, "p", "1 minute")
	interrupt(t, u)
	for _, root := range []string{"beside", "p"} {
		if state := storetest.Query[string](t, s,
			"SELECT state FROM actlog.plan_execution_record WHERE root_plan_id = $1 AND current_plan_id = $1",
			root); state != string(record.Interrupted) {
			t.Errorf("%s is %s", root, state)
		}
	}
	if state := storetest.Query[string](t, s,
		"SELECT state FROM actlog.plan_execution_record WHERE root_plan_id = 'run'"); state != string(record.Pending) {
		t.Errorf("the run is %s", state)
	}
}
