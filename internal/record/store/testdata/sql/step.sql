WITH asked AS MATERIALIZED (
    SELECT found.roots[1] AS root_plan_id, found.roots[2:] AS also_under
    FROM (
        SELECT ARRAY(
            SELECT x.root_plan_id
            FROM actlog.agent_execution_record AS x
            WHERE x.step_id = $1::text AND ($3::text IS NULL OR x.root_plan_id = $3::text)
            ORDER BY EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.root_plan_id) DESC,
    x.part DESC, x.id DESC
            LIMIT 21
        ) AS roots
        OFFSET 0 -- else the array is made twice
    ) AS found
)
SELECT 'agentExecution'::text AS kind,
    a.id, a.root_plan_id, a.step_id, a.shown_plan_id, a.step_index, a.conversation_id, a.agent_name,
    a.agent_version, a.agent_description, a.agent_request, a.max_steps, a.current_step, a.attempt, a.state,
    a.start_time, a.end_time, a.result, a.error_message, a.error_kind, a.model_name, a.span_id, a.metadata,
    a.forked_from, a.truncated, a.attempts, a.completed_cycles, a.model_calls, a.tool_calls, a.failures,
    a.input_tokens, a.output_tokens, a.cache_read_input_tokens, a.cache_creation_input_tokens, a.reasoning_tokens,
    a.cost_usd, a.think_ms, a.tool_ms, a.latest_round, a.latest_tool_name, a.latest_tool_args, a.part,
    (SELECT also_under FROM asked), NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::json,
    NULL::bigint, NULL::json, NULL::json, NULL::bytea[], NULL::boolean, NULL::bytea
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked) AND a.step_id = $1::text
UNION ALL
SELECT 'thinkAct'::text AS kind,
    c.id, c.root_plan_id, c.step_id, c.think_input, c.seq, c.think_output, c.action_description, c.action_result,
    c.state, c.finish_reason, c.attempt, NULL, NULL, c.error_message, c.think_start_time, c.think_end_time,
    c.error_kind, c.provider, c.model_name, c.span_id, c.response_id, c.metadata, c.forked_from, c.truncated,
    c.attempts, NULL, NULL, NULL, NULL, c.input_char_count, c.output_char_count, c.input_tokens, c.output_tokens,
    c.cache_read_input_tokens, c.cost_usd, c.cache_creation_input_tokens, c.reasoning_tokens, NULL, NULL, NULL,
    NULL, NULL, c.first_token_time, c.act_start_time, c.act_end_time, c.message, c.cache_creation_1h_input_tokens,
    c.fallback_from, c.messages, c.think_input_parts, NULL, NULL
FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.step_id = $1::text AND c.part = $2::date
UNION ALL
SELECT 'actTool'::text AS kind,
    t.id, t.root_plan_id, t.step_id, t.tool_call_id, t.seq, t.provider_call_id, t.server_name, t.name,
    t.parameters, t.result, t.call_index, t.attempt, NULL, t.state, t.start_time, t.end_time, t.error_message,
    t.error_kind, t.span_id, t.forked_from, NULL, t.metadata, NULL, t.truncated, t.attempts, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.policy,
    NULL, t.progress, NULL, NULL, t.inferred, NULL
FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = (SELECT root_plan_id FROM asked) AND t.step_id = $1::text AND t.part = $2::date
UNION ALL
SELECT 'content'::text AS kind,
    NULL, k.body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, k.parts, NULL, k.hash
FROM actlog.contents_of((SELECT root_plan_id FROM asked), $2::date, ARRAY(
    SELECT unnest(c.think_input_parts)
    FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.step_id = $1::text AND c.part = $2::date AND c.think_input_parts IS NOT NULL
)) AS k
