package tree_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// nested builds a run of plans that each call the next, of which the last one has failed calls. The rows of the plans
// are in a state, and spoil puts an error on them.
func nested(depth, siblings int, state record.State, spoil func(level int) (kind, message *string)) *tree.Plan {
	var plans []*tree.Plan
	var steps []*tree.Step
	var cycles []*tree.Cycle
	var calls []*tree.ToolCall
	id := root
	var started *tree.ToolCall
	for i := range depth {
		step := fmt.Sprint("s", i)
		kind, message := spoil(i)
		p := &tree.Plan{ToolCall: started, Record: record.Plan{
			RootPlanID: root, CurrentPlanID: id, State: &state, ErrorKind: kind, ErrorMessage: message,
		}}
		if i == 0 {
			p.Record.State = new(record.Failed)
		} else {
			p.Record.ParentPlanID = new(root)
		}

		plans = append(plans, p)
		steps = append(steps, &tree.Step{Record: record.AgentExecution{
			RootPlanID: root, PlanID: id, StepID: step, State: &state, ErrorKind: kind, ErrorMessage: message,
		}})
		cycles = append(cycles, &tree.Cycle{Record: record.ThinkAct{StepID: step, State: new(record.Completed)}})
		started = &tree.ToolCall{Record: record.ActTool{
			StepID: step, ToolCallID: fmt.Sprint("c", i), State: &state, ErrorKind: kind, ErrorMessage: message,
		}}
		calls = append(calls, started)
		id = fmt.Sprint("p", i)
	}

	for i := range siblings {
		calls = append(calls, &tree.ToolCall{Record: record.ActTool{
			StepID: fmt.Sprint("s", depth-1), ToolCallID: fmt.Sprintf("last%05d", i), State: new(record.Failed),
			ErrorKind: new("deepest"), ErrorMessage: new(fmt.Sprintf("no answer from host %d", i)),
		}})
	}

	p := tree.Build(root, plans, steps)
	tree.Nest(steps, cycles, calls)
	return p
}

// TestExplainGrowsWithTheRows counts what is allocated for a deep tree with many failures, and for one of half the
// size. It does not run beside others, which allocate as well.
func TestExplainGrowsWithTheRows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state record.State
		spoil func(level int) (kind, message *string)
		cause string
	}{
		{"nothing is known of the plans between", record.Unknown, func(int) (kind, message *string) {
			return nil, nil
		}, "last"},
		{"all failed without a word", record.Failed, func(int) (kind, message *string) { return nil, nil }, "last"},
		{"all pass an error on", record.Failed, func(level int) (kind, message *string) {
			return new(fmt.Sprint("kind ", level)), new(fmt.Sprintf("level %d: no answer from host 0", level))
		}, "last"},
		{"each has an error of its own", record.Failed, func(level int) (kind, message *string) {
			return new(fmt.Sprint("kind ", level)), new(fmt.Sprintf("level %d is out of order", level))
		}, "c0"},
	} {
		allocated := func(depth, siblings int) (bytes uint64) {
			p := nested(depth, siblings, tt.state, tt.spoil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := tree.Explain(p)
			runtime.ReadMemStats(&after)

			want := tt.cause
			if want == "last" {
				want = fmt.Sprintf("last%05d", siblings-1)
			}
			if got := id(found.Cause.Node()); got != want {
				t.Errorf("%s: the cause is %s, want %s", tt.name, got, want)
			}
			return after.TotalAlloc - before.TotalAlloc
		}

		half, whole := allocated(growDepth/2, growSiblings/2), allocated(growDepth, growSiblings)
		if whole > 3*half {
			t.Errorf("%s: %d bytes are allocated, and for half of the tree %d", tt.name, whole, half)
		}
	}
}

const (
	growDepth    = 5_000
	growSiblings = 20_000
)
