package tree_test

import (
	"testing"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// TestPlacedWaits: a question hangs on the call that it names, else on its step, else on its plan.
func TestPlacedWaits(t *testing.T) {
	t.Parallel()
	p := grow(t, `plan root RUNNING
		step a root RUNNING
		cycle a/0 RUNNING
		call a/0/c RUNNING
		step b root RUNNING`)

	for want, w := range map[string]record.Wait{
		"root a 0 c": {StepID: new("a"), ToolCallID: new("c")},
		"root a":     {StepID: new("a"), ToolCallID: new("not recorded yet")},
		"root b":     {StepID: new("b")},
		"root":       {StepID: new("not of this plan"), ToolCallID: new("c")},
	} {
		p.Waits = []*record.Wait{&w}
		placed, at := p.PlacedWaits(), paths(p)
		for n := range placed {
			if got := at[n]; got != want || len(placed) != 1 {
				t.Errorf("a question of %s hangs on %s", want, got)
			}
		}
	}

	p.Waits = []*record.Wait{{ToolCallID: new("c")}}
	if placed := p.PlacedWaits(); len(placed[tree.Node{Plan: p}]) != 1 {
		t.Errorf("a question without a step hangs on %v", placed)
	}
}

// TestShownState: what goes on below a plan that has ended was left behind; any other row is shown as it is.
func TestShownState(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ top, row, want record.State }{
		{record.Completed, record.Running, tree.LeftBehind},
		{record.Failed, record.Waiting, tree.LeftBehind},
		{record.Interrupted, record.AwaitingApproval, tree.LeftBehind},
		{record.Completed, record.Pending, record.Pending},
		{record.Completed, record.Failed, record.Failed},
		{record.Running, record.Running, record.Running},
		{record.Running, record.Completed, record.Completed},
	} {
		if got := tree.ShownState(tt.top, tt.row); got != tt.want {
			t.Errorf("%s in a run that is %s is shown as %s, want %s", tt.row, tt.top, got, tt.want)
		}
	}
}
