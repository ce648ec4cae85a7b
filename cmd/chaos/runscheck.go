//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// audit notes in the database itself who wrote what, and who held the run then. The sessions of a
// worker have its name, which does not change when the process gets another worker id.
const audit = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.worker (worker_id text COLLATE "C" PRIMARY KEY, name text NOT NULL);
CREATE TABLE chaos.written (
	id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL DEFAULT clock_timestamp(), xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	name text NOT NULL, row text NOT NULL, root_plan_id text COLLATE "C" NOT NULL, plan_id text COLLATE "C" NOT NULL, key text NOT NULL, state text NOT NULL, attempt integer, holder text, epoch bigint NOT NULL
);
CREATE FUNCTION chaos.note_worker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO chaos.worker VALUES (NEW.worker_id, COALESCE(current_setting('chaos.worker', true), ''));
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.note_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO chaos.written (name, row, root_plan_id, plan_id, key, state, holder, epoch)
	VALUES (COALESCE(current_setting('chaos.worker', true), ''), 'run', NEW.root_plan_id, NEW.plan_id, COALESCE(OLD.worker_id, ''), CASE WHEN NEW.epoch > OLD.epoch THEN 'CLAIM' WHEN NEW.takeovers > OLD.takeovers THEN 'LOST' WHEN NEW.done THEN 'DONE' ELSE 'PARK' END, NEW.worker_id, NEW.epoch);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.note_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	n jsonb := to_jsonb(NEW);
BEGIN
	-- The end of a sub-plan is also the end of the call that started it, which another worker may hold. A fork gets its
	-- copies before anybody holds it.
	IF n->>'name' LIKE 'agent.%' OR TG_OP = 'INSERT' AND n->>'forked_from' IS NOT NULL THEN
		RETURN NULL;
	END IF;
	INSERT INTO chaos.written (name, row, root_plan_id, plan_id, key, state, attempt, holder, epoch)
	SELECT COALESCE(current_setting('chaos.worker', true), ''), TG_ARGV[0], r.root_plan_id, r.plan_id, COALESCE(n->>'tool_call_id', n->>'step_id' || ' ' || (n->>'seq')), n->>'state', (n->>'attempt')::integer, r.worker_id, r.epoch
	FROM actlog.agent_execution_record AS a JOIN actlog.run AS r ON r.root_plan_id = a.root_plan_id AND r.plan_id = a.shown_plan_id
	WHERE a.root_plan_id = NEW.root_plan_id AND a.step_id = NEW.step_id;
	RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER INSERT ON actlog.worker FOR EACH ROW EXECUTE FUNCTION chaos.note_worker();
CREATE TRIGGER chaos AFTER UPDATE ON actlog.run FOR EACH ROW WHEN (NEW.worker_id IS DISTINCT FROM OLD.worker_id OR NEW.epoch > OLD.epoch) EXECUTE FUNCTION chaos.note_run();
CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON actlog.think_act_record FOR EACH ROW EXECUTE FUNCTION chaos.note_row('cycle');
CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON actlog.act_tool_info FOR EACH ROW EXECUTE FUNCTION chaos.note_row('call');
`

// outline says what a run did, without times, ids, attempts and the judgement of lost calls. Artifacts and thoughts are
// a part of it. What was asked in an attempt of a call that was stopped before it began is not: the next asks again.
func (h *house) outline(ctx context.Context, r *oneRun) (string, error) {
	type node struct{ parent, key, line string }

	const sql = `
		SELECT COALESCE(tool_call_id, ''), current_plan_id, 'plan ' || COALESCE(name, '') || ' ' || state || ' ' || COALESCE(summary, error_message, '') FROM actlog.plan_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT plan_id, thought_id, 'thought ' || COALESCE(iteration, 0) || ' ' || type || ' ' || regexp_replace(COALESCE(content, ''), 'took [0-9.]+s', 'took a while') FROM actlog.thought WHERE root_plan_id = $1
		UNION ALL SELECT plan_id, name, 'artifact ' || name || ' ' || COALESCE(value::text, '') FROM actlog.artifact WHERE root_plan_id = $1
		UNION ALL SELECT shown_plan_id, step_id, 'step ' || COALESCE(step_index, -1) || ' ' || state || ' ' || COALESCE(result, '') FROM actlog.agent_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT step_id, step_id || ' ' || seq, 'cycle ' || seq || ' ' || state FROM actlog.think_act_record WHERE root_plan_id = $1
		UNION ALL SELECT step_id || ' ' || seq, tool_call_id, 'call ' || COALESCE(call_index, -1) || ' ' || COALESCE(name, '') || ' ' || state || ' ' || COALESCE(parameters, '') || chr(1) || COALESCE(result, '') FROM actlog.act_tool_info WHERE root_plan_id = $1
		UNION ALL SELECT COALESCE(tool_call_id, plan_id), wait_id, 'wait ' || COALESCE(type, '') || ' ' || state FROM actlog.wait_state AS w WHERE root_plan_id = $1 AND state <> 'CANCELLED' AND COALESCE(subject->'decisions', 'null')::text NOT LIKE '%retry%'
			AND NOT EXISTS (SELECT FROM actlog.act_tool_info AS t, jsonb_array_elements(t.attempts) AS a WHERE t.root_plan_id = w.root_plan_id AND t.tool_call_id = w.tool_call_id
				AND a.value->>'state' = 'CANCELLED' AND (a.value->>'endTime')::timestamptz >= w.start_time)`

	rows, err := h.db.Query(ctx, sql, r.planID)
	if err != nil {
		return "", err
	}

	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n node, err error) {
		err = row.Scan(&n.parent, &n.key, &n.line)
		return n, err
	})
	if err != nil {
		return "", err
	}

	var write func(parent, indent string) []string
	write = func(parent, indent string) []string {
		var blocks []string
		for _, n := range nodes {
			if n.parent == parent {
				blocks = append(blocks, strings.Join(append([]string{indent + known(n.line)}, write(n.key, indent+" ")...), "\n"))
			}
		}
		slices.Sort(blocks)
		return blocks
	}

	all := strings.Join(write("", ""), "\n")
	if r.kind.callsOnly {
		all = onlyCalls(all)
	}
	names := []string{r.planID, "ROOT", r.about, aboutPlace}
	if r.of != nil { // which its copies name
		names = append(names, r.of.planID, "ROOT")
	}
	return strings.NewReplacer(names...).Replace(all), nil
}

// onlyCalls returns the lines of an outline that are calls of tools with effects.
func onlyCalls(outline string) string {
	var calls []string
	for line := range strings.Lines(outline) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "call" &&
			strings.HasPrefix(words[2], toolServer+"-") {
			calls = append(calls, line)
		}
	}
	return strings.Join(calls, "")
}

// known returns the line of a call as it would be if the call had not got lost.
func known(line string) string {
	what, result, isCall := strings.Cut(line, "\x01")
	words := strings.SplitN(what, " ", 5)
	if !isCall || len(words) < 5 {
		return line
	}

	name := strings.TrimPrefix(words[2], toolServer+"-")
	if wanted := meant(name, words[4], result); wanted != result {
		result, words[3] = wanted, "COMPLETED"
	}
	return strings.Join(words, " ") + " " + result
}

// check compares all runs with the undisturbed ones, the calls with the effects, and the writes with the
// leases. It returns the rows of a report.
func (h *house) check(ctx context.Context) (rows [][2]any, err error) {
	if err := h.checkExits(); err != nil {
		return nil, err
	}

	same := 0
	for _, r := range h.runs {
		if r.planID == "" {
			h.violated("the run with key %s was never started", r.key)
			continue
		}

		got, err := h.outline(ctx, r)
		if err != nil {
			return nil, err
		}
		switch {
		case r.state != "COMPLETED":
			h.violated("plan %s of %s is %q: %s", r.planID, r.kind.name, r.state, r.result)
		case got != h.want[r.kind.name]:
			h.violated("plan %s of %s came to another end:\n%s", r.planID, r.kind.name, differences(h.want[r.kind.name], got))
		default:
			same++
		}
	}

	doubled, lost, unknown, effectCount, err := h.checkEffects(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.checkWrites(ctx); err != nil {
		return nil, err
	}
	if err := h.checkRest(ctx); err != nil {
		return nil, err
	}

	taken, err := h.recoveries(ctx)
	if err != nil {
		return nil, err
	}
	var takeovers, subPlans, waits, attempts int
	if err := h.db.QueryRow(ctx, `SELECT (SELECT sum(takeovers) FROM actlog.run), (SELECT count(*) FROM actlog.run WHERE parent_plan_id IS NOT NULL),
		(SELECT count(*) FROM actlog.wait_state), (SELECT count(*) FROM actlog.think_act_record WHERE attempt > 1)`).Scan(&takeovers, &subPlans, &waits, &attempts); err != nil {
		return nil, err
	}

	rounded := func(q float64) time.Duration { return quantile(taken, q).Round(time.Millisecond) }
	median, p95 := rounded(0.5), rounded(0.95)
	longest := rounded(1)
	if !h.config.relaxed && (median > takenOverMedian || longest > takenOverIn) {
		h.violated("runs of a killed worker went on after %s (median) and %s (the slowest)", median, longest)
	}

	rows = [][2]any{
		{"runs", len(h.runs)}, {"as undisturbed", same}, {"sub-plans", subPlans}, {"waits", waits},
		{"takeovers", takeovers}, {"model calls repeated", attempts},
		{"effects", effectCount}, {"UNKNOWN", unknown}, {"effects doubled", doubled}, {"effects lost", lost},
		{"started again", h.startedAgn}, {"decided again", h.conflicts}, {"paused and resumed", h.resumed},
		{"stopped and retried", h.retried},
	}

	if len(h.kills) > 0 && !h.config.relaxed { // which has other faults before the runs go on
		rows = append(rows, [][2]any{
			{"taken over", fmt.Sprintf("%d runs after %d plain kills", len(taken), len(h.kills))},
			{"taken over p50", median}, {"taken over p95", p95}, {"taken over max", longest},
		}...)
	}
	return rows, nil
}

// checkExits checks that workers exited by themselves only when they started while Postgres was away.
func (h *house) checkExits() error {
	for _, w := range h.workers {
		log, err := os.ReadFile(w.logFile)
		if err != nil {
			return fmt.Errorf("read why workers exited: %w", err)
		}

		exits := w.unexpected()
		if away := strings.Count(string(log), "actlog: open the record: record unavailable: "); len(exits) > away {
			h.violated("%s, and %d more times; %d times it found no Postgres at its start", exits[0], len(exits)-1, away)
		}
	}
	return nil
}

// differences returns the lines that are only in one of two texts.
func differences(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	only := func(sign string, these, others []string) {
		left := map[string]int{}
		for _, line := range others {
			left[line]++
		}
		for _, line := range these {
			if left[line]--; left[line] < 0 {
				out = append(out, sign+line)
			}
		}
	}

	only("- ", w, g)
	only("+ ", g, w)
	return strings.Join(out, "\n")
}

// quantile returns a quantile of times. It sorts them.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// checkEffects compares the calls on record with what the tools did.
func (h *house) checkEffects(ctx context.Context) (doubled, lost, unknown, count int, err error) {
	did, err := readEffects(h.effects)
	if err != nil {
		return 0, 0, 0, 0, err
	}

	for _, c := range did {
		count += c.begins
	}

	type call struct {
		ID, Plan, Name, State, Result string
		Attempt, Retried, Unknown     int
		Copied                        bool
	}

	rows, err := h.db.Query(ctx, `SELECT t.tool_call_id, t.root_plan_id, substr(t.name, $1), t.state, COALESCE(t.result, ''), COALESCE(t.attempt, 1),
			(SELECT count(*) FROM actlog.wait_state AS w WHERE w.root_plan_id = t.root_plan_id AND w.tool_call_id = t.tool_call_id AND w.decision = 'retry'),
			(SELECT count(DISTINCT COALESCE(w.attempt, 1)) FROM chaos.written AS w WHERE w.row = 'call' AND w.key = t.tool_call_id AND w.state = 'UNKNOWN'),
			t.forked_from IS NOT NULL
		FROM actlog.act_tool_info AS t WHERE t.name LIKE $2`, len(toolServer)+2, toolServer+"-%")
	if err != nil {
		return 0, 0, 0, 0, err
	}

	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[call])
	if err != nil {
		return 0, 0, 0, 0, err
	}

	onRecord := map[string]bool{}
	for _, c := range all {
		onRecord[c.ID] = true
		e := did[c.ID]
		if e == nil {
			e = new(calls)
		}
		unknown += c.Unknown

		limit := 1
		switch c.Name {
		case toolAgain:
			limit = c.Attempt
		case toolJudge:
			limit = 1 + c.Retried
		}
		if c.State == "SKIPPED" || c.Copied {
			limit = 0
		}

		if e.begins > limit {
			doubled++
			h.violated("plan %s: call %s of %s, %s in attempt %d, was made %d times", c.Plan, c.ID, c.Name, c.State, c.Attempt,
				e.begins)
		}
		if c.State == "COMPLETED" && !c.Copied && !strings.HasPrefix(c.Result, confirmedResult) && e.ends == 0 {
			lost++
			h.violated("plan %s: call %s of %s is COMPLETED, but had no effect", c.Plan, c.ID, c.Name)
		}
	}

	for id, e := range did {
		if !onRecord[id] {
			lost++
			h.violated("call %s of %s had an effect, but is not on record", id, e.tool)
		}
	}
	return doubled, lost, unknown, count, nil
}

// none checks that a query finds nothing. The message has a place for what it finds.
func (h *house) none(ctx context.Context, message, query string) error {
	rows, err := h.db.Query(ctx, query)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	for _, each := range found[:min(len(found), 5)] {
		h.violated(message+" (%d in all)", each, len(found))
	}
	return nil
}

// checkWrites checks that only who held a run wrote to it, and that no claim, and no call that had
// ended, came twice.
func (h *house) checkWrites(ctx context.Context) error {
	for what, query := range map[string]string{
		"was written by a worker that did not hold it": `SELECT p.plan_id || ' (' || p.row || ' ' || p.key || ' ' || p.state || ' by ' || p.name || ' at ' || p.at || ')'
			FROM chaos.written AS p LEFT JOIN chaos.worker AS w ON w.worker_id = p.holder
			WHERE p.row <> 'run' AND p.name <> '' AND p.name IS DISTINCT FROM w.name AND NOT EXISTS (
				SELECT FROM chaos.written AS o JOIN chaos.worker AS was ON was.worker_id = o.key
				WHERE o.xid = p.xid AND o.row = 'run' AND was.name = p.name
					AND (o.plan_id = p.plan_id OR o.root_plan_id = p.root_plan_id AND o.state = 'DONE'))`, // who ends a run also ends those below it
		"was written without a claim": `SELECT p.plan_id || ' (' || p.row || ' ' || p.key || ' ' || p.state || ')'
			FROM chaos.written AS p WHERE p.row <> 'run' AND p.name = '' AND p.state = 'RUNNING' AND NOT (p.row = 'cycle' AND p.attempt > 1)`, /* of a retry */
		"has a call that was begun again after its end": `SELECT p.plan_id || ' (' || p.key || ')' FROM chaos.written AS p
			WHERE p.row = 'call' AND p.state = 'RUNNING' AND EXISTS (SELECT FROM chaos.written AS o WHERE o.row = 'call' AND o.key = p.key AND o.id < p.id AND o.state IN ('COMPLETED', 'FAILED', 'SKIPPED'))`,
		"was claimed twice under one epoch": `SELECT plan_id || ' (epoch ' || epoch || ')' FROM chaos.written WHERE row = 'run' AND state = 'CLAIM' GROUP BY plan_id, epoch HAVING count(*) > 1`,
	} {
		if err := h.none(ctx, "plan %s "+what, query); err != nil {
			return err
		}
	}
	return nil
}

// checkRest checks that nothing is open.
func (h *house) checkRest(ctx context.Context) error {
	for what, query := range map[string]string{
		"open run":                        `SELECT plan_id FROM actlog.run WHERE NOT done`,
		"run that a worker holds":         `SELECT plan_id FROM actlog.run WHERE worker_id IS NOT NULL`,
		"open wait":                       `SELECT plan_id || ' ' || wait_id FROM actlog.wait_state WHERE state = 'WAITING'`,
		"key that started more than once": `SELECT idempotency_key FROM actlog.run WHERE idempotency_key IS NOT NULL GROUP BY 1 HAVING count(*) > 1`,
		"call with two sub-plans":         `SELECT root_plan_id || ' ' || tool_call_id FROM actlog.plan_execution_record WHERE tool_call_id IS NOT NULL GROUP BY root_plan_id, tool_call_id HAVING count(*) > 1`,
		"row that is live in an ended run": `SELECT e.current_plan_id || ': ' || x.what FROM actlog.run AS r
			JOIN actlog.plan_execution_record AS e ON e.root_plan_id = r.root_plan_id AND e.current_plan_id = r.root_plan_id
			CROSS JOIN LATERAL (
				SELECT 'plan ' || p.current_plan_id FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = r.root_plan_id AND NOT p.completed
				UNION ALL SELECT 'step ' || a.step_id FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = r.root_plan_id AND a.status <> 'FINISHED'
				UNION ALL SELECT 'cycle ' || c.step_id || ' ' || c.seq FROM actlog.think_act_record AS c WHERE c.root_plan_id = r.root_plan_id
					AND (c.status <> 'FINISHED' OR c.state = 'FAILED' AND (c.error_kind IS NULL OR c.error_message IS NULL))
				UNION ALL SELECT 'call ' || t.tool_call_id FROM actlog.act_tool_info AS t WHERE t.root_plan_id = r.root_plan_id AND t.status <> 'FINISHED'
			) AS x (what)
			WHERE r.done AND r.plan_id = r.root_plan_id`,
		"plan that did not end": `SELECT current_plan_id FROM actlog.plan_execution_record WHERE executor IS NOT NULL AND current_plan_id IN (SELECT plan_id FROM actlog.run) AND state <> 'COMPLETED'`,
	} {
		if err := h.none(ctx, what+": %s", query); err != nil {
			return err
		}
	}

	var roots int
	if err := h.db.QueryRow(ctx, `SELECT count(*) FROM actlog.run WHERE parent_plan_id IS NULL`).Scan(&roots); err != nil {
		return err
	}
	if roots != len(h.runs) {
		h.violated("%d runs were started, and %d are on record", len(h.runs), roots)
	}
	return nil
}

// recoveries returns how long the runs of killed workers took to go on: until the first write of the
// worker that took each over.
func (h *house) recoveries(ctx context.Context) (taken []time.Duration, err error) {
	for _, kill := range h.kills {
		for plan, epoch := range kill.held {
			var at *time.Time
			var takenOver bool
			if err := h.db.QueryRow(ctx, `SELECT (SELECT min(at) FROM chaos.written WHERE plan_id = $1 AND epoch > $2 AND at > $3 AND (row <> 'run' OR state NOT IN ('CLAIM', 'LOST'))),
				NOT EXISTS (SELECT FROM chaos.written WHERE plan_id = $1 AND epoch = $2 AND row = 'run' AND state NOT IN ('CLAIM', 'LOST'))`, plan, epoch, kill.at).Scan(&at, &takenOver); err != nil {
				return nil, err
			}

			if at != nil && takenOver {
				taken = append(taken, at.Sub(kill.at))
			}
		}
	}
	return taken, nil
}

// refusals returns how often Postgres refused the write of a worker that did not hold the run, as its log says.
func refusals(log string) (int, error) {
	content, err := os.ReadFile(log)
	if err != nil {
		return 0, fmt.Errorf("count the refused writes: %w", err)
	}
	return strings.Count(string(content), "actlog: the run has ended, or another worker holds it"), nil
}
