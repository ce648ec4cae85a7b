package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// E13, E14: the report of nodes says which of them keep others from beginning: those that failed, and those that are
// under way. Metadata that others wrote break nothing.
func TestReportNode(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	changes := []record.Change{
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", Executor: new("dag"), State: new(record.Running), StartTime: &at,
			Project: new("shop"),
		},
		&record.Plan{
			RootPlanID: "other", CurrentPlanID: "other", Executor: new("plan"), State: new(record.Running), StartTime: &at,
		},
		&record.AgentExecution{
			RootPlanID: "other", PlanID: "other", StepID: "x", State: new(record.Running), StartTime: &at,
			Metadata: json.RawMessage(`{"node":"x","below":1}`),
		},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "planner", State: new(record.Completed), StartTime: &at, EndTime: &at,
		},
	}

	for _, n := range []struct {
		id       string
		state    record.State
		metadata string
	}{
		{"a", record.Completed, `{"node":"a","wave":1,"below":4}`}, {"b", record.Failed, `{"node":"b","wave":2,"below":2}`},
		{"c", record.Running, `{"node":"c","wave":2,"below":1}`}, {"d", record.Blocked, `{"node":"d","below":1}`},
		{"e", record.Running, `{"node":"e","wave":"soon","below":"99999999999999"}`},
	} {
		st := &record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: n.id, AgentName: &n.id, State: &n.state,
			Metadata: json.RawMessage(n.metadata), ModelName: new("default"),
		}
		if n.state != record.Blocked {
			st.StartTime = &at
		}
		if n.state == record.Completed || n.state == record.Failed {
			st.EndTime = new(at.Add(2 * time.Second))
		}
		changes = append(changes, st)
	}

	storetest.Write(t, s, changes...)
	got := storetest.Lines(t, db.Pool,
		`SELECT concat_ws(' ', node, COALESCE(wave::text, '-'), state, below, 'blocks', blocks, duration_seconds, model, project)
		FROM report.node WHERE plan_id = $1 ORDER BY node`, "p")

	if diff := cmp.Diff([]string{
		"a 1 COMPLETED 4 blocks 0 2 default shop", "b 2 FAILED 2 blocks 2 2 default shop",
		"c 2 RUNNING 1 blocks 1 default shop",
		"d - BLOCKED 1 blocks 0 default shop", "e - RUNNING blocks default shop",
	}, got); diff != "" {
		t.Errorf("storetest.Lines (-want +got):\n%s", diff)
	}
	if got := storetest.Lines(t, db.Pool, "SELECT plan_id FROM report.node WHERE plan_id <> $1", "p"); len(got) > 0 {
		t.Errorf("storetest.Lines = %q", got)
	}
}
