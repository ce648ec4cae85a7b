package upkeep_test

import (
	"testing"

	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestForgetEvents: events are kept for a day; one that a run which waits may still take, until it has taken it.
func TestForgetEvents(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL)
	u := storetest.Upkeep(t, s, upkeep.Config{})
	for _, statement := range []string{
		`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part)
			SELECT 'r' || n, 'r' || n, DATE '2026-01-05' FROM generate_series(1, 2) AS n`,
		`INSERT INTO actlog.run (root_plan_id, plan_id, executor, needs, input, owner)
			SELECT 'r' || n, 'r' || n, 'agent', '{}', '{}', '' FROM generate_series(1, 2) AS n`,
		`INSERT INTO actlog.event (project, key, data, sent_by, sent_at, woken)
			SELECT 'default', k, to_json(k || h), '', now() - h * INTERVAL '1 hour', 0
			FROM unnest('{a,b,c}'::text[]) AS k, unnest('{50,30,20}'::int[]) AS h`,
		`INSERT INTO actlog.event_wait (root_plan_id, plan_id, tool_call_id, project, key, since, until) VALUES
			('r1', 'r1', 't1', 'default', 'a', now() - INTERVAL '60 hours', NULL),
			('r2', 'r2', 't2', 'default', 'b', now() - INTERVAL '20 hours', NULL),
			('r2', 'r2', 't3', 'other', 'c', now() - INTERVAL '60 hours', NULL)`,
	} {
		storetest.Exec(t, s, statement)
	}

	kept := func(want string) {
		t.Helper()
		if err := u.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := storetest.Query[string](t, s,
			"SELECT string_agg(data #>> '{}', ' ' ORDER BY data #>> '{}') FROM actlog.event"); got != want {
			t.Errorf("kept are %s, want %s", got, want)
		}
	}
	kept("a20 a50 b20 b30 c20") // a run waits for a50, and another one began to wait 10 hours after b30
	storetest.Exec(t, s, `INSERT INTO actlog.event_taken (root_plan_id, event_id, plan_id, tool_call_id, attempt)
		SELECT 'r1', event_id, 'r1', 't1', 1 FROM actlog.event WHERE data #>> '{}' = 'a50'`)
	storetest.Exec(t, s, "DELETE FROM actlog.event_wait")
	kept("a20 b20 c20")
}
