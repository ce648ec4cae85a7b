-- name: AgentExecutionDetail :exec
-- A step with its cycles and tool calls in one statement, in rows of three kinds
-- and in no order, as in PlanTree: a join of cycles and calls would send a cycle
-- with each of its calls. Detail is looked for in the partition that is said only.
WITH asked AS MATERIALIZED (
    SELECT root_plan_id
    FROM actlog.agent_execution_record
    WHERE step_id = @step_id::text
    ORDER BY part DESC, id DESC
    LIMIT 1
)
SELECT
    'agentExecution'::text AS kind, a.part, a.id, a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, a.step_index,
    a.conversation_id, a.agent_name, a.agent_version, a.agent_description, a.agent_request, a.max_steps, a.current_step,
    a.attempt, a.state, a.start_time, a.end_time, a.result, a.error_message, a.error_kind, a.model_name, a.span_id,
    a.metadata, a.truncated, a.completed_cycles, a.model_calls, a.tool_calls, a.failures, a.input_tokens, a.output_tokens,
    a.cache_read_input_tokens, a.cache_creation_input_tokens, a.reasoning_tokens, a.cost_usd, a.think_ms, a.tool_ms,
    a.latest_round, a.latest_tool_name, a.latest_tool_args, NULL::integer AS seq, NULL::timestamptz AS think_start_time,
    NULL::timestamptz AS think_end_time, NULL::timestamptz AS first_token_time, NULL::timestamptz AS act_start_time,
    NULL::timestamptz AS act_end_time, NULL::text AS think_input, NULL::text AS think_output,
    NULL::text AS action_description, NULL::text AS action_result, NULL::text AS finish_reason,
    NULL::bigint AS input_char_count, NULL::bigint AS output_char_count, NULL::text AS provider, NULL::text AS tool_call_id,
    NULL::integer AS call_index, NULL::text AS provider_call_id, NULL::text AS server_name, NULL::text AS name,
    NULL::text AS parameters, NULL::boolean AS inferred
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked) AND a.step_id = @step_id::text
UNION ALL
SELECT
    'thinkAct', NULL, c.id, c.root_plan_id, NULL, c.step_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.attempt,
    c.state, NULL, NULL, NULL, c.error_message, c.error_kind, c.model_name, c.span_id, c.metadata, c.truncated, NULL, NULL,
    NULL, NULL, c.input_tokens, c.output_tokens, c.cache_read_input_tokens, c.cache_creation_input_tokens,
    c.reasoning_tokens, c.cost_usd, NULL, NULL, NULL, NULL, NULL, c.seq, c.think_start_time, c.think_end_time,
    c.first_token_time, c.act_start_time, c.act_end_time, c.think_input, c.think_output, c.action_description,
    c.action_result, c.finish_reason, c.input_char_count, c.output_char_count, c.provider, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL
FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.step_id = @step_id::text AND c.part = @part::date
UNION ALL
SELECT
    'actTool', NULL, t.id, t.root_plan_id, NULL, t.step_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.attempt,
    t.state, t.start_time, t.end_time, t.result, t.error_message, t.error_kind, NULL, t.span_id, t.metadata, t.truncated,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.seq, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.tool_call_id, t.call_index, t.provider_call_id, t.server_name,
    t.name, t.parameters, t.inferred
FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = (SELECT root_plan_id FROM asked) AND t.step_id = @step_id::text AND t.part = @part::date;
