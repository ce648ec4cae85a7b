-- name: AgentExecutionDetail :many
-- A step with its cycles and tool calls in one joined statement: a row a tool
-- call, or a cycle without one. The large texts of a cycle stand in its first row
-- only.
WITH asked AS MATERIALIZED (
    SELECT *
    FROM actlog.agent_execution_record
    WHERE step_id = @step_id::text
    ORDER BY part DESC, id DESC
    LIMIT 1
),
detail AS (
    SELECT
        c.*, t.id AS t_id, t.tool_call_id AS t_tool_call_id, t.call_index AS t_call_index,
        t.provider_call_id AS t_provider_call_id, t.server_name AS t_server_name, t.name AS t_name,
        t.parameters AS t_parameters, t.result AS t_result, t.state AS t_state, t.attempt AS t_attempt,
        t.error_message AS t_error_message, t.error_kind AS t_error_kind, t.start_time AS t_start_time,
        t.end_time AS t_end_time, t.span_id AS t_span_id, t.inferred AS t_inferred, t.metadata AS t_metadata,
        t.truncated AS t_truncated,
        row_number() OVER (PARTITION BY c.seq ORDER BY t.call_index NULLS LAST, t.start_time NULLS LAST, t.tool_call_id) AS nth
    FROM asked
    JOIN actlog.think_act_record AS c
        ON c.root_plan_id = asked.root_plan_id AND c.step_id = asked.step_id AND c.part = asked.part
    LEFT JOIN actlog.act_tool_info AS t
        ON t.root_plan_id = c.root_plan_id AND t.step_id = c.step_id AND t.seq = c.seq AND t.part = c.part
)
SELECT
    a.id AS agent_row, a.root_plan_id, a.step_id, a.shown_plan_id AS plan_id, a.step_index, a.conversation_id, a.agent_name,
    a.agent_version, a.agent_description, a.agent_request, a.max_steps, a.current_step, a.attempt, a.state, a.start_time,
    a.end_time, a.result, a.error_message, a.error_kind, a.model_name, a.span_id, a.metadata, a.truncated,
    a.cycles, a.completed_cycles, a.model_calls, a.tool_calls, a.failures, a.input_tokens, a.output_tokens,
    a.cache_read_input_tokens, a.cache_creation_input_tokens, a.reasoning_tokens, a.cost_usd,
    a.think_ms, a.tool_ms, a.latest_round, a.latest_tool_name, a.latest_tool_args,
    d.id AS cycle_row, d.seq AS c_seq, d.think_start_time AS c_think_start_time,
    d.think_end_time AS c_think_end_time, d.first_token_time AS c_first_token_time,
    d.act_start_time AS c_act_start_time, d.act_end_time AS c_act_end_time,
    CASE WHEN d.nth = 1 THEN d.think_input END AS c_think_input,
    CASE WHEN d.nth = 1 THEN d.think_output END AS c_think_output,
    CASE WHEN d.nth = 1 THEN d.action_description END AS c_action_description,
    CASE WHEN d.nth = 1 THEN d.action_result END AS c_action_result, d.state AS c_state,
    d.finish_reason AS c_finish_reason, CASE WHEN d.nth = 1 THEN d.error_message END AS c_error_message,
    d.error_kind AS c_error_kind, d.input_char_count AS c_input_char_count,
    d.output_char_count AS c_output_char_count, d.provider AS c_provider, d.model_name AS c_model_name,
    d.input_tokens AS c_input_tokens, d.output_tokens AS c_output_tokens,
    d.cache_read_input_tokens AS c_cache_read_input_tokens,
    d.cache_creation_input_tokens AS c_cache_creation_input_tokens, d.reasoning_tokens AS c_reasoning_tokens,
    d.cost_usd AS c_cost_usd, d.attempt AS c_attempt, d.span_id AS c_span_id,
    CASE WHEN d.nth = 1 THEN d.metadata END AS c_metadata, d.truncated AS c_truncated, d.t_id, d.t_tool_call_id,
    d.t_call_index, d.t_provider_call_id, d.t_server_name, d.t_name, d.t_parameters, d.t_result, d.t_state,
    d.t_attempt, d.t_error_message, d.t_error_kind, d.t_start_time, d.t_end_time, d.t_span_id, d.t_inferred,
    d.t_metadata, d.t_truncated
FROM asked AS a
LEFT JOIN detail AS d ON true
ORDER BY d.seq, d.nth;

-- name: AgentExecutionLock :exec
-- Locks steps in the order of their key. Who rolls a step up has to have it locked
-- from before it looks at its cycles and tool calls, or two writers miss each
-- other's.
SELECT 1
FROM unnest(@root_plan_ids::text[], @step_ids::text[]) AS u (root_plan_id, step_id)
JOIN actlog.agent_execution_record AS a ON a.root_plan_id = u.root_plan_id AND a.step_id = u.step_id
ORDER BY a.root_plan_id, a.step_id
FOR NO KEY UPDATE OF a;

-- name: AgentExecutionRollUp :exec
-- Recomputes the figures of steps from the small columns of their cycles and
-- tool calls: the same in any order, whatever was written when.
UPDATE actlog.agent_execution_record AS a
SET cycles = f.cycles,
    completed_cycles = f.completed_cycles,
    model_calls = f.model_calls,
    tool_calls = f.tool_calls,
    failures = f.failures,
    input_tokens = f.input_tokens,
    output_tokens = f.output_tokens,
    cache_read_input_tokens = f.cache_read_input_tokens,
    cache_creation_input_tokens = f.cache_creation_input_tokens,
    reasoning_tokens = f.reasoning_tokens,
    cost_usd = f.cost_usd,
    think_ms = f.think_ms,
    tool_ms = f.tool_ms,
    latest_round = f.latest_round,
    latest_tool_name = f.latest_tool_name,
    latest_tool_args = f.latest_tool_args,
    last_seen_at = f.last_seen_at
FROM (
    SELECT
        s.root_plan_id, s.step_id,
        c.cycles, c.completed_cycles, c.model_calls, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
        c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.think_ms, c.latest_round,
        t.tool_calls, t.tool_ms, c.failures + t.failures AS failures,
        GREATEST(c.last_seen_at, t.last_seen_at) AS last_seen_at,
        l.name AS latest_tool_name, l.args AS latest_tool_args
    FROM unnest(@root_plan_ids::text[], @step_ids::text[]) AS u (root_plan_id, step_id)
    -- What was rolled up before the detail of a period was dropped stays.
    JOIN actlog.agent_execution_record AS s ON s.root_plan_id = u.root_plan_id AND s.step_id = u.step_id
        AND s.part >= COALESCE((
            SELECT d.to_day FROM actlog.dropped_detail AS d WHERE d.from_day <= s.part ORDER BY d.from_day DESC LIMIT 1
        ), '-infinity')
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS cycles,
            count(*) FILTER (WHERE x.status = 'FINISHED') AS completed_cycles,
            count(*) FILTER (WHERE COALESCE(x.think_start_time, x.think_end_time) IS NOT NULL
                OR COALESCE(x.input_char_count, x.output_char_count, x.input_tokens, x.output_tokens) IS NOT NULL
                OR x.model_name IS NOT NULL) AS model_calls,
            count(*) FILTER (WHERE x.state = 'FAILED') AS failures,
            sum(x.input_tokens) AS input_tokens,
            sum(x.output_tokens) AS output_tokens,
            sum(x.cache_read_input_tokens) AS cache_read_input_tokens,
            sum(x.cache_creation_input_tokens) AS cache_creation_input_tokens,
            sum(x.reasoning_tokens) AS reasoning_tokens,
            sum(x.cost_usd) AS cost_usd,
            sum(GREATEST(0, round(1000 * extract(epoch FROM x.think_end_time - x.think_start_time))))::bigint AS think_ms,
            COALESCE(max(x.seq) + 1, 0) AS latest_round,
            GREATEST(max(x.think_start_time), max(x.think_end_time), max(x.first_token_time), max(x.act_start_time), max(x.act_end_time)) AS last_seen_at
        FROM actlog.think_act_record AS x
        WHERE x.root_plan_id = s.root_plan_id AND x.step_id = s.step_id AND x.part = s.part
    ) AS c
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS tool_calls,
            count(*) FILTER (WHERE x.state = 'FAILED') AS failures,
            sum(GREATEST(0, round(1000 * extract(epoch FROM x.end_time - x.start_time))))::bigint AS tool_ms,
            GREATEST(max(x.start_time), max(x.end_time)) AS last_seen_at
        FROM actlog.act_tool_info AS x
        WHERE x.root_plan_id = s.root_plan_id AND x.step_id = s.step_id AND x.part = s.part
    ) AS t
    LEFT JOIN LATERAL (
        SELECT x.name, left(x.parameters, 1000) AS args
        FROM actlog.act_tool_info AS x
        WHERE x.root_plan_id = s.root_plan_id AND x.step_id = s.step_id AND x.part = s.part
        ORDER BY x.seq DESC, x.call_index DESC NULLS FIRST, x.start_time DESC NULLS FIRST, x.tool_call_id DESC
        LIMIT 1
    ) AS l ON true
) AS f
WHERE a.root_plan_id = f.root_plan_id AND a.step_id = f.step_id
    AND (a.cycles, a.completed_cycles, a.model_calls, a.tool_calls, a.failures, a.input_tokens, a.output_tokens,
        a.cache_read_input_tokens, a.cache_creation_input_tokens, a.reasoning_tokens, a.cost_usd, a.think_ms, a.tool_ms,
        a.latest_round, a.latest_tool_name, a.latest_tool_args, a.last_seen_at)
        IS DISTINCT FROM
        (f.cycles, f.completed_cycles, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens,
        f.cache_read_input_tokens, f.cache_creation_input_tokens, f.reasoning_tokens, f.cost_usd, f.think_ms, f.tool_ms,
        f.latest_round, f.latest_tool_name, f.latest_tool_args, f.last_seen_at);
