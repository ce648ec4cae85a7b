package store_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// P7: what a write reads does not grow with the record, even if Postgres has planned all statements for
// empty or small tables, as in the first minutes of a new database, and even if the ids of plans, steps and
// calls are the same in every tree.
func TestWritesLookRowsUp(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	for name, write := range map[string]func(t *testing.T, s *store.Store, n int){
		"records": func(t *testing.T, s *store.Store, n int) {
			t.Helper()
			root := fmt.Sprint("root-", n)
			for _, state := range []record.State{record.Running, record.Completed} {
				storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: &state},
					&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: "step", State: &state},
					&record.ThinkAct{RootPlanID: root, StepID: "step", Seq: 0, State: &state},
					&record.ActTool{RootPlanID: root, StepID: "step", Seq: 0, ToolCallID: "call", State: &state})

				storetest.Write(t, s, &record.Plan{
					RootPlanID: root, CurrentPlanID: "sub", ParentPlanID: &root, ToolCallID: new("call"), State: &state,
				},
					&record.AgentExecution{RootPlanID: root, PlanID: "sub", StepID: "sub-step", State: &state})
				storetest.Write(t, s, &record.ThinkAct{RootPlanID: root, StepID: "sub-step", Seq: 0, State: &state})
				storetest.Write(t, s, &record.ActTool{
					RootPlanID: root, StepID: "sub-step", Seq: 0, ToolCallID: "call", State: &state,
				})
			}
		},
		"traces": func(t *testing.T, s *store.Store, n int) {
			t.Helper()
			spans := agentTrace(t, traceID(n))
			half := len(spans) / 2
			writeSpans(t, s, spans[:half]...)
			writeSpans(t, s, spans[half:]...)
		},
		"a plan that names a trace": func(t *testing.T, s *store.Store, n int) {
			t.Helper()
			spans := agentTrace(t, traceID(n))
			writeSpans(t, s, spans[:len(spans)/2]...)
			storetest.Write(t, s, &record.Plan{
				RootPlanID: "p" + traceID(n), CurrentPlanID: "p" + traceID(n), TraceID: new(traceID(n)),
			})
			writeSpans(t, s, spans[len(spans)/2:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const few, times = 50, 4
			reads := func(trees int, analyzed bool) map[string]float64 {
				db := pgtest.Fresh(t)
				s := storetest.OpenURL(t, db.URL, takeTraces)
				storetest.Upkeep(t, s, upkeep.Config{}).Close() // adds partitions
				for n := range trees {
					write(t, s, n)
					if n == 20 && analyzed {
						execSQL(t, db.Pool, "ANALYZE actlog.plan_execution_record, actlog.agent_execution_record, "+
							"actlog.think_act_record, actlog.act_tool_info")
					}
				}

				if err := s.Close(t.Context()); err != nil { // its sessions report what they read
					t.Fatal(err)
				}

				all := map[string]float64{}
				storetest.Until(t, "the sessions have reported", func() bool {
					var busy int
					if err := db.Pool.QueryRow(t.Context(),
						"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "+
							"backend_type = 'client backend'").Scan(&busy); err != nil {
						t.Fatal(err)
					}
					return busy == 0
				})

				rows, _ := db.Pool.Query(t.Context(), `
SELECT t.relname, t.seq_tup_read + COALESCE((SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid), 0)
FROM pg_stat_user_tables AS t`) // which index a statement uses may change at any time
				var table string
				var n float64
				if _, err := pgx.ForEachRow(rows, []any{&table, &n}, func() error { all[table] = n; return nil }); err != nil {
					t.Fatal(err)
				}
				return all
			}

			for _, analyzed := range []bool{false, true} { // Postgres takes its tables for empty, or for small
				once, more := reads(few, analyzed), reads(few*times, analyzed)
				for _, table := range slices.Sorted(maps.Keys(more)) {
					if more[table] > 1.2*times*once[table]+1000 {
						t.Errorf("analyzed %v: %s: %.0f rows read for %d trees, %.0f for %d", analyzed, table, once[table], few,
							more[table], few*times)
					}
				}
			}
		})
	}
}
