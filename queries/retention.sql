-- name: PlanLive :many
-- Root plans of a period that have not ended: its detail is still in use.
SELECT root_plan_id
FROM actlog.plan_execution_record
WHERE NOT completed AND root_plan_id = current_plan_id AND part >= @from_day::date AND part < @to_day::date
ORDER BY root_plan_id
LIMIT 3;

-- name: PlanOutdated :many
-- Trees that ended and were first seen too long ago, oldest first, from a cursor on.
SELECT root_plan_id, first_seen_at
FROM actlog.plan_execution_record
WHERE root_plan_id = current_plan_id AND completed
    AND first_seen_at < now() - make_interval(days => @keep_days::integer)
    AND (first_seen_at, root_plan_id) > (@after_time::timestamptz, @after_id::text)
ORDER BY first_seen_at, root_plan_id
LIMIT 200;

-- name: PlanRootOf :one
-- The root of the tree that a plan belongs to; itself where it is one.
SELECT root_plan_id
FROM actlog.plan_execution_record
WHERE current_plan_id = @plan_id::text
ORDER BY root_plan_id = current_plan_id DESC, first_seen_at DESC, root_plan_id DESC
LIMIT 1;

-- name: PlanUnseen :many
-- Trees whose live plans gave signs of life and then none for too long, by the
-- clock of the database, from a cursor on. One that waits or pauses on purpose is
-- not dead.
SELECT r.root_plan_id, r.last_seen_at::timestamptz AS last_seen_at
FROM (SELECT DISTINCT p.root_plan_id FROM actlog.plan_execution_record AS p WHERE NOT p.completed AND p.root_plan_id > @after_id::text) AS live
CROSS JOIN LATERAL (
    SELECT live.root_plan_id, max(t.last_seen_at) AS last_seen_at, max(t.beat_at) AS beat_at, bool_or(t.state IN ('WAITING', 'PAUSED')) AS waits
    FROM actlog.plan_execution_record AS t
    WHERE t.root_plan_id = live.root_plan_id AND NOT t.completed
) AS r
WHERE r.beat_at < now() - make_interval(secs => @unseen_seconds::double precision) AND NOT r.waits
ORDER BY r.root_plan_id COLLATE "C"
LIMIT 100;

-- name: PlanUnfinished :many
-- What of trees has not ended: their plans, and the steps, cycles and tool calls
-- that had begun. kind says which; other_id is the plan of a step, and the id of a
-- tool call.
SELECT 'plan'::text AS kind, p.root_plan_id, p.current_plan_id::text AS id, 0::integer AS seq, ''::text AS other_id, NULL::integer AS attempt
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = ANY (@root_plan_ids::text[]) AND NOT p.completed
UNION ALL
SELECT 'agentExecution', a.root_plan_id, a.step_id, 0, a.shown_plan_id, a.attempt
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = ANY (@root_plan_ids::text[]) AND a.status = 'RUNNING'
UNION ALL
SELECT 'thinkAct', c.root_plan_id, c.step_id, c.seq, '', c.attempt
FROM actlog.plan_execution_record AS r
JOIN actlog.think_act_record AS c ON c.root_plan_id = r.root_plan_id AND c.part = r.part AND c.status = 'RUNNING'
WHERE r.root_plan_id = ANY (@root_plan_ids::text[]) AND r.current_plan_id = r.root_plan_id
UNION ALL
SELECT 'actTool', t.root_plan_id, t.step_id, t.seq, t.tool_call_id, t.attempt
FROM actlog.plan_execution_record AS r
JOIN actlog.act_tool_info AS t ON t.root_plan_id = r.root_plan_id AND t.part = r.part AND t.status = 'RUNNING'
WHERE r.root_plan_id = ANY (@root_plan_ids::text[]) AND r.current_plan_id = r.root_plan_id;

-- Deleting trees, under the lock of their roots: no one else writes to them then.

-- name: TreeRoots :many
-- The roots that are there, locked in the order of the writers, and where their detail
-- lies.
SELECT root_plan_id, part
FROM actlog.plan_execution_record
WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND current_plan_id = root_plan_id
ORDER BY root_plan_id
FOR UPDATE;

-- name: TreeDeleteSpans :exec
DELETE FROM actlog.otlp_span AS s
USING actlog.otlp_trace AS t
WHERE t.root_plan_id = ANY (@root_plan_ids::text[]) AND s.trace_id = t.trace_id AND s.part = t.part;

-- name: TreeDeleteTraces :exec
DELETE FROM actlog.otlp_trace WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteActTools :exec
DELETE FROM actlog.act_tool_info WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND part = ANY (@parts::date[]);

-- name: TreeDeleteThinkActs :exec
DELETE FROM actlog.think_act_record WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND part = ANY (@parts::date[]);

-- name: TreeDeleteThoughts :exec
DELETE FROM actlog.thought WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteArtifacts :exec
DELETE FROM actlog.artifact WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteSources :exec
DELETE FROM actlog.source_reference WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteWaits :exec
DELETE FROM actlog.wait_state WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteAgentExecutions :exec
DELETE FROM actlog.agent_execution_record WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeletePlans :exec
DELETE FROM actlog.plan_execution_record WHERE root_plan_id = ANY (@root_plan_ids::text[]);
