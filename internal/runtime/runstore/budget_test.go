package runstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// call is a model call of a step of a run, or of any other plan.
func call(planID string, seq int64, cost *float64, began time.Time) *record.ThinkAct {
	return &record.ThinkAct{
		RootPlanID: planID, StepID: planID + "-s", Seq: seq, ThinkStartTime: &began, CostUSD: cost,
	}
}

// spend puts a model call on record that cost a run so much.
func spend(t *testing.T, s *runstore.Store, l runstore.Lease, seq int64, cost float64, began time.Time) {
	t.Helper()
	step := &record.AgentExecution{RootPlanID: l.RootPlanID, PlanID: l.PlanID, StepID: l.RootPlanID + "-s"}
	if err := s.WriteRun(t.Context(), l, []record.Change{step, call(l.RootPlanID, seq, &cost, began)}); err != nil {
		t.Error(err)
	}
}

// spent returns what project p spent today.
func spent(t *testing.T, s *runstore.Store, budget float64) float64 {
	t.Helper()
	all, err := s.Spent(context.Background(), map[string]float64{"p": budget})
	if err != nil {
		t.Error(err)
	}
	return all["p"]
}

// atBudget is what a worker claims within that knows that project p has spent its budget.
func atBudget() runstore.Most {
	return runstore.Most{Places: map[string]int{runstore.BudgetPlace("p"): 0}, PerKey: 1}
}

// theDay returns a time of today in UTC, as the database has it, and when the next day begins.
func theDay(t *testing.T, s *runstore.Store) (now, next time.Time) {
	t.Helper()
	now = storetest.Query[time.Time](t, s.Store, "SELECT now()").UTC()
	return now, now.Truncate(24 * time.Hour).Add(24 * time.Hour)
}

// TestSpent checks what counts to the budget of a project: each model call of its runs once, on the day on which it
// began, and nothing else.
func TestSpent(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	startRun(t, s, runOf("r0", "", "p", "", ""))
	startRun(t, s, runOf("other", "", "q", "", ""))
	held := claims(t, s, runstore.Most{}, "r0", "other")

	leases := map[string]runstore.Lease{}
	for _, c := range held {
		leases[c.PlanID] = c.Lease
	}

	l := leases["r0"]
	now, _ := theDay(t, s)
	check := func(what string, want float64) {
		t.Helper()
		if got := spent(t, s, 10); got != want {
			t.Errorf("%s: $%v are spent, want %v", what, got, want)
		}
	}

	check("nothing", 0)
	spend(t, s, l, 0, 1.5, now)
	spend(t, s, l, 1, 0.25, now)
	check("two calls", 1.75)
	spend(t, s, l, 1, 0.25, now)
	check("the same again", 1.75)

	spend(t, s, l, 2, 4, now.Add(-24*time.Hour))
	check("one of yesterday", 1.75)
	spend(t, s, leases["other"], 0, 100, now)
	check("one of another project", 1.75)

	write := func(c *record.ThinkAct) {
		t.Helper()
		if err := s.WriteRun(t.Context(), l, []record.Change{c}); err != nil {
			t.Fatal(err)
		}
	}

	again := call("r0", 1, nil, now)
	again.Attempt = new(int64(2))
	write(again)
	check("another attempt begins", 1.75)
	again.ThinkEndTime, again.CostUSD = &now, new(0.25)
	write(again)
	check("its answer", 2)

	again = call("r0", 1, nil, now)
	again.Attempt = new(int64(3))
	write(again)
	again.ThinkEndTime, again.State = &now, new(record.Failed)
	write(again)
	check("an attempt that costs nothing", 2)

	unpriced := call("r0", 3, nil, now)
	unpriced.InputTokens, unpriced.OutputTokens = new(int64(1_000_000)), new(int64(0))
	write(unpriced)
	check("a call without a price", 2)
	storetest.Exec(t, s.Store, `UPDATE actlog.think_act_record
		SET input_price = 3, output_price = 3, cache_read_price = 3, cache_write_price = 3 WHERE seq = 3`)
	check("its price is applied later", 5)

	if _, err := s.Write(t.Context(), []record.Change{
		&record.Plan{RootPlanID: "x", CurrentPlanID: "x", Project: new("p")},
		&record.AgentExecution{RootPlanID: "x", PlanID: "x", StepID: "x-s"}, call("x", 0, new(50.0), now),
	}); err != nil {
		t.Fatal(err)
	}
	check("a plan that Actlog does not run", 5)

	finish(t, s, l)
	storetest.Exec(t, s.Store, "DELETE FROM actlog.think_act_record WHERE root_plan_id = 'r0'")
	check("what is deleted stays spent", 5)
}

// TestSpentUnderRace checks that nothing is lost or counted twice by workers that count while others spend.
func TestSpentUnderRace(t *testing.T) {
	t.Parallel()
	s := open(t)
	const runs, calls = 6, 20
	addWorker(t, s, "w", time.Hour)
	for i := range runs {
		startRun(t, s, runOf(fmt.Sprintf("r%d", i), "", "p", "", ""))
	}

	now, _ := theDay(t, s)
	var spending, counting sync.WaitGroup
	for _, c := range within(t, s, "w", runs, runstore.Most{}) {
		spending.Go(func() {
			for seq := range calls {
				spend(t, s, c.Lease, int64(seq), 0.5, now)
			}
		})
	}

	over := make(chan struct{})
	for range 4 {
		counting.Go(func() {
			for last := 0.0; ; {
				got := spent(t, s, 10)
				if got < last {
					t.Errorf("$%v are spent, after $%v", got, last)
				}
				last = got

				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	spending.Wait()
	close(over)
	counting.Wait()

	if got := spent(t, s, 10); got != runs*calls*0.5 {
		t.Errorf("$%v are spent, want %v", got, runs*calls*0.5)
	}
}

// look looks at the places again, as a worker does that has learned that a budget is spent, or is not.
func look(t *testing.T, s *runstore.Store) {
	t.Helper()
	if err := s.LookAtPlaces(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestBudget checks that a run of a project which has spent its budget does not begin, that it says why and until when,
// and that it begins on the next day, or if the budget is raised. Runs of others do.
func TestBudget(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(*testing.T, *runstore.Store) (spent float64){
		"raised": func(t *testing.T, s *runstore.Store) float64 {
			t.Helper()
			return spent(t, s, 20)
		},
		"next day": func(t *testing.T, s *runstore.Store) float64 {
			t.Helper()
			storetest.Exec(t, s.Store, "UPDATE actlog.project_day SET day = day - 1")
			return spent(t, s, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			addWorker(t, s, "w", time.Hour)
			startRun(t, s, runOf("r0", "", "p", "", ""))
			begun := claims(t, s, runstore.Most{}, "r0")[0].Lease

			now, next := theDay(t, s)
			spend(t, s, begun, 0, 12.5, now)
			if got := spent(t, s, 10); got != 12.5 {
				t.Fatalf("$%v are spent", got)
			}

			startRun(t, s, runOf("r1", "", "p", "", ""))
			startRun(t, s, runOf("other", "", "q", "", ""))
			claims(t, s, atBudget(), "other")

			waitsFor(t, s, "r1", record.Pending, "budget:p has spent 12.5 of 10 US dollars today, the next day begins at "+
				next.Format(time.RFC3339))
			d, err := s.Reader.RunDetail(t.Context(), "r1")
			if err != nil || d.DueAt == nil || !d.DueAt.Equal(next) {
				t.Errorf("it is due at %v, %v", d.DueAt, err)
			}

			look(t, s)
			claims(t, s, atBudget())
			finish(t, s, begun)
			claims(t, s, atBudget())

			if got := over(t, s); got != 12.5 && name == "raised" || got != 0 && name == "next day" {
				t.Errorf("$%v are spent", got)
			}
			look(t, s)
			claims(t, s, runstore.Most{}, "r1")
			waitsFor(t, s, "r1", record.Pending)
		})
	}
}

// TestBudgetOfBegun checks that what has begun goes on when the budget is spent: runs that waited, those of a lost
// worker, and runs below them.
func TestBudgetOfBegun(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	addWorker(t, s, "lost", time.Second)
	for _, id := range []string{"waited", "lost", "tree"} {
		startRun(t, s, runOf(id, "", "p", "", ""))
	}
	if got := planIDs(within(t, s, "lost", 1, runstore.Most{})); len(got) != 1 {
		t.Fatalf("claimed %v", got)
	}

	held := within(t, s, "w", 10, runstore.Most{})
	for _, c := range held {
		below := runOf("below "+c.PlanID, "", "p", "", "")
		below.RootPlanID, below.Parent = c.PlanID, &runstore.ParentCall{PlanID: c.PlanID, StepID: "s", ToolCallID: "c"}
		plan := &record.Plan{
			RootPlanID: c.PlanID, CurrentPlanID: below.PlanID, ParentPlanID: new(c.PlanID), ToolCallID: new("c"),
		}

		if err := s.WriteRun(t.Context(), c.Lease, []record.Change{plan}, runstore.Begin(below)); err != nil {
			t.Fatal(err)
		}
		leaveIn(t, s, c.Lease, record.Waiting, runstore.Park(time.Now()))
	}

	startRun(t, s, runOf("new", "", "p", "", ""))
	bury(t, s, "lost", 1)
	if n := len(within(t, s, "w", 10, atBudget())); n != 5 {
		t.Errorf("%d go on, want 3 and 2 below them", n)
	}
	waitsFor(t, s, "new", record.Pending, "budget:p")
}

// TestBudgetAndKey checks that a retry does not wait for a run with its key that cannot begin, and that the order of a
// key holds when it can.
func TestBudgetAndKey(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)
	most := atBudget()
	startRun(t, s, runOf("first", "", "p", "", "k"))
	startRun(t, s, runOf("second", "", "p", "", "k"))

	// As a retry.
	storetest.Exec(t, s.Store, "UPDATE actlog.run SET first_claimed_at = now() WHERE plan_id = 'second'")
	third := runOf("third", "", "p", "", "k")
	third.Priority = 9
	startRun(t, s, third)

	begun := claims(t, s, most, "second")
	finish(t, s, begun[0].Lease)
	claims(t, s, most)
	waitsFor(t, s, "first", record.Pending, "budget:p")
	waitsFor(t, s, "third", record.Pending, "budget:p")

	free := runstore.Most{PerKey: 1}
	look(t, s)
	finish(t, s, claims(t, s, free, "first")[0].Lease)
	finish(t, s, claims(t, s, free, "third")[0].Lease)
}

// TestManyOverBudget checks that the runs of a project that has spent its budget leave the queue, once, so that no
// claim reads them again, and that they can go on later.
func TestManyOverBudget(t *testing.T) {
	t.Parallel()
	s := open(t)
	const runs = 5_000
	queue(t, s, runs, "NULL", "x.id", "NULL")
	storetest.Exec(t, s.Store, "UPDATE actlog.run SET project = 'p', needs = '{}'")

	addWorker(t, s, "w", time.Hour)
	most := atBudget()
	startRun(t, s, runOf("r0", "", "q", "", ""))
	claims(t, s, most, "r0")

	due := func() int {
		return storetest.Query[int](t, s.Store,
			"SELECT count(*) FROM actlog.run WHERE due_at IS NOT NULL AND worker_id IS NULL")
	}
	if n := due(); n != 0 {
		t.Errorf("%d runs are still in the queue", n)
	}
	look(t, s)
	claims(t, s, most)
	if n := due(); n != 0 {
		t.Errorf("%d runs are in the queue again", n)
	}

	look(t, s)
	for n := 0; n < 1000; { // more than become due at once
		some := within(t, s, "w", 50, runstore.Most{})
		if n += len(some); len(some) == 0 {
			t.Fatalf("after %d runs no other one begins", n)
		}
	}
}
