package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestOutcomes: what came of the steps of many plans is read in one statement, and so it is of their calls: in order,
// the beginnings of texts, not of other plans of the trees, and of each plan at most so many.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	var statements statementCounter
	s := storetest.Open(t, withTracer(&statements))
	var plans []*record.Plan
	for i := range 5 {
		root := fmt.Sprint("run", i)
		plans = append(plans, &record.Plan{RootPlanID: root, CurrentPlanID: root})
		for _, plan := range []string{root, root + "-sub"} {
			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: plan})
			for _, step := range []int64{1, 0} {
				id := fmt.Sprint(plan, "-", step)
				storetest.Write(t, s, &record.AgentExecution{
					RootPlanID: root, PlanID: plan, StepID: id, StepIndex: &step, Result: new(id + " said so"),
				})
				for _, call := range []int64{1, 0} {
					storetest.Write(t, s, &record.ActTool{
						RootPlanID: root, StepID: id, Seq: 3 - call, ToolCallID: fmt.Sprint(call), CallIndex: &call,
						Result: new("éé of " + id),
					})
				}
			}
		}
	}

	many := &record.Plan{RootPlanID: "many", CurrentPlanID: "many"}
	storetest.Write(t, s, many, &record.AgentExecution{RootPlanID: "many", PlanID: "many", StepID: "many"})
	for i := range int64(store.MaxOutcome) + 2 {
		storetest.Write(t, s, &record.ActTool{
			RootPlanID: "many", StepID: "many", ToolCallID: fmt.Sprintf("%04d", i), CallIndex: &i,
		})
	}

	var steps map[string]store.Outcome[*record.AgentExecution]
	var calls map[string]store.Outcome[*record.ActTool]
	var err error
	if n := statements.count(func() { steps, err = s.StepOutcomes(t.Context(), plans, 6) }); n != 1 || err != nil {
		t.Errorf("the steps of %d plans take %d statements, %v", len(plans), n, err)
	}
	if n := statements.count(func() {
		calls, err = s.CallOutcomes(t.Context(), append(plans, many), 2)
	}); n != 1 || err != nil {
		t.Errorf("the calls of %d plans take %d statements, %v", len(plans), n, err)
	}

	for _, p := range plans {
		var got []string
		for _, step := range steps[p.RootPlanID].Rows {
			got = append(got, step.StepID+" "+*step.Result)
		}
		for _, call := range calls[p.RootPlanID].Rows {
			got = append(got, fmt.Sprint(call.StepID, "/", call.Seq, " ", *call.Result))
		}

		want := strings.ReplaceAll("R-0 R-0,R-1 R-1,R-0/2 éé,R-0/3 éé,R-1/2 éé,R-1/3 éé", "R-", p.RootPlanID+"-")
		if joined := strings.Join(got, ","); joined != want {
			t.Errorf("%s came to\n%s, want\n%s", p.RootPlanID, joined, want)
		}
		if steps[p.RootPlanID].More || calls[p.RootPlanID].More {
			t.Errorf("%s has more", p.RootPlanID)
		}
	}

	if o := calls["many"]; len(o.Rows) != store.MaxOutcome || !o.More || o.Rows[199].ToolCallID != "0199" {
		t.Errorf("of many calls %d are read, more %t", len(o.Rows), o.More)
	}
	if n := statements.count(func() { _, err = s.StepOutcomes(t.Context(), nil, 6) }); n != 0 || err != nil {
		t.Errorf("nothing takes %d statements, %v", n, err)
	}
}
