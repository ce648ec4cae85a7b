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
