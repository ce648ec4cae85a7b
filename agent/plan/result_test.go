package plan_test

import (
	"fmt"
	"testing"

	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/record"
)

// A35: operations by tool, operation and success; thoughts by type, iteration and the last ones; counts.
func TestQueries(t *testing.T) {
	t.Parallel()
	o := plan.Operations{
		{Tool: "files", Operation: "read", Success: true}, {Tool: "git", Operation: "read"},
		{Tool: "files", Operation: "write"},
	}
	thought := func(iteration int64, kind record.ThoughtType) plan.Thought {
		return plan.Thought{Iteration: &iteration, Type: &kind}
	}
	l := plan.Thoughts{
		thought(0, record.ThoughtAnalysis), thought(1, record.ThoughtAction), thought(1, record.ThoughtObservation), {},
	}

	got := fmt.Sprint(
		len(o), len(o.ByTool("files")), len(o.ByOperation("read")), len(o.BySuccess(true)), len(o.BySuccess(false)),
		len(o.ByTool("files").BySuccess(false)), o.ByTool("x") == nil,
		len(l), len(l.ByType(record.ThoughtAction)), len(l.ByIteration(1)), len(l.ByIteration(-1)), len(l.Last(2)),
		*l.Last(3)[0].Iteration, len(l.Last(9)), len(l.Last(-1)),
	)
	if want := "3 2 2 1 2 1 false 4 1 2 0 2 1 4 0"; got != want {
		t.Errorf("fmt.Sprint = %s, want %s", got, want)
	}
}
