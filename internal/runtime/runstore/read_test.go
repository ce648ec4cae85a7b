package runstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func runDetail(t *testing.T, s *runstore.Store, planID string) *runstore.RunDetail {
	t.Helper()
	d, err := s.Reader.RunDetail(t.Context(), planID)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// beginChild starts a run below one that a worker holds.
func beginChild(t *testing.T, s *runstore.Store, l runstore.Lease, id string) {
	t.Helper()
	child := newRun(l.RootPlanID)
	child.PlanID, child.Parent = id, &runstore.ParentCall{PlanID: l.PlanID, StepID: "s", ToolCallID: "call"}

	if err := s.WriteRun(t.Context(), l, []record.Change{
		&record.Plan{
			RootPlanID: l.RootPlanID, CurrentPlanID: id, ParentPlanID: &l.PlanID, ToolCallID: new("call"),
			State: new(record.Running),
		},
	}, runstore.Begin(child)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, s *runstore.Store, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) {
	t.Helper()
	if err := s.WriteRun(t.Context(), l, changes, ops...); err != nil {
		t.Fatal(err)
	}
}

// cycleOf is a step with one cycle of some tokens.
func cycleOf(root, plan string, tokens int64) []record.Change {
	return []record.Change{
		&record.AgentExecution{RootPlanID: root, PlanID: plan, StepID: plan + "-step"},
		&record.ThinkAct{RootPlanID: root, StepID: plan + "-step", ModelName: new("m"), InputTokens: &tokens},
	}
}

// TestRunDetail checks what one statement reads of a run: its plan, its figures and those of all below it, and
// the waits of the whole tree. A run waits while a run below it waits and nothing else goes on.
func TestRunDetail(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	addWorker(t, s, "w", time.Hour)
	if d := runDetail(t, s, "p"); d.State != record.Pending || d.Executor != "agent" || *d.Name != "reader" ||
		len(d.WaitingFor) != 0 || d.CreatedAt == nil || d.Plan.Summary != nil {
		t.Errorf("before it is claimed: %+v", d)
	}

	root := claimOne(t, s, "w").Lease
	write(t, s, root, append(cycleOf("p", "p", 10), &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", State: new(record.Running),
	}))
	beginChild(t, s, root, "c")
	child := claimOne(t, s, "w").Lease
	write(t, s, root, nil, runstore.Park(time.Time{}))

	asked := &record.Wait{
		RootPlanID: "p", PlanID: "c", WaitID: "approval", Type: new(record.WaitActionValidation), ToolCallID: new("t"),
		StartTime: new(time.Now()),
		Subject:   json.RawMessage(`{"name":"git.commit","parameters":{"message":"m"}}`),
	}
	write(t, s, child, append(cycleOf("p", "c", 5), asked))
	if d := runDetail(t, s, "p"); d.State != record.Running || d.Figures.InputTokens != 10 || d.Total.InputTokens != 15 {
		t.Errorf("while the child goes on: %s, %+v, %+v", d.State, d.Figures, d.Total)
	}

	write(t, s, child, []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "c", State: new(record.Waiting)}},
		runstore.Park(time.Now().Add(time.Hour)))
	for _, id := range []string{"p", "c"} {
		d := runDetail(t, s, id)
		if d.State != record.Waiting || len(d.Waits) != 1 || d.Waits[0].PlanID != "c" ||
			string(d.Waits[0].Subject) != string(asked.Subject) {
			t.Errorf("%s while the child waits: %s, %+v", id, d.State, d.Waits)
		}

		key, err := s.Reader.RunWait(t.Context(), id, "approval")
		if err != nil || key.Root != "p" || key.Parent != "c" {
			t.Errorf("the wait of %s is at %+v, %v", id, key, err)
		}
	}

	if d := runDetail(t, s, "c"); d.Figures.InputTokens != 5 || d.Total.InputTokens != 5 {
		t.Errorf("figures of the child: %+v, %+v", d.Figures, d.Total)
	}
	err := s.Decide(t.Context(), "p", "c", "approval", func(w *record.Wait) (*record.Wait, error) {
		if string(w.Subject) != string(asked.Subject) {
			t.Errorf("decided on %s", w.Subject)
		}
		return &record.Wait{RootPlanID: "p", PlanID: "c", WaitID: "approval", State: new(record.Approved)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := runDetail(t, s, "p"); d.State != record.Running || len(d.Waits) != 0 {
		t.Errorf("after the decision: %s, %+v", d.State, d.Waits)
	}

	child = claimOne(t, s, "w").Lease
	end := func(l runstore.Lease, text string, ops ...runstore.RunOp) {
		write(t, s, l, []record.Change{
			&record.Plan{RootPlanID: "p", CurrentPlanID: l.PlanID, State: new(record.Completed), Summary: &text},
		}, append(ops, runstore.Finish(nil))...)
	}
	end(child, "of the child", runstore.Signal("p"))
	root = claimOne(t, s, "w").Lease
	end(root, "the answer")

	d := runDetail(t, s, "p")
	if d.State != record.Completed || !d.Done || *d.Plan.Summary != "the answer" || len(d.WaitingFor) != 0 {
		t.Errorf("at the end: %+v", d)
	}
	for _, id := range []string{"", "q"} {
		if _, err := s.Reader.RunDetail(t.Context(), id); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("run %q: %v", id, err)
		}
	}
	if _, err := s.Reader.RunWait(t.Context(), "p", "other"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a wait that is not there: %v", err)
	}
}

// TestRunSaysWhatItWaitsFor checks why nobody takes a run that is due: what it needs and no live worker
// provides.
func TestRunSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := open(t)
	r := newRun("p")
	r.Needs = []string{"executor:agent", "model:large", "toolset:git"}
	startRun(t, s, r)

	add := func(id string, lease time.Duration, provides ...string) {
		t.Helper()
		if _, err := s.AddWorker(t.Context(), runstore.Worker{ID: id, Host: "h", Release: "r", Provides: provides, Slots: 1},
			lease); err != nil {
			t.Fatal(err)
		}
	}
	want := func(needs ...string) {
		t.Helper()
		if got := runDetail(t, s, "p").WaitingFor; !slices.Equal(got, needs) {
			t.Errorf("it waits for %q, want %q", got, needs)
		}
	}

	add("dead", 0, r.Needs...)
	want(r.Needs...)
	add("a", time.Hour, "executor:agent", "model:large")
	want("toolset:git")
	add("b", time.Hour, "executor:agent", "toolset:git") // each has one, none has both
	want(r.Needs...)
	add("c", time.Hour, append(r.Needs, "model:small")...)
	want()

	if err := s.StopWorker(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	want(r.Needs...)
	add("d", time.Hour, r.Needs...)
	claimed, err := enginetest.Claim(t.Context(), s, "d", r.Needs, 1)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed = %v, %v", claimed, err)
	}

	child := newRun("p")
	child.PlanID, child.Needs = "c", []string{"model:other"}
	child.Parent = &runstore.ParentCall{PlanID: "p", StepID: "s", ToolCallID: "t"}
	write(t, s, claimed[0].Lease,
		[]record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "c", ParentPlanID: new("p"), ToolCallID: new("t")}},
		runstore.Begin(child))
	want("model:other")
}

// TestRunList checks the filters of the list of root runs, their order and paging.
func TestRunList(t *testing.T) {
	t.Parallel()
	s := open(t)
	addWorker(t, s, "w", time.Hour)

	start := func(i int) {
		t.Helper()
		r := newRun(fmt.Sprint("p", i))
		if i%2 == 1 {
			r.Name, r.Executor = "critic", "plan"
		}
		startRun(t, s, r)
	}
	for i := range 5 {
		start(i)
	}

	states := []record.State{record.Failed, record.Waiting, record.Running, record.Paused, record.Completed}
	for _, c := range claim(t, s, "w", 5) {
		i := int(c.PlanID[1] - '0')
		changes := []record.Change{
			&record.Plan{
				RootPlanID: c.PlanID, CurrentPlanID: c.PlanID, State: &states[i], ErrorMessage: new(strings.Repeat("e", 2_000)),
			},
		}

		switch states[i] {
		case record.Failed, record.Completed:
			write(t, s, c.Lease, changes, runstore.Finish(nil))
		case record.Waiting:
			beginChild(t, s, c.Lease, c.PlanID+"-child")
			child := claimOne(t, s, "w").Lease
			write(t, s, child, []record.Change{&record.Wait{RootPlanID: c.PlanID, PlanID: child.PlanID, WaitID: "w"}},
				runstore.Park(time.Time{}))
			write(t, s, c.Lease, changes, runstore.Park(time.Time{}))
		default:
			write(t, s, c.Lease, changes)
		}
	}
	start(5)

	list := func(f runstore.RunFilter) (ids string) {
		t.Helper()
		f.Limit = 2
		for {
			runs, err := s.Reader.Runs(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				ids += r.Plan.CurrentPlanID + " "
				if f.State != "" && r.State != f.State || r.CreatedAt == nil || r.Plan.ErrorMessage != nil &&
					len(*r.Plan.ErrorMessage) != 1_000 {
					t.Errorf("%+v in the list of %+v", r, f)
				}
			}

			if len(runs) < f.Limit {
				return strings.TrimSpace(ids)
			}
			last := runs[len(runs)-1]
			f.Before = &runstore.RunCursor{CreatedAt: *last.CreatedAt, PlanID: last.Plan.CurrentPlanID}
		}
	}

	for _, tt := range []struct {
		filter runstore.RunFilter
		want   string
	}{
		{runstore.RunFilter{}, "p5 p4 p3 p2 p1 p0"},
		{runstore.RunFilter{Name: "critic"}, "p5 p3 p1"},
		{runstore.RunFilter{Executor: "agent"}, "p4 p2 p0"},
		{runstore.RunFilter{State: record.Waiting}, "p1"},
		{runstore.RunFilter{State: record.Running}, "p2"},
		{runstore.RunFilter{State: record.Paused}, "p3"},
		{runstore.RunFilter{State: record.Pending}, "p5"},
		{runstore.RunFilter{State: record.Completed}, "p4"},
		{runstore.RunFilter{State: record.Failed, Executor: "plan"}, ""},
	} {
		if got := list(tt.filter); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.filter, got, tt.want)
		}
	}

	if _, err := s.Reader.Runs(
		t.Context(), runstore.RunFilter{Limit: 1, Timeout: time.Nanosecond},
	); !errors.Is(err, store.ErrSlow) {
		t.Errorf("without time: %v", err)
	}
}

// TestRunStands checks what a run is said to be asked for, and which plans have no run.
func TestRunStands(t *testing.T) {
	t.Parallel()
	s := open(t)
	startRun(t, s, newRun("p"))
	stands := func(root, plan string) string {
		is, err := s.Reader.RunStands(t.Context(), root, plan)
		switch {
		case errors.Is(err, record.ErrNotFound):
			return "none"
		case err != nil:
			t.Fatal(err)
		case is.Done:
			return "ended"
		}
		return string(is.Desired)
	}

	if err := s.Control(t.Context(), "p", runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	storetest.Write(t, s.Store, &record.Plan{RootPlanID: "theirs", CurrentPlanID: "theirs"})
	for _, tt := range []struct {
		root, plan, want string
	}{{"", "p", "PAUSE"}, {"p", "p", "PAUSE"}, {"other", "p", "none"}, {"", "theirs", "none"}} {
		if got := stands(tt.root, tt.plan); got != tt.want {
			t.Errorf("%s under %q is %s, want %s", tt.plan, tt.root, got, tt.want)
		}
	}

	write(t, s, claimOne(t, s, "w").Lease,
		[]record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Cancelled)}},
		runstore.Finish(nil))
	if got := stands("p", "p"); got != "ended" {
		t.Errorf("it is %s", got)
	}
}
