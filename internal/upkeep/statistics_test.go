package upkeep_test

import (
	"fmt"
	"testing"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/internal/upkeep"
	"github.com/actlog/actlog/record"
)

// P7: tables that have many rows and were never analyzed are analyzed, those with few rows are not.
func TestNewTablesAreAnalyzed(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	changes := []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}, &record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"}}
	for i := range 600 {
		changes = append(changes, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: fmt.Sprint("t", i)})
	}
	storetest.Write(t, s, changes...)
	if err := s.Close(t.Context()); err != nil { // its sessions report what they wrote
		t.Fatal(err)
	}
	s = open(t, pg.URL)
	u := upkeep.Idle(s, upkeep.Config{})
	storetest.Until(t, "the calls are analyzed", func() bool {
		if err := upkeep.AnalyzeNew(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		return storetest.Query[bool](t, s, "SELECT EXISTS (SELECT FROM pg_stat_user_tables WHERE relname LIKE 'act_tool_info%' AND last_analyze IS NOT NULL)")
	})
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM pg_stat_user_tables WHERE relname IN ('plan_execution_record', 'think_act_record_default') AND last_analyze IS NOT NULL"); n != 0 {
		t.Errorf("%d tables with a single row were analyzed", n)
	}
}
