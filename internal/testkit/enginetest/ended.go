package enginetest

import (
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// live finds what no ended run may have: a plan, a step, a cycle, a tool call or a wait that has not ended, a run below
// it that has not, and a cycle that failed without a reason.
const live = `
	WITH RECURSIVE ended AS (
		SELECT r.root_plan_id, r.plan_id FROM actlog.run AS r WHERE r.done
		UNION
		SELECT p.root_plan_id, p.current_plan_id
		FROM ended AS e JOIN actlog.plan_execution_record AS p ON p.root_plan_id = e.root_plan_id AND p.parent_plan_id = e.plan_id
	),
	step AS (SELECT a.* FROM actlog.agent_execution_record AS a JOIN ended AS e ON e.root_plan_id = a.root_plan_id AND e.plan_id = a.shown_plan_id)
	SELECT 'run ' || r.plan_id || ' goes on' FROM actlog.run AS r JOIN ended AS e USING (root_plan_id, plan_id) WHERE NOT r.done
	UNION ALL
	SELECT 'plan ' || p.current_plan_id || ' is ' || p.state
	FROM actlog.plan_execution_record AS p JOIN ended AS e ON e.root_plan_id = p.root_plan_id AND e.plan_id = p.current_plan_id WHERE NOT p.completed
	UNION ALL
	SELECT 'step ' || s.step_id || ' is ' || s.state FROM step AS s WHERE s.status <> 'FINISHED'
	UNION ALL
	SELECT 'cycle ' || c.seq || ' of step ' || c.step_id || ' is ' || c.state
	FROM actlog.think_act_record AS c JOIN step AS s ON s.root_plan_id = c.root_plan_id AND s.step_id = c.step_id WHERE c.status <> 'FINISHED'
	UNION ALL
	SELECT 'cycle ' || c.seq || ' of step ' || c.step_id || ' failed, and does not say why'
	FROM actlog.think_act_record AS c JOIN step AS s ON s.root_plan_id = c.root_plan_id AND s.step_id = c.step_id
	WHERE c.state = 'FAILED' AND (c.error_kind IS NULL OR c.error_message IS NULL)
	UNION ALL
	SELECT 'call ' || t.call_index || ' of cycle ' || t.seq || ' of step ' || t.step_id || ', ' || t.name || ', is ' || t.state
	FROM actlog.act_tool_info AS t JOIN step AS s ON s.root_plan_id = t.root_plan_id AND s.step_id = t.step_id WHERE t.status <> 'FINISHED'
	UNION ALL
	SELECT 'wait ' || w.wait_id || ' is open'
	FROM actlog.wait_state AS w JOIN ended AS e ON e.root_plan_id = w.root_plan_id AND e.plan_id = w.plan_id WHERE w.state = 'WAITING'`

// CheckEnded checks that nothing is live in the runs of a store that have ended, however they ended.
func CheckEnded(t testing.TB, s *store.Store) {
	t.Helper()
	for _, what := range storetest.Query[[]string](t, s,
		"SELECT COALESCE(array_agg(found.what), '{}') FROM ("+live+") AS found (what)") {
		t.Errorf("in a run that has ended, %s", what)
	}
}
