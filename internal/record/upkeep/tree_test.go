package upkeep_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestKeepDays checks which trees are deleted: those that have ended and are old, several batches
// of them, but none that is locked.
func TestKeepDays(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	var changes []record.Change
	for i := range 450 { // several batches
		root := fmt.Sprintf("old-%03d", i)
		changes = append(changes, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)},
			&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "t"})
	}
	storetest.Write(t, s, changes...)

	for _, root := range []string{"full", "busy", "young", "dropped"} {
		storetest.WriteTree(t, s, root, record.Completed)
	}
	storetest.WriteTree(t, s, "live", record.Running)
	storetest.Age(t, s, storetest.OldMonday, "dropped")
	dropDetail(t, s)

	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '31 days' WHERE "+
		"root_plan_id <> 'young'")
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '29 days' WHERE "+
		"root_plan_id = 'young'")
	storetest.Exec(t, s, "DELETE FROM actlog.change")

	writer, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(),
		"UPDATE actlog.agent_execution_record SET agent_name = 'held' WHERE step_id = 'busy-a'"); err != nil {
		t.Fatal(err)
	}

	roots := func() []string {
		return storetest.Lines(t, pg.Pool,
			"SELECT root_plan_id FROM actlog.plan_execution_record WHERE root_plan_id = current_plan_id ORDER BY 1")
	}
	keeper := idle(t, s)
	keep := func() {
		if err := upkeep.DeleteOutdated(keeper, t.Context(), 30); err != nil {
			t.Fatal(err)
		}
	}

	keep()
	if diff := cmp.Diff([]string{"busy", "live", "young"}, roots()); diff != "" {
		t.Errorf("with a locked tree (-want +got):\n%s", diff)
	}
	if err := writer.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep()
	if diff := cmp.Diff([]string{"live", "young"}, roots()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for _, table := range storetest.TreeTables {
		if n := storetest.Query[int](t, s,
			"SELECT count(*) FROM actlog."+table+" WHERE root_plan_id NOT IN ('live', 'young')"); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	if n := storetest.Query[int](t, s, "SELECT count(DISTINCT root_plan_id) FROM actlog.change"); n != 453 {
		t.Errorf("the feed has changes of %d trees", n)
	}
}
