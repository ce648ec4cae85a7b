-- name: InterruptedAny :exec
-- Reports whether any of some trees is marked.
SELECT EXISTS (SELECT FROM actlog.interrupted AS i WHERE i.root_plan_id = ANY (@root_plan_ids::text[])) AS marked;

-- name: InterruptedSave :many
-- Saves what a mark is about to replace in trees: the states, error kinds and ends of live plans,
-- and of the steps, cycles and tool calls that had begun. It returns these rows. other_id is the
-- plan of a step. The arrays go in pairs: a root plan, and the end that its tree is given. Rows that
-- only a trace made are left out: the trace closes them.
WITH dead AS MATERIALIZED (
    SELECT u.root_plan_id, u.end_time, r.part
    FROM unnest(@root_plan_ids::text[], @end_times::timestamptz[]) AS u (root_plan_id, end_time)
    JOIN actlog.plan_execution_record AS r ON r.root_plan_id = u.root_plan_id AND r.current_plan_id = u.root_plan_id
),
unfinished AS MATERIALIZED (
    SELECT 'plan'::text AS kind, p.root_plan_id, ''::text AS step_id, 0 AS seq, p.current_plan_id AS id, ''::text AS other_id,
        NULL::integer AS attempt, p.told_state, p.error_kind, p.end_time, dead.end_time AS marked_end
    FROM dead
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = dead.root_plan_id AND NOT p.completed
        AND (p.origin <> 'otlp' OR p.revs IS NOT NULL)
    UNION ALL
    SELECT 'agentExecution', a.root_plan_id, a.step_id, 0, '', a.shown_plan_id, a.attempt, a.told_state, a.error_kind, a.end_time, dead.end_time
    FROM dead
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = dead.root_plan_id AND a.status = 'RUNNING'
        AND (a.origin <> 'otlp' OR a.revs IS NOT NULL)
    UNION ALL
    SELECT 'thinkAct', c.root_plan_id, c.step_id, c.seq, '', '', c.attempt, c.told_state, c.error_kind, NULL, NULL
    FROM dead
    JOIN actlog.think_act_record AS c ON c.root_plan_id = dead.root_plan_id AND c.part = dead.part AND c.status = 'RUNNING'
        AND (c.origin <> 'otlp' OR c.revs IS NOT NULL)
    UNION ALL
    SELECT 'actTool', t.root_plan_id, t.step_id, t.seq, t.tool_call_id, '', t.attempt, t.told_state, t.error_kind, t.end_time, dead.end_time
    FROM dead
    JOIN actlog.act_tool_info AS t ON t.root_plan_id = dead.root_plan_id AND t.part = dead.part AND t.status = 'RUNNING'
        AND (t.origin <> 'otlp' OR t.revs IS NOT NULL)
),
saved AS (
    INSERT INTO actlog.interrupted AS i (root_plan_id, kind, step_id, seq, id, attempt, told_state, error_kind, end_time, marked_end)
    SELECT u.root_plan_id, u.kind, u.step_id, u.seq, u.id, u.attempt, u.told_state, u.error_kind, u.end_time, u.marked_end
    FROM unfinished AS u
    ON CONFLICT (root_plan_id, kind, step_id, seq, id) DO UPDATE SET
        attempt = excluded.attempt, told_state = excluded.told_state, error_kind = excluded.error_kind, end_time = excluded.end_time, marked_end = excluded.marked_end
)
SELECT u.kind, u.root_plan_id, u.step_id, u.seq, u.id, u.other_id, u.attempt FROM unfinished AS u;

-- name: InterruptedUndo :exec
-- Puts back what marks replaced: in whole trees, whose silence begins now, and in single rows,
-- which have ended. What was written to a row since stays; what the mark hid has to be written
-- again. It returns the steps of which cycles or tool calls changed; their roll-ups have to follow.
-- The step is empty if a tree has none. The caller holds the root plans.
WITH ended AS MATERIALIZED (
    SELECT *
    FROM unnest(@ended_roots::text[], @kinds::text[], @step_ids::text[], @seqs::bigint[], @ids::text[], @attempts::bigint[])
        AS u (root_plan_id, kind, step_id, seq, id, attempt)
),
gone AS MATERIALIZED (
    DELETE FROM actlog.interrupted AS i
    WHERE i.root_plan_id = ANY (@root_plan_ids::text[])
        OR i.root_plan_id = ANY (@ended_roots::text[])
            AND (i.root_plan_id, i.kind, i.step_id, i.seq, i.id, COALESCE(i.attempt, 1)) IN (SELECT * FROM ended)
    RETURNING *
),
detail AS MATERIALIZED (
    SELECT gone.*, r.part
    FROM gone
    JOIN actlog.plan_execution_record AS r ON r.root_plan_id = gone.root_plan_id AND r.current_plan_id = gone.root_plan_id
    WHERE gone.kind IN ('thinkAct', 'actTool')
),
plans AS (
    UPDATE actlog.plan_execution_record AS p
    SET told_state = CASE WHEN p.told_state = 'INTERRUPTED' THEN gone.told_state ELSE p.told_state END,
        error_kind = CASE WHEN p.error_kind = 'not_seen' THEN gone.error_kind ELSE p.error_kind END,
        end_time = CASE WHEN p.end_time = gone.marked_end THEN gone.end_time ELSE p.end_time END,
        beat_at = CASE WHEN p.beat_at IS NOT NULL THEN now() END
    FROM gone
    WHERE gone.kind = 'plan' AND p.root_plan_id = gone.root_plan_id AND p.current_plan_id = gone.id
),
steps AS (
    UPDATE actlog.agent_execution_record AS a
    SET told_state = CASE WHEN a.told_state = 'INTERRUPTED' THEN gone.told_state ELSE a.told_state END,
        error_kind = CASE WHEN a.error_kind = 'not_seen' THEN gone.error_kind ELSE a.error_kind END,
        end_time = CASE WHEN a.end_time = gone.marked_end THEN gone.end_time ELSE a.end_time END
    FROM gone
    WHERE gone.kind = 'agentExecution' AND a.root_plan_id = gone.root_plan_id AND a.step_id = gone.step_id
),
cycles AS (
    UPDATE actlog.think_act_record AS c
    SET told_state = CASE WHEN c.told_state = 'INTERRUPTED' THEN d.told_state ELSE c.told_state END,
        error_kind = CASE WHEN c.error_kind = 'not_seen' THEN d.error_kind ELSE c.error_kind END
    FROM detail AS d
    WHERE d.kind = 'thinkAct' AND c.root_plan_id = d.root_plan_id AND c.step_id = d.step_id AND c.seq = d.seq AND c.part = d.part
),
calls AS (
    UPDATE actlog.act_tool_info AS t
    SET told_state = CASE WHEN t.told_state = 'INTERRUPTED' THEN d.told_state ELSE t.told_state END,
        error_kind = CASE WHEN t.error_kind = 'not_seen' THEN d.error_kind ELSE t.error_kind END,
        end_time = CASE WHEN t.end_time = d.marked_end THEN d.end_time ELSE t.end_time END
    FROM detail AS d
    WHERE d.kind = 'actTool' AND t.root_plan_id = d.root_plan_id AND t.step_id = d.step_id AND t.seq = d.seq
        AND t.tool_call_id = d.id AND t.part = d.part
)
SELECT DISTINCT gone.root_plan_id, gone.step_id FROM gone;
