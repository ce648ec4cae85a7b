package runstore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// timed returns a run with a limit of a thousand seconds.
func timed(r runstore.NewRun) runstore.NewRun {
	r.Limits = json.RawMessage(`{"seconds":1000}`)
	return r
}

// aged registers a worker of an age, or extends its lease at that age.
func aged(t *testing.T, s *runstore.Store, id string, age time.Duration) {
	t.Helper()
	w := runstore.Worker{ID: id, Host: "h", Release: "r", Provides: []string{}, Slots: 1, Age: age}
	if _, _, err := s.Beat(t.Context(), w, nil, time.Hour); err == nil {
		return
	}
	if _, err := s.AddWorker(t.Context(), w, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// startClock starts the clock of a run on a worker of an age, and checks how many seconds the run may work.
func startClock(t *testing.T, s *runstore.Store, l runstore.Lease, age time.Duration, want float64) {
	t.Helper()
	var left *time.Duration
	if err := s.WriteRun(t.Context(), l, nil, runstore.ClockStart(age, &left)); err != nil {
		t.Fatal(err)
	}
	if left == nil || left.Seconds() != want {
		t.Errorf("run %s may work for %v, want %.0f s", l.PlanID, left, want)
	}
}

// TestTheClockIsOfTheWorkerThatStartedIt checks that what a run worked is measured by the worker that started its
// clock, where the next one is lost, or hands the run back, before it went on.
func TestTheClockIsOfTheWorkerThatStartedIt(t *testing.T) {
	t.Parallel()
	for name, letGo := range map[string]func(t *testing.T, s *runstore.Store, worker string){
		"lost": func(t *testing.T, s *runstore.Store, worker string) { t.Helper(); bury(t, s, worker, 1) },
		"stopped": func(t *testing.T, s *runstore.Store, worker string) {
			t.Helper()
			if err := s.StopWorker(t.Context(), worker); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			startRun(t, s, timed(newRun("p")))
			aged(t, s, "young", 10*time.Second)
			startClock(t, s, claimOne(t, s, "young").Lease, 10*time.Second, 1000)
			aged(t, s, "young", 15*time.Second)
			letGo(t, s, "young")

			aged(t, s, "old", 24*time.Hour)
			claimOne(t, s, "old")
			letGo(t, s, "old")
			aged(t, s, "older", 48*time.Hour)
			claimOne(t, s, "older")
			bury(t, s, "older", 1)

			aged(t, s, "new", time.Second)
			startClock(t, s, claimOne(t, s, "new").Lease, time.Second, 995)
		})
	}
}

// TestTheTimeOfAStoppedRunCounts checks that what a run worked that was ended with the one above it counts for the
// limit further above.
func TestTheTimeOfAStoppedRunCounts(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, timed(newRun("top")))
	aged(t, s, "a", 0)
	top := claimOne(t, s, "a").Lease
	startClock(t, s, top, 0, 1000)

	under := func(parent, id string) runstore.NewRun {
		r := newRun(id)
		r.RootPlanID, r.Depth = "top", 1
		r.Parent = &runstore.ParentCall{PlanID: parent, StepID: "s", ToolCallID: id}
		return r
	}
	row := func(parent, id string) []record.Change {
		return []record.Change{&record.Plan{RootPlanID: "top", CurrentPlanID: id, ParentPlanID: &parent, ToolCallID: &id}}
	}

	if err := s.WriteRun(t.Context(), top, row("top", "middle"), runstore.Begin(under("top", "middle")),
		runstore.ClockStop(0), runstore.Park(time.Time{})); err != nil {
		t.Fatal(err)
	}

	middle := claimOne(t, s, "a").Lease
	if err := s.WriteRun(t.Context(), middle, row("middle", "below"),
		runstore.Begin(under("middle", "below"))); err != nil {
		t.Fatal(err)
	}
	aged(t, s, "b", 100*time.Second)
	startClock(t, s, claimOne(t, s, "b").Lease, 100*time.Second, 1000)
	aged(t, s, "b", 160*time.Second)

	if err := s.WriteRun(t.Context(), middle, nil, runstore.Finish(nil), runstore.Signal("top")); err != nil {
		t.Fatal(err)
	}
	aged(t, s, "b", 500*time.Second) // it does other things
	startClock(t, s, claimOne(t, s, "a").Lease, time.Hour, 940)
}

// TestARunThatWorksBesideTheOneAboveIt checks that a run that begins while the one above it still works goes on from
// what that one has worked by then, although its worker sent no heartbeat since.
func TestARunThatWorksBesideTheOneAboveIt(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, timed(newRun("top")))
	aged(t, s, "a", 0)
	top := claimOne(t, s, "a").Lease
	startClock(t, s, top, 10*time.Second, 1000)

	below, parent := newRun("below"), "top"
	below.RootPlanID, below.Depth = "top", 1
	below.Parent = &runstore.ParentCall{PlanID: parent, StepID: "s", ToolCallID: "c"}
	row := &record.Plan{RootPlanID: "top", CurrentPlanID: "below", ParentPlanID: &parent, ToolCallID: new("c")}
	if err := s.WriteRun(t.Context(), top, []record.Change{row}, runstore.Begin(below)); err != nil {
		t.Fatal(err)
	}
	startClock(t, s, claimOne(t, s, "a").Lease, 17*time.Second, 993)
}
