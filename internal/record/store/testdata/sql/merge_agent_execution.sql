INSERT INTO actlog.agent_execution_record AS r (
    root_plan_id,
    step_id,
    plan_id,
    step_index,
    conversation_id,
    agent_name,
    agent_version,
    agent_description,
    agent_request,
    max_steps,
    current_step,
    attempt,
    told_state,
    start_time,
    end_time,
    result,
    error_message,
    error_kind,
    model_name,
    span_id,
    metadata,
    forked_from,
    truncated,
    revs,
    attempts,
    part,
    cycles,
    last_seen_at,
    completed_cycles,
    model_calls,
    tool_calls,
    failures,
    input_tokens,
    output_tokens,
    cache_read_input_tokens,
    cache_creation_input_tokens,
    reasoning_tokens,
    cost_usd,
    think_ms,
    tool_ms,
    latest_round,
    latest_tool_name,
    latest_tool_args
)
SELECT
    u.root_plan_id,
    u.step_id,
    u.plan_id,
    u.step_index,
    u.conversation_id,
    u.agent_name,
    u.agent_version,
    u.agent_description,
    u.agent_request,
    u.max_steps,
    u.current_step,
    u.attempt,
    u.told_state,
    u.start_time,
    u.end_time,
    u.result,
    u.error_message,
    u.error_kind,
    u.model_name,
    u.span_id,
    u.metadata::json,
    u.forked_from,
    u.truncated::text[],
    u.revs::bigint[],
    u.attempts::jsonb,
    root.part,
    rolled.cycles,
    rolled.last_seen_at,
    rolled.completed_cycles,
    rolled.model_calls,
    rolled.tool_calls,
    rolled.failures,
    rolled.input_tokens,
    rolled.output_tokens,
    rolled.cache_read_input_tokens,
    rolled.cache_creation_input_tokens,
    rolled.reasoning_tokens,
    rolled.cost_usd,
    rolled.think_ms,
    rolled.tool_ms,
    rolled.latest_round,
    rolled.latest_tool_name,
    rolled.latest_tool_args
FROM unnest(
    $1::text[],
    $2::text[],
    $3::text[],
    $4::bigint[],
    $5::text[],
    $6::text[],
    $7::text[],
    $8::text[],
    $9::text[],
    $10::bigint[],
    $11::bigint[],
    $12::bigint[],
    $13::text[],
    $14::timestamptz[],
    $15::timestamptz[],
    $16::text[],
    $17::text[],
    $18::text[],
    $19::text[],
    $20::text[],
    $21::text[],
    $22::text[],
    $23::text[],
    $24::text[],
    $25::text[]
) AS u (
    root_plan_id,
    step_id,
    plan_id,
    step_index,
    conversation_id,
    agent_name,
    agent_version,
    agent_description,
    agent_request,
    max_steps,
    current_step,
    attempt,
    told_state,
    start_time,
    end_time,
    result,
    error_message,
    error_kind,
    model_name,
    span_id,
    metadata,
    forked_from,
    truncated,
    revs,
    attempts
)
LEFT JOIN actlog.plan_execution_record AS root
    ON root.root_plan_id = u.root_plan_id AND root.current_plan_id = u.root_plan_id
LEFT JOIN LATERAL (
    SELECT
        c.cycles, c.completed_cycles, c.model_calls, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
        c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.think_ms, c.latest_round,
        t.tool_calls, t.tool_ms, c.failures + t.failures AS failures,
        GREATEST(c.last_seen_at, t.last_seen_at) AS last_seen_at,
        l.name AS latest_tool_name, l.args AS latest_tool_args
    FROM (
        SELECT
            COALESCE(sum(CASE WHEN r.forked_from IS NULL THEN 1 ELSE 0 END), 0) AS cycles,
            COALESCE(sum(CASE WHEN r.forked_from IS NULL THEN (r.status = 'FINISHED')::integer ELSE 0 END), 0) AS completed_cycles,
            COALESCE(sum(CASE WHEN r.forked_from IS NULL THEN (COALESCE(r.think_start_time, r.think_end_time) IS NOT NULL
            OR COALESCE(r.input_char_count, r.output_char_count, r.input_tokens, r.output_tokens) IS NOT NULL
            OR r.model_name IS NOT NULL)::integer ELSE 0 END), 0) AS model_calls,
            COALESCE(sum(CASE WHEN r.forked_from IS NULL THEN (r.state = 'FAILED')::integer ELSE 0 END), 0) AS failures,
            sum(CASE WHEN r.forked_from IS NULL THEN r.input_tokens END) AS input_tokens,
            sum(CASE WHEN r.forked_from IS NULL THEN r.output_tokens END) AS output_tokens,
            sum(CASE WHEN r.forked_from IS NULL THEN r.cache_read_input_tokens END) AS cache_read_input_tokens,
            sum(CASE WHEN r.forked_from IS NULL THEN r.cache_creation_input_tokens END) AS cache_creation_input_tokens,
            sum(CASE WHEN r.forked_from IS NULL THEN r.reasoning_tokens END) AS reasoning_tokens,
            sum(CASE WHEN r.forked_from IS NULL THEN r.cost_usd END) AS cost_usd,
            sum(CASE WHEN r.forked_from IS NULL THEN GREATEST(0, round(1000 * extract(epoch FROM r.think_end_time - r.think_start_time))) ELSE 0 END) AS think_ms,
            COALESCE(max(r.seq) + 1, 0) AS latest_round,
            max(GREATEST(r.think_start_time, r.think_end_time, r.first_token_time, r.act_start_time, r.act_end_time)) AS last_seen_at
        FROM actlog.think_act_record AS r
        WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.part = root.part
    ) AS c
    CROSS JOIN (
        SELECT
            COALESCE(sum(CASE WHEN r.forked_from IS NULL THEN 1 ELSE 0 END), 0) AS tool_calls,
            COALESCE(sum(CASE WHEN r.forked_from IS NULL THEN (r.state = 'FAILED')::integer ELSE 0 END), 0) AS failures,
            sum(CASE WHEN r.forked_from IS NULL THEN GREATEST(0, round(1000 * extract(epoch FROM r.end_time - r.start_time))) ELSE 0 END) AS tool_ms,
            max(GREATEST(r.start_time, r.end_time)) AS last_seen_at
        FROM actlog.act_tool_info AS r
        WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.part = root.part
    ) AS t
    LEFT JOIN (
        SELECT r.name, left(r.parameters, 1000) AS args
        FROM actlog.act_tool_info AS r
        WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.part = root.part
        ORDER BY r.seq DESC, r.call_index DESC NULLS FIRST, LEAST(r.start_time, actlog.first_start(r.attempts)) DESC NULLS FIRST, r.tool_call_id DESC
        LIMIT 1
    ) AS l ON true
) AS rolled ON root.part >= COALESCE((
    SELECT d.to_day FROM actlog.dropped_detail AS d WHERE d.from_day <= root.part ORDER BY d.from_day DESC LIMIT 1
), '-infinity')
ON CONFLICT (root_plan_id, step_id) DO UPDATE SET
    plan_id = CASE WHEN actlog.takes(r.plan_id, r.revs[1], excluded.plan_id, excluded.revs[1]) THEN excluded.plan_id ELSE r.plan_id END,
    step_index = CASE WHEN actlog.takes(r.step_index, r.revs[2], excluded.step_index, excluded.revs[2]) THEN excluded.step_index ELSE r.step_index END,
    conversation_id = CASE WHEN actlog.takes(r.conversation_id, r.revs[3], excluded.conversation_id, excluded.revs[3]) THEN excluded.conversation_id ELSE r.conversation_id END,
    agent_name = CASE WHEN actlog.takes(r.agent_name, r.revs[4], excluded.agent_name, excluded.revs[4]) THEN excluded.agent_name ELSE r.agent_name END,
    agent_version = CASE WHEN actlog.takes(r.agent_version, r.revs[5], excluded.agent_version, excluded.revs[5]) THEN excluded.agent_version ELSE r.agent_version END,
    agent_description = CASE WHEN actlog.takes(r.agent_description, r.revs[6], excluded.agent_description, excluded.revs[6]) THEN excluded.agent_description ELSE r.agent_description END,
    agent_request = CASE WHEN actlog.takes(r.agent_request, r.revs[7], excluded.agent_request, excluded.revs[7]) THEN excluded.agent_request ELSE r.agent_request END,
    max_steps = CASE WHEN actlog.takes(r.max_steps, r.revs[8], excluded.max_steps, excluded.revs[8]) THEN excluded.max_steps ELSE r.max_steps END,
    current_step = CASE WHEN actlog.takes(r.current_step, r.revs[9], excluded.current_step, excluded.revs[9]) THEN excluded.current_step ELSE r.current_step END,
    attempt = GREATEST(r.attempt, excluded.attempt),
    told_state = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.told_state WHEN 0 THEN CASE WHEN actlog.takes_state(r.told_state, r.revs[10], excluded.told_state, excluded.revs[10]) THEN excluded.told_state ELSE r.told_state END ELSE r.told_state END,
    start_time = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.start_time WHEN 0 THEN LEAST(r.start_time, excluded.start_time) ELSE r.start_time END,
    end_time = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.end_time WHEN 0 THEN GREATEST(r.end_time, excluded.end_time) ELSE r.end_time END,
    result = CASE WHEN actlog.takes(r.result, r.revs[11], excluded.result, excluded.revs[11]) THEN excluded.result ELSE r.result END,
    error_message = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.error_message WHEN 0 THEN CASE WHEN actlog.takes(r.error_message, r.revs[12], excluded.error_message, excluded.revs[12]) THEN excluded.error_message ELSE r.error_message END ELSE r.error_message END,
    error_kind = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.error_kind WHEN 0 THEN CASE WHEN actlog.takes(r.error_kind, r.revs[13], excluded.error_kind, excluded.revs[13]) THEN excluded.error_kind ELSE r.error_kind END ELSE r.error_kind END,
    model_name = CASE WHEN actlog.takes(r.model_name, r.revs[14], excluded.model_name, excluded.revs[14]) THEN excluded.model_name ELSE r.model_name END,
    span_id = CASE WHEN actlog.takes(r.span_id, r.revs[15], excluded.span_id, excluded.revs[15]) THEN excluded.span_id ELSE r.span_id END,
    metadata = CASE WHEN actlog.takes(r.metadata::text, r.revs[16], excluded.metadata::text, excluded.revs[16]) THEN excluded.metadata ELSE r.metadata END,
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[17], excluded.forked_from, excluded.revs[17]) THEN excluded.forked_from ELSE r.forked_from END,
    truncated = CASE
        WHEN excluded.truncated <@ COALESCE(r.truncated, '{}') THEN r.truncated
        WHEN excluded.truncated IS NULL THEN r.truncated
        ELSE r.truncated || excluded.truncated
    END,
    revs = CASE WHEN r.revs IS NULL AND excluded.revs IS NULL THEN CASE WHEN r.origin = 'otlp' AND NOT (excluded.plan_id, excluded.step_index, excluded.conversation_id, excluded.agent_name, excluded.agent_version, excluded.agent_description, excluded.agent_request, excluded.max_steps, excluded.current_step, excluded.attempt, excluded.told_state, excluded.start_time, excluded.end_time, excluded.result, excluded.error_message, excluded.error_kind, excluded.model_name, excluded.span_id, excluded.metadata, excluded.forked_from) IS NULL THEN '{}'::bigint[] END ELSE ARRAY[
        GREATEST(r.revs[1], excluded.revs[1]),
        GREATEST(r.revs[2], excluded.revs[2]),
        GREATEST(r.revs[3], excluded.revs[3]),
        GREATEST(r.revs[4], excluded.revs[4]),
        GREATEST(r.revs[5], excluded.revs[5]),
        GREATEST(r.revs[6], excluded.revs[6]),
        GREATEST(r.revs[7], excluded.revs[7]),
        GREATEST(r.revs[8], excluded.revs[8]),
        GREATEST(r.revs[9], excluded.revs[9]),
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[10] WHEN 0 THEN CASE WHEN actlog.takes_state(r.told_state, r.revs[10], excluded.told_state, excluded.revs[10]) THEN COALESCE(excluded.revs[10], r.revs[10]) ELSE r.revs[10] END ELSE r.revs[10] END,
        GREATEST(r.revs[11], excluded.revs[11]),
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[12] WHEN 0 THEN GREATEST(r.revs[12], excluded.revs[12]) ELSE r.revs[12] END,
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[13] WHEN 0 THEN GREATEST(r.revs[13], excluded.revs[13]) ELSE r.revs[13] END,
        GREATEST(r.revs[14], excluded.revs[14]),
        GREATEST(r.revs[15], excluded.revs[15]),
        GREATEST(r.revs[16], excluded.revs[16]),
        GREATEST(r.revs[17], excluded.revs[17])
    ] END,
    attempts = CASE WHEN actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.attempts IS NULL THEN r.attempts ELSE actlog.merge_attempts(r.attempts, jsonb_build_object('attempt', r.attempt, 'revs', r.revs, 'state', r.told_state, 'startTime', r.start_time, 'endTime', r.end_time, 'errorMessage', r.error_message, 'errorKind', r.error_kind), excluded.attempts, jsonb_build_object('attempt', excluded.attempt, 'revs', excluded.revs, 'state', excluded.told_state, 'startTime', excluded.start_time, 'endTime', excluded.end_time, 'errorMessage', excluded.error_message, 'errorKind', excluded.error_kind), '{"state": {"rule": "forward", "rev": 10, "time": false}, "startTime": {"rule": "least", "rev": 0, "time": true}, "endTime": {"rule": "greatest", "rev": 0, "time": true}, "errorMessage": {"rule": "newest", "rev": 12, "time": false}, "errorKind": {"rule": "newest", "rev": 13, "time": false}}'::jsonb) END,
    cycles = CASE WHEN excluded.cycles IS NULL THEN r.cycles ELSE excluded.cycles END,
    last_seen_at = CASE WHEN excluded.cycles IS NULL THEN r.last_seen_at ELSE excluded.last_seen_at END,
    completed_cycles = CASE WHEN excluded.cycles IS NULL THEN r.completed_cycles ELSE excluded.completed_cycles END,
    model_calls = CASE WHEN excluded.cycles IS NULL THEN r.model_calls ELSE excluded.model_calls END,
    tool_calls = CASE WHEN excluded.cycles IS NULL THEN r.tool_calls ELSE excluded.tool_calls END,
    failures = CASE WHEN excluded.cycles IS NULL THEN r.failures ELSE excluded.failures END,
    input_tokens = CASE WHEN excluded.cycles IS NULL THEN r.input_tokens ELSE excluded.input_tokens END,
    output_tokens = CASE WHEN excluded.cycles IS NULL THEN r.output_tokens ELSE excluded.output_tokens END,
    cache_read_input_tokens = CASE WHEN excluded.cycles IS NULL THEN r.cache_read_input_tokens ELSE excluded.cache_read_input_tokens END,
    cache_creation_input_tokens = CASE WHEN excluded.cycles IS NULL THEN r.cache_creation_input_tokens ELSE excluded.cache_creation_input_tokens END,
    reasoning_tokens = CASE WHEN excluded.cycles IS NULL THEN r.reasoning_tokens ELSE excluded.reasoning_tokens END,
    cost_usd = CASE WHEN excluded.cycles IS NULL THEN r.cost_usd ELSE excluded.cost_usd END,
    think_ms = CASE WHEN excluded.cycles IS NULL THEN r.think_ms ELSE excluded.think_ms END,
    tool_ms = CASE WHEN excluded.cycles IS NULL THEN r.tool_ms ELSE excluded.tool_ms END,
    latest_round = CASE WHEN excluded.cycles IS NULL THEN r.latest_round ELSE excluded.latest_round END,
    latest_tool_name = CASE WHEN excluded.cycles IS NULL THEN r.latest_tool_name ELSE excluded.latest_tool_name END,
    latest_tool_args = CASE WHEN excluded.cycles IS NULL THEN r.latest_tool_args ELSE excluded.latest_tool_args END
WHERE r.origin = 'otlp' AND r.revs IS NULL AND NOT (excluded.plan_id, excluded.step_index, excluded.conversation_id, excluded.agent_name, excluded.agent_version, excluded.agent_description, excluded.agent_request, excluded.max_steps, excluded.current_step, excluded.attempt, excluded.told_state, excluded.start_time, excluded.end_time, excluded.result, excluded.error_message, excluded.error_kind, excluded.model_name, excluded.span_id, excluded.metadata, excluded.forked_from) IS NULL
    OR NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.plan_id, r.revs[1], excluded.plan_id, excluded.revs[1])
    OR actlog.takes(r.step_index, r.revs[2], excluded.step_index, excluded.revs[2])
    OR actlog.takes(r.conversation_id, r.revs[3], excluded.conversation_id, excluded.revs[3])
    OR actlog.takes(r.agent_name, r.revs[4], excluded.agent_name, excluded.revs[4])
    OR actlog.takes(r.agent_version, r.revs[5], excluded.agent_version, excluded.revs[5])
    OR actlog.takes(r.agent_description, r.revs[6], excluded.agent_description, excluded.revs[6])
    OR actlog.takes(r.agent_request, r.revs[7], excluded.agent_request, excluded.revs[7])
    OR actlog.takes(r.max_steps, r.revs[8], excluded.max_steps, excluded.revs[8])
    OR actlog.takes(r.current_step, r.revs[9], excluded.current_step, excluded.revs[9])
    OR excluded.attempt > COALESCE(r.attempt, 0)
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes_state(r.told_state, r.revs[10], excluded.told_state, excluded.revs[10]))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.start_time < COALESCE(r.start_time, 'infinity'))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.end_time > COALESCE(r.end_time, '-infinity'))
    OR actlog.takes(r.result, r.revs[11], excluded.result, excluded.revs[11])
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes(r.error_message, r.revs[12], excluded.error_message, excluded.revs[12]))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes(r.error_kind, r.revs[13], excluded.error_kind, excluded.revs[13]))
    OR actlog.takes(r.model_name, r.revs[14], excluded.model_name, excluded.revs[14])
    OR actlog.takes(r.span_id, r.revs[15], excluded.span_id, excluded.revs[15])
    OR actlog.takes(r.metadata::text, r.revs[16], excluded.metadata::text, excluded.revs[16])
    OR actlog.takes(r.forked_from, r.revs[17], excluded.forked_from, excluded.revs[17])
    OR (excluded.cycles IS NOT NULL AND (r.cycles, r.last_seen_at, r.completed_cycles, r.model_calls, r.tool_calls, r.failures, r.input_tokens, r.output_tokens, r.cache_read_input_tokens, r.cache_creation_input_tokens, r.reasoning_tokens, r.cost_usd, r.think_ms, r.tool_ms, r.latest_round, r.latest_tool_name, r.latest_tool_args)
        IS DISTINCT FROM (excluded.cycles, excluded.last_seen_at, excluded.completed_cycles, excluded.model_calls, excluded.tool_calls, excluded.failures, excluded.input_tokens, excluded.output_tokens, excluded.cache_read_input_tokens, excluded.cache_creation_input_tokens, excluded.reasoning_tokens, excluded.cost_usd, excluded.think_ms, excluded.tool_ms, excluded.latest_round, excluded.latest_tool_name, excluded.latest_tool_args))
    OR NOT (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.attempts IS NULL) AND r.attempts IS DISTINCT FROM actlog.merge_attempts(r.attempts, jsonb_build_object('attempt', r.attempt, 'revs', r.revs, 'state', r.told_state, 'startTime', r.start_time, 'endTime', r.end_time, 'errorMessage', r.error_message, 'errorKind', r.error_kind), excluded.attempts, jsonb_build_object('attempt', excluded.attempt, 'revs', excluded.revs, 'state', excluded.told_state, 'startTime', excluded.start_time, 'endTime', excluded.end_time, 'errorMessage', excluded.error_message, 'errorKind', excluded.error_kind), '{"state": {"rule": "forward", "rev": 10, "time": false}, "startTime": {"rule": "least", "rev": 0, "time": true}, "endTime": {"rule": "greatest", "rev": 0, "time": true}, "errorMessage": {"rule": "newest", "rev": 12, "time": false}, "errorKind": {"rule": "newest", "rev": 13, "time": false}}'::jsonb)
