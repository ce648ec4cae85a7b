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
    p.id, p.root_plan_id, p.current_plan_id, p.parent_plan_id, p.tool_call_id, p.executor, p.name, p.title,
    p.user_request, p.project, p.user_id, p.tags, p.environment, p.release, p.conversation_id, p.trace_id, p.state,
    p.start_time, p.end_time, p.summary, p.model_name, p.error_message, p.error_kind, p.metadata, p.last_seen_at,
    p.started_by, p.attempt, p.forked_from, p.truncated, p.attempts, p.part, p.parent_step_id,
    p.exception IS NOT NULL AND p.exception_served_at IS NULL AND p.state <> 'COMPLETED' AND p.exception_at > now() - INTERVAL '10 minutes',
    actlog.is_placeholder(p),
    CASE WHEN EXISTS (SELECT FROM actlog.plan_execution_record AS l WHERE l.root_plan_id = (SELECT root_plan_id FROM asked) AND NOT l.completed) THEN GREATEST(
        (SELECT max(GREATEST(w.start_time, w.end_time)) FROM actlog.wait_state AS w WHERE w.root_plan_id = p.root_plan_id AND w.plan_id = p.current_plan_id),
        (SELECT max(h.time) FROM actlog.thought AS h WHERE h.root_plan_id = p.root_plan_id AND h.plan_id = p.current_plan_id)
    ) END, CASE WHEN p.current_plan_id = $1::text THEN (SELECT also_under FROM asked) END,
    CASE WHEN p.completed AND p.current_plan_id = $1::text THEN (
        SELECT z.result
        FROM (
            SELECT s.step_id, s.latest_round
            FROM actlog.agent_execution_record AS s
            WHERE s.root_plan_id = p.root_plan_id AND s.shown_plan_id = p.current_plan_id
            ORDER BY s.step_index DESC NULLS FIRST, LEAST(s.start_time, actlog.first_start(s.attempts)) DESC NULLS FIRST, s.step_id DESC
            LIMIT 1
        ) AS step
        JOIN actlog.act_tool_info AS z ON z.root_plan_id = p.root_plan_id AND z.step_id = step.step_id AND z.seq = step.latest_round - 1
        WHERE z.part = $2::date
        ORDER BY z.call_index DESC NULLS FIRST, LEAST(z.start_time, actlog.first_start(z.attempts)) DESC NULLS FIRST, z.tool_call_id DESC
        LIMIT 1
    ) END, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer,
    NULL::integer, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::numeric,
    NULL::bigint, NULL::bigint, NULL::integer, NULL::json
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT 'agentExecution'::text AS kind,
    a.id, a.root_plan_id, a.step_id, a.shown_plan_id, a.conversation_id, a.agent_name, a.agent_version,
    a.agent_description, a.agent_request, a.state, a.result, a.truncated, a.error_message, a.error_kind,
    a.model_name, a.span_id, a.forked_from, a.start_time, a.end_time, a.latest_tool_name, a.latest_tool_args, NULL,
    NULL, a.metadata, a.last_seen_at, NULL, a.step_index, NULL, NULL, a.attempts, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, a.max_steps, a.current_step, a.attempt, a.completed_cycles, a.model_calls, a.tool_calls,
    a.failures, a.input_tokens, a.output_tokens, a.cache_read_input_tokens, a.cache_creation_input_tokens,
    a.reasoning_tokens, a.cost_usd, a.think_ms, a.tool_ms, a.latest_round, NULL
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT 'actTool'::text AS kind,
    t.id, t.root_plan_id, t.step_id, t.tool_call_id, t.provider_call_id, t.server_name, t.name, t.parameters,
    t.result, t.state, t.error_message, t.truncated, t.error_kind, t.span_id, t.forked_from, NULL, NULL,
    t.start_time, t.end_time, NULL, NULL, NULL, NULL, t.metadata, NULL, t.policy, t.seq, NULL, NULL, t.attempts,
    NULL, NULL, t.inferred, NULL, NULL, NULL, NULL, t.call_index, t.attempt, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.progress
FROM actlog.plan_execution_record AS p
CROSS JOIN LATERAL (
    SELECT *
    FROM actlog.act_tool_info AS c
    WHERE c.root_plan_id = p.root_plan_id AND c.tool_call_id = p.tool_call_id AND c.part = $2::date
    OFFSET 0 -- a plan made while the table was small would scan all calls of the tree
) AS t
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)
UNION ALL
SELECT 'wait'::text AS kind,
    NULL, w.root_plan_id, w.plan_id, w.wait_id, w.type, w.title, w.form_description, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, w.start_time, NULL, NULL, NULL, NULL, NULL, w.form_inputs, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM actlog.wait_state AS w
WHERE w.root_plan_id = (SELECT root_plan_id FROM asked) AND COALESCE(w.told_state, 'WAITING') = 'WAITING' AND w.forked_from IS NULL
