-- name: PlanLock :many
-- Locks the root plans that are there, in the order of the writers.
SELECT root_plan_id
FROM actlog.plan_execution_record
WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND current_plan_id = root_plan_id
ORDER BY root_plan_id
FOR NO KEY UPDATE;

-- name: PlanHold :exec
-- As PlanLock, for root plans that are taken to be there, in a partition. Where one is
-- not, it fails, dividing by zero.
WITH held AS MATERIALIZED (
    SELECT root_plan_id
    FROM actlog.plan_execution_record
    WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND current_plan_id = root_plan_id AND part = @part::date
    ORDER BY root_plan_id
    FOR NO KEY UPDATE
)
SELECT 1 / (count(*) = cardinality(@root_plan_ids::text[]))::integer -- by zero: a wrong guess where plans are, the same is written anew
FROM held;

-- name: PlanNew :many
-- Which root plans this transaction has put on record, and where their detail lies.
SELECT root_plan_id, part
FROM actlog.plan_execution_record
WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND current_plan_id = root_plan_id AND first_seen_at = now();

-- name: PlanTree :exec
-- Everything that the hierarchy of a plan needs, in one statement, flat: its
-- plans, its agent executions with their roll-ups, the tool calls that started
-- sub-plans, and the open waits. A row tells of which kind it is, and has the
-- columns of that kind; kinds share columns by name. The plan that was asked for
-- also carries the last tool result when it is completed. Calls are looked for in
-- the partition that is said only: as a parameter, it keeps the others from being
-- so much as opened. Whoever asks compares it with that of the plans.
WITH asked AS MATERIALIZED (
    SELECT root_plan_id, completed
    FROM actlog.plan_execution_record
    WHERE current_plan_id = @plan_id::text
    ORDER BY first_seen_at DESC, root_plan_id DESC
    LIMIT 1
)
SELECT
    'plan'::text AS kind, p.part, p.id, p.root_plan_id, p.current_plan_id, p.parent_plan_id, p.tool_call_id,
    p.parent_step_id, p.executor, p.name, p.title, p.user_request, p.project, p.user_id, p.tags, p.environment, p.release,
    p.conversation_id, p.trace_id, p.state, p.start_time, p.end_time, p.summary, p.model_name, p.error_message,
    p.error_kind, p.metadata, p.last_seen_at, p.truncated,
    p.exception IS NOT NULL AND p.exception_served_at IS NULL AND p.state <> 'COMPLETED' AND p.exception_at > now() - INTERVAL '10 minutes' AS exception_waits,
    CASE WHEN p.completed AND p.current_plan_id = @plan_id::text THEN (
        SELECT z.result
        FROM (
            SELECT s.step_id, s.latest_round
            FROM actlog.agent_execution_record AS s
            WHERE s.root_plan_id = p.root_plan_id AND s.shown_plan_id = p.current_plan_id
            ORDER BY s.step_index DESC NULLS FIRST, s.start_time DESC NULLS FIRST, s.step_id DESC
            LIMIT 1
        ) AS step
        JOIN actlog.act_tool_info AS z ON z.root_plan_id = p.root_plan_id AND z.step_id = step.step_id AND z.seq = step.latest_round - 1
        WHERE z.part = @part::date
        ORDER BY z.call_index DESC NULLS FIRST, z.start_time DESC NULLS FIRST, z.tool_call_id DESC
        LIMIT 1
    ) END AS structure_result,
    NULL::text AS plan_id, NULL::text AS step_id, NULL::integer AS step_index, NULL::text AS agent_name,
    NULL::text AS agent_version, NULL::text AS agent_description, NULL::text AS agent_request, NULL::integer AS max_steps,
    NULL::integer AS current_step, NULL::integer AS attempt, NULL::text AS result, NULL::text AS span_id,
    NULL::integer AS completed_cycles, NULL::integer AS model_calls, NULL::integer AS tool_calls, NULL::integer AS failures,
    NULL::bigint AS input_tokens, NULL::bigint AS output_tokens, NULL::bigint AS cache_read_input_tokens,
    NULL::bigint AS cache_creation_input_tokens, NULL::bigint AS reasoning_tokens, NULL::numeric AS cost_usd,
    NULL::bigint AS think_ms, NULL::bigint AS tool_ms, NULL::integer AS latest_round, NULL::text AS latest_tool_name,
    NULL::text AS latest_tool_args, NULL::integer AS seq, NULL::integer AS call_index, NULL::text AS provider_call_id,
    NULL::text AS server_name, NULL::text AS parameters, NULL::boolean AS inferred, NULL::text AS wait_id,
    NULL::text AS type, NULL::text AS form_description, NULL::json AS form_inputs
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT
    'agentExecution', NULL, a.id, a.root_plan_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, a.conversation_id, NULL, a.state, a.start_time, a.end_time, NULL, a.model_name, a.error_message, a.error_kind,
    a.metadata, NULL, a.truncated, NULL, NULL, a.shown_plan_id AS plan_id, a.step_id, a.step_index, a.agent_name,
    a.agent_version, a.agent_description, a.agent_request, a.max_steps, a.current_step, a.attempt, a.result, a.span_id,
    a.completed_cycles, a.model_calls, a.tool_calls, a.failures, a.input_tokens, a.output_tokens, a.cache_read_input_tokens,
    a.cache_creation_input_tokens, a.reasoning_tokens, a.cost_usd, a.think_ms, a.tool_ms, a.latest_round,
    a.latest_tool_name, a.latest_tool_args, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT
    'actTool', NULL, t.id, t.root_plan_id, NULL, NULL, t.tool_call_id, NULL, NULL, t.name, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, t.state, t.start_time, t.end_time, NULL, NULL, t.error_message, t.error_kind, t.metadata, NULL,
    t.truncated, NULL, NULL, NULL, t.step_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.attempt, t.result, t.span_id,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.seq, t.call_index,
    t.provider_call_id, t.server_name, t.parameters, t.inferred, NULL, NULL, NULL, NULL
FROM actlog.plan_execution_record AS p
CROSS JOIN LATERAL (
    SELECT *
    FROM actlog.act_tool_info AS c
    WHERE c.root_plan_id = p.root_plan_id AND c.tool_call_id = p.tool_call_id AND c.part = @part::date
    OFFSET 0 -- or a plan made while the table was small goes through all calls of the tree
) AS t
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT
    'wait', NULL, NULL, w.root_plan_id, NULL, NULL, NULL, NULL, NULL, NULL, w.title, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, w.start_time, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, w.plan_id, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, w.wait_id, w.type, w.form_description, w.form_inputs
FROM actlog.wait_state AS w
WHERE w.root_plan_id = (SELECT root_plan_id FROM asked WHERE NOT completed) AND w.state = 'WAITING';

-- name: PlanExceptionServe :one
-- Takes the waiting exception of a plan: one reader gets it, whatever the server.
-- Whoever writes to a row tells the feed, or what others wrote to it before would be
-- found under no transaction of theirs.
WITH served AS (
    UPDATE actlog.plan_execution_record
    SET exception_served_at = now()
    WHERE root_plan_id = @root_plan_id::text AND current_plan_id = @current_plan_id::text
        AND exception_served_at IS NULL AND state <> 'COMPLETED' AND exception_at > now() - INTERVAL '10 minutes'
    RETURNING root_plan_id, COALESCE(exception, '')::text AS exception
),
told AS (
    INSERT INTO actlog.change (root_plan_id, kinds) SELECT root_plan_id, '{plan}' FROM served
)
SELECT exception FROM served;

-- name: PlanList :many
-- Root plans, newest first, from a cursor on; texts of megabytes are no matter of
-- a list. Wants a plan of its own for the
-- filters at hand: see Store.Plans.
SELECT
    p.id, p.root_plan_id, p.first_seen_at, p.executor, p.name, CASE WHEN octet_length(p.title) > 1000 THEN left(p.title, 1000) ELSE p.title END AS title, p.project, p.user_id, p.tags,
    p.environment, p.release, p.conversation_id, p.trace_id, p.state, p.start_time, p.end_time, p.model_name,
    CASE WHEN octet_length(p.error_message) > 1000 THEN left(p.error_message, 1000) ELSE p.error_message END AS error_message, p.error_kind, p.last_seen_at, p.truncated,
    f.steps, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens, f.cache_read_input_tokens,
    f.cache_creation_input_tokens, f.reasoning_tokens, f.cost_usd, f.think_ms, f.tool_ms
FROM (
    -- What is cheap to tell stands first.
    SELECT x.*
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = x.current_plan_id
        AND (x.first_seen_at, x.root_plan_id) < (@before_time::timestamptz, @before_id::text)
        AND (sqlc.narg('state')::text IS NULL OR x.state = sqlc.narg('state')::text)
        AND (sqlc.narg('project')::text IS NULL OR COALESCE(x.project, 'default') = sqlc.narg('project')::text)
        AND (sqlc.narg('name')::text IS NULL OR x.name = sqlc.narg('name')::text)
        AND (sqlc.narg('user_id')::text IS NULL OR x.user_id = sqlc.narg('user_id')::text)
        AND (sqlc.narg('conversation_id')::text IS NULL OR x.conversation_id = sqlc.narg('conversation_id')::text)
        AND (sqlc.narg('since')::timestamptz IS NULL OR COALESCE(x.start_time, x.first_seen_at) >= sqlc.narg('since')::timestamptz)
        AND (sqlc.narg('until')::timestamptz IS NULL OR COALESCE(x.start_time, x.first_seen_at) < sqlc.narg('until')::timestamptz)
        AND (sqlc.narg('tag')::text IS NULL OR x.tags @> ARRAY[sqlc.narg('tag')::text])
        AND (sqlc.narg('agent')::text IS NULL OR EXISTS (
            SELECT FROM actlog.agent_execution_record AS a
            WHERE a.root_plan_id = x.root_plan_id AND a.agent_name = sqlc.narg('agent')::text
        ))
        AND (sqlc.narg('pattern')::text IS NULL OR x.title ILIKE sqlc.narg('pattern')::text
            OR x.user_request ILIKE sqlc.narg('pattern')::text OR x.summary ILIKE sqlc.narg('pattern')::text)
    ORDER BY x.first_seen_at DESC, x.root_plan_id DESC
    LIMIT @page_size::integer
) AS p
CROSS JOIN LATERAL (
    SELECT
        count(*)::bigint AS steps,
        COALESCE(sum(a.model_calls), 0)::bigint AS model_calls,
        COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.failures), 0)::bigint AS failures,
        COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens,
        COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens,
        COALESCE(sum(a.cache_read_input_tokens), 0)::bigint AS cache_read_input_tokens,
        COALESCE(sum(a.cache_creation_input_tokens), 0)::bigint AS cache_creation_input_tokens,
        COALESCE(sum(a.reasoning_tokens), 0)::bigint AS reasoning_tokens,
        sum(a.cost_usd) AS cost_usd,
        COALESCE(sum(a.think_ms), 0)::bigint AS think_ms,
        COALESCE(sum(a.tool_ms), 0)::bigint AS tool_ms
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id
) AS f
ORDER BY p.first_seen_at DESC, p.root_plan_id DESC;

-- name: PlanHome :one
-- Where the tree of a plan is. Where one id stands under several roots, the newest.
SELECT root_plan_id, part
FROM actlog.plan_execution_record
WHERE current_plan_id = @plan_id::text
ORDER BY first_seen_at DESC, root_plan_id DESC
LIMIT 1;

-- name: PlanPlace :one
-- The root of the tree that a plan belongs to, and the plan's state.
SELECT root_plan_id, state
FROM actlog.plan_execution_record
WHERE current_plan_id = @plan_id::text
ORDER BY first_seen_at DESC, root_plan_id DESC
LIMIT 1;

-- name: PlanGlance :many
-- Root plans with the figures of their whole trees, without texts: those that are
-- named, and so many of the newest that are live.
WITH live AS MATERIALIZED ( -- all of them: an order would lead through those that are not
    SELECT x.root_plan_id, x.first_seen_at
    FROM actlog.plan_execution_record AS x
    WHERE NOT x.completed AND x.current_plan_id = x.root_plan_id AND @live::integer > 0
),
asked AS MATERIALIZED (
    SELECT u.id AS root_plan_id
    FROM unnest(@root_plan_ids::text[]) AS u (id)
    UNION ALL
    (
        SELECT l.root_plan_id
        FROM live AS l
        ORDER BY l.first_seen_at DESC, l.root_plan_id DESC
        LIMIT @live::integer
    )
)
SELECT
    p.root_plan_id, p.name, p.project, p.state, p.start_time, p.end_time, p.last_seen_at, p.error_kind,
    f.steps, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens, f.cache_read_input_tokens,
    f.cache_creation_input_tokens, f.reasoning_tokens, f.cost_usd, f.think_ms, f.tool_ms
FROM asked
CROSS JOIN LATERAL ( -- by the key, one by one
    SELECT x.*
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = asked.root_plan_id AND x.current_plan_id = asked.root_plan_id
    LIMIT 1
) AS p
CROSS JOIN LATERAL (
    SELECT
        count(*)::bigint AS steps,
        COALESCE(sum(a.model_calls), 0)::bigint AS model_calls,
        COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.failures), 0)::bigint AS failures,
        COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens,
        COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens,
        COALESCE(sum(a.cache_read_input_tokens), 0)::bigint AS cache_read_input_tokens,
        COALESCE(sum(a.cache_creation_input_tokens), 0)::bigint AS cache_creation_input_tokens,
        COALESCE(sum(a.reasoning_tokens), 0)::bigint AS reasoning_tokens,
        sum(a.cost_usd) AS cost_usd,
        COALESCE(sum(a.think_ms), 0)::bigint AS think_ms,
        COALESCE(sum(a.tool_ms), 0)::bigint AS tool_ms
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id
) AS f
ORDER BY p.first_seen_at, p.root_plan_id;
