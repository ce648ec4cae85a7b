package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/record"
)

func TestStates(t *testing.T) {
	t.Parallel()
	type view struct {
		Terminal bool
		Status   record.Status
	}

	want := map[record.State]view{}
	for status, states := range map[record.Status][]record.State{
		record.StatusIdle:    {record.Pending, record.Idle},
		record.StatusRunning: {record.Running, record.Waiting, record.Paused, record.AwaitingApproval},
		record.StatusFinished: {record.Completed, record.Failed, record.Cancelled, record.Skipped, record.Blocked,
			record.Interrupted, record.Unknown,
			record.Submitted, record.Accepted, record.Modified, record.Approved, record.Rejected, record.TimedOut},
	} {
		for _, s := range states {
			want[s] = view{status == record.StatusFinished, status}
		}
	}

	got := map[record.State]view{}
	for _, kind := range record.Kinds {
		states := record.States(kind)
		for _, s := range states {
			got[s] = view{s.Terminal(), s.Status()}
		}
		if initial := record.InitialState(kind); len(states) > 0 &&
			(!slices.Contains(states, initial) || initial.Terminal()) {
			t.Errorf("%s begins as %s", kind, initial)
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for kind, only := range map[record.Kind]record.State{
		record.KindAgentExecution: record.Idle, record.KindActTool: record.AwaitingApproval,
	} {
		for _, k := range record.Kinds {
			if slices.Contains(record.States(k), only) != (k == kind) {
				t.Errorf("%s may be %s: %v", k, only, k != kind)
			}
		}
	}

	record.States(record.KindPlan)[0] = "mine" // the list is the caller's own
	if record.States(record.KindPlan)[0] != record.Pending {
		t.Error("a caller can alter the states")
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for prefix, make := range map[string]func() string{
		"plan-": record.NewPlanID, "subplan-": record.NewSubPlanID, "step-": record.NewStepID,
		"toolcall-": record.NewToolCallID,
		"thought-":  record.NewThoughtID, "source-": record.NewSourceID, "wait-": record.NewWaitID,
	} {
		ids := []string{}
		for range 1000 {
			ids = append(ids, make())
		}

		if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 1000 {
			t.Errorf("%s: not sorted, or not unique", prefix)
		}
		if id := ids[0]; !strings.HasPrefix(id, prefix) || len(id) != len(prefix)+36 {
			t.Errorf("id %q", id)
		}
	}
}

func TestKeysAreOrderedAsInTheDatabase(t *testing.T) {
	t.Parallel()
	keys := []record.Key{
		{Root: "A"}, {Root: "a"}, {Root: "a", ID: "x"}, {Root: "a", Seq: 1}, {Root: "a", Seq: 2, ID: "a"},
		{Root: "a", Seq: 10},
		{Root: "a", Parent: "B", ID: "z"}, {Root: "a", Parent: "b"}, {Root: "a b"}, {Root: "b"}, {Root: "é"},
		{Root: "\U0001F511"},
	}

	for i, a := range keys {
		for j, b := range keys {
			if got := a.Compare(b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("a = %+v to %+v is %d", a, b, got)
			}
		}
	}
}
