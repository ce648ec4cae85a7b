package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// TestListSaysTheCause compares what the list says of trees of all shapes with what follows from their skeletons.
func TestListSaysTheCause(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	random := rand.New(rand.NewPCG(1, 2))
	state := func() *record.State {
		return new([]record.State{record.Completed, record.Failed, record.Interrupted, record.Running, record.Failed}[random.IntN(5)])
	}
	const runs = 60
	for run := range runs {
		root := fmt.Sprint("run", run)
		plans, calls := []string{root}, []string{}
		changes := []record.Change{&record.Plan{RootPlanID: root, CurrentPlanID: root, State: state(), ErrorMessage: new("of the run")}}
		for i := range 1 + random.IntN(8) {
			plan, step := plans[random.IntN(len(plans))], fmt.Sprint("step", i)
			changes = append(changes, &record.AgentExecution{RootPlanID: root, PlanID: plan, StepID: root + step, State: state(), StepIndex: new(int64(random.IntN(3))), StartTime: storetest.At(random.IntN(50)), AgentName: &step})
			for seq := range int64(random.IntN(3)) {
				changes = append(changes, &record.ThinkAct{RootPlanID: root, StepID: root + step, Seq: seq, State: state(), ThinkStartTime: storetest.At(random.IntN(50)), ActEndTime: storetest.At(50 + random.IntN(9))})
				for n := range random.IntN(3) {
					id := fmt.Sprint("call", i, "-", seq, "-", n)
					calls = append(calls, id)
					changes = append(changes, &record.ActTool{RootPlanID: root, StepID: root + step, Seq: seq, ToolCallID: id, Name: &id, State: state(), StartTime: storetest.At(random.IntN(50)), EndTime: storetest.At(50 + random.IntN(9))})
				}
			}
			if len(calls) > 0 && random.IntN(2) == 0 {
				id := fmt.Sprint(root, "-sub", i)
				changes = append(changes, &record.Plan{RootPlanID: root, CurrentPlanID: id, ParentPlanID: &plan, ToolCallID: new(calls[random.IntN(len(calls))]), State: state(), StartTime: storetest.At(random.IntN(50))})
				plans = append(plans, id)
			}
		}
		storetest.Write(t, s, changes...)
	}
	list, err := s.Plans(t.Context(), store.PlanFilter{Limit: runs})
	if err != nil || len(list) != runs {
		t.Fatal(len(list), err)
	}
	node := func(f *tree.Failure) string {
		switch n := f.Node(); {
		case n.Plan != nil:
			return n.Plan.Record.CurrentPlanID
		case n.Step != nil:
			return n.Step.Record.StepID
		case n.Cycle != nil:
			return fmt.Sprint(n.Cycle.Record.StepID, n.Cycle.Record.Seq)
		default:
			return n.Call.Record.ToolCallID
		}
	}
	for _, got := range list {
		p, err := s.Skeleton(t.Context(), "", got.Record.RootPlanID)
		if err != nil {
			t.Fatal(err)
		}
		failures := tree.Failures(p)
		cause, recovered := tree.Cause(failures)
		var want, is string
		if cause >= 0 {
			want = node(&failures[cause])
		}
		if got.Failure != nil {
			is = node(got.Failure)
		}
		if is != want || got.Recovered != recovered || int(got.Failed) != len(failures) {
			t.Errorf("%s: %s recovered %v of %d, want %s %v of %d", got.Record.RootPlanID, is, got.Recovered, got.Failed, want, recovered, len(failures))
		}
	}
}

// TestPlansAfter: a list that ends at a plan has those that are newer, whether they are searched for or not. Plans are also read
// by their ids.
func TestPlansAfter(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for i := range 5 {
		id := fmt.Sprint("run", i)
		storetest.Write(t, s, &record.Plan{RootPlanID: id, CurrentPlanID: id, Title: new("weather")})
	}
	all, err := s.Plans(t.Context(), store.PlanFilter{Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "weather"} {
		for after, want := range map[int][]string{0: {}, 1: {"run4"}, 4: {"run4", "run3", "run2", "run1"}} {
			if got := found(t, s, store.PlanFilter{Query: query, After: &all[after].Cursor}); !slices.Equal(got, want) {
				t.Errorf("%q after plan %d: %q, want %q", query, after, got, want)
			}
		}
	}
	some, err := s.PlansAt(t.Context(), []string{"run1", "nobody", "run3"})
	if err != nil || len(some) != 2 || some[0].Record.RootPlanID != "run3" || some[1].Record.RootPlanID != "run1" {
		t.Errorf("%v, %v", some, err)
	}
}
