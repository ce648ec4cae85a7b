package main

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestShowLeftBehind: what goes on in a run that has ended is shown as left behind, in a tree and in a step.
func TestShowLeftBehind(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	running := new(record.Running)
	for root, state := range map[string]record.State{"ended": record.Failed, "live": record.Running} {
		storetest.Write(t, s,
			&record.Plan{RootPlanID: root, CurrentPlanID: root, State: &state},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-s", AgentName: new("clerk"), State: running},
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", Seq: 0, State: running},
			&record.ActTool{RootPlanID: root, StepID: root + "-s", Seq: 0, ToolCallID: "c", Name: new("fetch"), State: running},
			&record.Plan{
				RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new("c"), Title: new("Sub"),
				State: running,
			},
		)
	}

	for root, want := range map[string]string{"ended": "LEFT_BEHIND", "live": "RUNNING"} {
		tree := must(t, "show", root, "--server", url)
		for _, row := range []string{"clerk  ", "Sub  "} {
			if !strings.Contains(tree, row+want) {
				t.Errorf("no %q in\n%s", row+want, tree)
			}
		}

		step := must(t, "show", root, "--step", root+"-s", "--server", url)
		if n := strings.Count(step, want); n != 3 || want != "RUNNING" && strings.Contains(step, "RUNNING") {
			t.Errorf("the step, its cycle and its call are %s %d times in\n%s", want, n, step)
		}
	}
}
