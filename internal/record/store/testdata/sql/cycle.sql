SELECT 'thinkAct'::text AS kind,
    t.id, t.root_plan_id, t.step_id, t.seq, t.think_start_time, t.think_end_time, t.first_token_time,
    t.act_start_time, t.act_end_time,
    CASE WHEN t.think_input_parts IS NOT NULL AND starts_with(t.think_input, 'actlog:content:') THEN actlog.text_of(t.root_plan_id, t.part, t.think_input_parts) ELSE t.think_input END,
    t.think_output, t.action_description, t.action_result, t.state, t.finish_reason, t.error_message, t.error_kind,
    t.input_char_count, t.output_char_count, t.provider, t.model_name, t.input_tokens, t.output_tokens,
    t.cache_read_input_tokens, t.cache_creation_input_tokens, t.reasoning_tokens, t.cost_usd, t.attempt, t.span_id,
    t.metadata, t.response_id, t.message, t.cache_creation_1h_input_tokens, t.fallback_from, t.messages,
    t.forked_from, t.truncated, t.attempts, NULL::integer, NULL::boolean
FROM actlog.think_act_record AS t
WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.seq = $3::bigint AND t.part = (SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = $1::text AND p.current_plan_id = $1::text)
UNION ALL
SELECT 'thinkAct'::text AS kind,
    NULL, t.root_plan_id, t.step_id, t.seq, NULL, NULL, NULL, NULL, NULL,
    CASE WHEN t.think_input_parts IS NOT NULL AND starts_with(t.think_input, 'actlog:content:') THEN actlog.text_of(t.root_plan_id, t.part, t.think_input_parts) ELSE t.think_input END,
    t.think_output, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, t.message, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM actlog.think_act_record AS t
WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.part = (SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = $1::text AND p.current_plan_id = $1::text)
    AND t.seq = (SELECT max(t.seq) FROM actlog.think_act_record AS t WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.seq < $3::bigint AND t.part = (SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = $1::text AND p.current_plan_id = $1::text))
UNION ALL
SELECT 'actTool'::text AS kind,
    t.id, t.root_plan_id, t.step_id, t.seq, t.start_time, t.end_time, NULL, NULL, NULL, t.tool_call_id,
    t.provider_call_id, t.server_name, t.name, left(t.parameters, 2001), left(t.result, 2001), t.state,
    left(t.error_message, 2001), NULL, NULL, t.error_kind, t.span_id, NULL, NULL, NULL, NULL, NULL, NULL,
    t.call_index, t.forked_from, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.attempts, t.attempt, t.inferred
FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.seq = $3::bigint AND t.part = (SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = $1::text AND p.current_plan_id = $1::text)
