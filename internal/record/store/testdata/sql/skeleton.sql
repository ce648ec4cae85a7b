WITH asked AS MATERIALIZED (
    SELECT found.roots[1] AS root_plan_id, found.roots[2:] AS also_under
    FROM (
        SELECT ARRAY(
            SELECT x.root_plan_id
            FROM actlog.plan_execution_record AS x
            WHERE x.current_plan_id = $1::text AND ($3::text IS NULL OR x.root_plan_id = $3::text)
            ORDER BY EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.current_plan_id) DESC,
    x.root_plan_id = x.current_plan_id DESC, x.first_seen_at DESC, x.root_plan_id DESC
            LIMIT 21
        ) AS roots
        OFFSET 0 -- else the array is made twice
    ) AS found
)
SELECT 'plan'::text AS kind,
    p.id, p.root_plan_id, p.current_plan_id, p.parent_plan_id, p.tool_call_id, p.executor, p.name,
    left(p.title, 300), left(p.user_request, 300), p.project, p.user_id, p.tags, p.environment, p.release,
    p.conversation_id, p.trace_id, p.state, p.start_time, p.end_time, p.model_name, p.error_kind, p.last_seen_at,
    p.attempt, p.forked_from, p.attempts, actlog.error_text(p.error_message), p.part, p.parent_step_id,
    actlog.is_placeholder(p), CASE WHEN p.current_plan_id = $1::text THEN (SELECT also_under FROM asked) END,
    NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer,
    NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::numeric, NULL::bigint,
    NULL::bigint, NULL::integer, NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::json
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT 'agentExecution'::text AS kind,
    a.id, a.root_plan_id, a.step_id, a.shown_plan_id, a.conversation_id, a.agent_name, a.agent_version,
    left(a.agent_request, 300), a.state, a.error_kind, a.model_name, NULL, a.span_id, a.forked_from,
    a.latest_tool_name, a.latest_tool_args, actlog.error_text(a.error_message), a.start_time, a.end_time,
    CASE WHEN a.step_index > 0 AND a.metadata IS NOT NULL THEN left(a.agent_description, 300) END, NULL,
    a.last_seen_at, a.step_index, NULL, a.attempts, NULL, NULL, NULL, NULL, NULL, a.max_steps, a.current_step,
    a.attempt, a.completed_cycles, a.model_calls, a.tool_calls, a.failures, a.input_tokens, a.output_tokens,
    a.cache_read_input_tokens, a.cache_creation_input_tokens, a.reasoning_tokens, a.cost_usd, a.think_ms,
    a.tool_ms, a.latest_round, NULL, NULL, NULL, NULL
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT 'thinkAct'::text AS kind,
    c.id, c.root_plan_id, c.step_id, c.state, c.finish_reason, c.error_kind, c.provider, c.model_name, c.span_id,
    c.response_id, c.forked_from, NULL, actlog.error_text(c.error_message), NULL, NULL, NULL, NULL,
    c.think_start_time, c.think_end_time, NULL, NULL, c.first_token_time, c.seq, NULL, c.attempts, NULL, NULL,
    NULL, NULL, NULL, c.attempt, NULL, NULL, NULL, NULL, NULL, NULL, c.input_char_count, c.output_char_count,
    c.input_tokens, c.output_tokens, c.cache_read_input_tokens, c.cost_usd, c.cache_creation_input_tokens,
    c.reasoning_tokens, NULL, c.act_start_time, c.act_end_time, c.cache_creation_1h_input_tokens,
    CASE WHEN octet_length(c.fallback_from::text) <= 8192 THEN c.fallback_from END
FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.part = $2::date
UNION ALL
SELECT 'actTool'::text AS kind,
    t.id, t.root_plan_id, t.step_id, t.tool_call_id, t.provider_call_id, t.server_name, t.name, t.state,
    t.error_kind, t.span_id, t.forked_from, NULL, actlog.error_text(t.error_message), NULL, NULL, NULL, NULL,
    t.start_time, t.end_time, NULL, NULL, NULL, t.seq, NULL, t.attempts, NULL, NULL, NULL, t.inferred, NULL,
    t.call_index, t.attempt, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL,
    CASE WHEN t.told_state = 'RUNNING' AND octet_length(t.progress::text) <= 8192 THEN t.progress END
FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = (SELECT root_plan_id FROM asked) AND t.part = $2::date
UNION ALL
SELECT 'wait'::text AS kind,
    w.id, w.root_plan_id, w.plan_id, w.wait_id, w.step_id, w.tool_call_id, w.type, left(w.title, 300),
    left(w.form_description, 300), w.state, w.decided_by, NULL, w.subject_sha256, w.claimed_by, w.forked_from,
    NULL, NULL, w.start_time, w.end_time, NULL, NULL, w.expires_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL
FROM actlog.wait_state AS w
WHERE w.root_plan_id = (SELECT root_plan_id FROM asked)
