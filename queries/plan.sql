-- name: PlanLock :many
-- Locks the root plans that are there, in the order of the writers.
SELECT root_plan_id
FROM actlog.plan_execution_record
WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND current_plan_id = root_plan_id
ORDER BY root_plan_id
FOR NO KEY UPDATE;

-- name: PlanTree :many
-- Everything that the hierarchy of a plan needs, in one statement, flat: a row a
-- plan with the tool call that started it, and a row an agent execution with its
-- roll-ups. The plan that was asked for also carries the open wait of its root
-- and, when completed, the last tool result.
WITH asked AS MATERIALIZED (
    SELECT root_plan_id, current_plan_id
    FROM actlog.plan_execution_record
    WHERE current_plan_id = @plan_id::text
    ORDER BY first_seen_at DESC, root_plan_id DESC
    LIMIT 1
),
plan AS (
    SELECT
        p.id, p.root_plan_id, p.current_plan_id, p.parent_plan_id, p.tool_call_id, p.parent_step_id, p.executor,
        p.name, p.title, p.user_request, p.project, p.user_id, p.tags, p.environment, p.release, p.conversation_id,
        p.trace_id, p.state, p.start_time, p.end_time, p.summary, p.model_name, p.error_message, p.error_kind,
        p.metadata, p.last_seen_at, p.truncated,
        (p.exception IS NOT NULL AND p.exception_served_at IS NULL AND p.state <> 'COMPLETED'
            AND p.exception_at > now() - INTERVAL '10 minutes') AS exception_waits,
        t.id AS t_id, t.step_id AS t_step_id, t.seq AS t_seq, t.tool_call_id AS t_tool_call_id, t.call_index AS t_call_index,
        t.provider_call_id AS t_provider_call_id, t.server_name AS t_server_name, t.name AS t_name,
        t.parameters AS t_parameters, t.result AS t_result, t.state AS t_state, t.attempt AS t_attempt, t.error_message AS t_error_message,
        t.error_kind AS t_error_kind, t.start_time AS t_start_time, t.end_time AS t_end_time, t.span_id AS t_span_id,
        t.inferred AS t_inferred, t.metadata AS t_metadata, t.truncated AS t_truncated,
        w.plan_id AS w_plan_id, w.wait_id AS w_wait_id, w.type AS w_type, w.title AS w_title,
        w.form_description AS w_form_description, w.form_inputs AS w_form_inputs,
        last.result AS structure_result
    FROM asked
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = asked.root_plan_id
    LEFT JOIN LATERAL (
        SELECT c.*
        FROM actlog.act_tool_info AS c
        JOIN actlog.agent_execution_record AS s ON s.root_plan_id = c.root_plan_id AND s.step_id = c.step_id
        WHERE c.root_plan_id = p.root_plan_id AND c.tool_call_id = p.tool_call_id AND c.part = p.part
        ORDER BY s.start_time NULLS LAST, s.step_id, c.seq
        LIMIT 1
    ) AS t ON p.tool_call_id IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT x.*
        FROM actlog.wait_state AS x
        WHERE x.root_plan_id = p.root_plan_id AND x.state = 'WAITING'
        ORDER BY COALESCE(x.type, 'USER_INPUT') <> 'USER_INPUT', x.start_time NULLS LAST, x.plan_id, x.wait_id
        LIMIT 1
    ) AS w ON p.current_plan_id = asked.current_plan_id AND NOT p.completed
    LEFT JOIN LATERAL (
        SELECT c.result
        FROM (
            SELECT s.step_id
            FROM actlog.agent_execution_record AS s
            WHERE s.root_plan_id = p.root_plan_id AND s.shown_plan_id = p.current_plan_id
            ORDER BY s.step_index DESC NULLS FIRST, s.start_time DESC NULLS FIRST, s.step_id DESC
            LIMIT 1
        ) AS step
        CROSS JOIN LATERAL (
            SELECT y.seq
            FROM actlog.think_act_record AS y
            WHERE y.root_plan_id = p.root_plan_id AND y.step_id = step.step_id AND y.part = p.part
            ORDER BY y.seq DESC
            LIMIT 1
        ) AS cycle
        CROSS JOIN LATERAL (
            SELECT z.result
            FROM actlog.act_tool_info AS z
            WHERE z.root_plan_id = p.root_plan_id AND z.step_id = step.step_id AND z.seq = cycle.seq AND z.part = p.part
            ORDER BY z.call_index DESC NULLS FIRST, z.start_time DESC NULLS FIRST, z.tool_call_id DESC
            LIMIT 1
        ) AS c
    ) AS last ON p.current_plan_id = asked.current_plan_id AND p.completed
),
agent AS (
    SELECT a.*
    FROM asked
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = asked.root_plan_id
)
SELECT
    p.id AS plan_row, COALESCE(p.root_plan_id, '')::text AS root_plan_id, COALESCE(p.current_plan_id, '')::text AS current_plan_id,
    p.parent_plan_id, p.tool_call_id,
    p.parent_step_id, p.executor, p.name, p.title, p.user_request, p.project, p.user_id, p.tags, p.environment, p.release,
    p.conversation_id, p.trace_id, p.state, p.start_time, p.end_time, p.summary, p.model_name, p.error_message,
    p.error_kind, p.metadata, p.last_seen_at, p.truncated, COALESCE(p.exception_waits, false)::boolean AS exception_waits,
    p.t_id, p.t_step_id, p.t_seq, p.t_tool_call_id, p.t_call_index, p.t_provider_call_id, p.t_server_name, p.t_name,
    p.t_parameters, p.t_result, p.t_state, p.t_attempt, p.t_error_message, p.t_error_kind, p.t_start_time, p.t_end_time,
    p.t_span_id, p.t_inferred, p.t_metadata, p.t_truncated,
    p.w_plan_id, p.w_wait_id, p.w_type, p.w_title, p.w_form_description, p.w_form_inputs, p.structure_result,
    a.id AS agent_row, COALESCE(a.step_id, '')::text AS a_step_id, COALESCE(a.shown_plan_id, '')::text AS a_plan_id, a.step_index AS a_step_index,
    a.conversation_id AS a_conversation_id, a.agent_name AS a_agent_name, a.agent_version AS a_agent_version,
    a.agent_description AS a_agent_description, a.agent_request AS a_agent_request, a.max_steps AS a_max_steps,
    a.current_step AS a_current_step, a.attempt AS a_attempt, a.state AS a_state, a.start_time AS a_start_time,
    a.end_time AS a_end_time, a.result AS a_result, a.error_message AS a_error_message, a.error_kind AS a_error_kind,
    a.model_name AS a_model_name, a.span_id AS a_span_id, a.metadata AS a_metadata, a.truncated AS a_truncated,
    a.cycles AS a_cycles, a.completed_cycles AS a_completed_cycles, a.model_calls AS a_model_calls,
    a.tool_calls AS a_tool_calls, a.failures AS a_failures, a.input_tokens AS a_input_tokens,
    a.output_tokens AS a_output_tokens, a.cache_read_input_tokens AS a_cache_read_input_tokens,
    a.cache_creation_input_tokens AS a_cache_creation_input_tokens, a.reasoning_tokens AS a_reasoning_tokens,
    a.cost_usd AS a_cost_usd, a.think_ms AS a_think_ms, a.tool_ms AS a_tool_ms,
    a.latest_round AS a_latest_round, a.latest_tool_name AS a_latest_tool_name, a.latest_tool_args AS a_latest_tool_args
FROM plan AS p
FULL JOIN agent AS a ON false;

-- name: PlanExceptionServe :one
-- Takes the waiting exception of a plan: one reader gets it, whatever the server.
UPDATE actlog.plan_execution_record
SET exception_served_at = now()
WHERE root_plan_id = @root_plan_id AND current_plan_id = @current_plan_id
    AND exception_served_at IS NULL AND state <> 'COMPLETED' AND exception_at > now() - INTERVAL '10 minutes'
RETURNING COALESCE(exception, '')::text AS exception;

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
