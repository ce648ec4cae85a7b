package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// A35: operations by tool, by operation, successful, failed and counted; thoughts by type and iteration.
func TestReportOperation(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	changes := []record.Change{
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", Executor: new("plan"), State: new(record.Completed), StartTime: &at,
		},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: new("QA"), State: new(record.Completed), StartTime: &at,
		},
		&record.Thought{
			RootPlanID: "p", PlanID: "p", ThoughtID: "a", Iteration: new(int64(0)), Type: new(record.ThoughtAnalysis), Time: &at,
		},
		&record.Thought{
			RootPlanID: "p", PlanID: "p", ThoughtID: "b", Iteration: new(int64(1)), Type: new(record.ThoughtAction), Time: &at,
		},
	}

	for i, name := range []string{"files.read_file", "files.edit_file", "docs-find_all"} {
		state := record.Completed
		if i == 1 {
			state = record.Failed
		}

		call := &record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: int64(i + 1), ToolCallID: name, Name: &name, State: &state, StartTime: &at,
			EndTime: &at,
		}
		if i == 2 {
			call.ServerName = new("docs")
		}
		changes = append(changes, &record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: int64(i + 1), State: new(record.Completed),
		}, call)
	}

	storetest.Write(t, s, changes...)
	got := storetest.Lines(t, db.Pool,
		"SELECT concat_ws(' ', iteration, role, tool_name, operation, success, duration_seconds) FROM report.operation "+
			"WHERE plan_id = $1 ORDER BY iteration", "p")
	if diff := cmp.Diff([]string{"1 QA files read_file t 0", "2 QA files edit_file f 0", "3 QA docs find_all t 0"},
		got); diff != "" {
		t.Errorf("storetest.Lines (-want +got):\n%s", diff)
	}

	got = storetest.Lines(t, db.Pool,
		"SELECT concat_ws(' ', iteration, type) FROM report.thought WHERE plan_id = $1 ORDER BY iteration", "p")
	if diff := cmp.Diff([]string{"0 analysis", "1 action"}, got); diff != "" {
		t.Errorf("storetest.Lines (-want +got):\n%s", diff)
	}
}
