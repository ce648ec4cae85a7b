INSERT INTO actlog.plan_execution_record AS r (
    root_plan_id,
    current_plan_id,
    parent_plan_id,
    tool_call_id,
    executor,
    name,
    title,
    user_request,
    project,
    user_id,
    tags,
    environment,
    release,
    conversation_id,
    trace_id,
    told_state,
    start_time,
    end_time,
    summary,
    model_name,
    error_message,
    error_kind,
    exception,
    metadata,
    last_seen_at,
    started_by,
    attempt,
    forked_from,
    truncated,
    revs,
    attempts,
    part,
    exception_at,
    beat_at
)
SELECT
    u.root_plan_id,
    u.current_plan_id,
    u.parent_plan_id,
    u.tool_call_id,
    u.executor,
    u.name,
    u.title,
    u.user_request,
    u.project,
    u.user_id,
    u.tags::text[],
    u.environment,
    u.release,
    u.conversation_id,
    u.trace_id,
    u.told_state,
    u.start_time,
    u.end_time,
    u.summary,
    u.model_name,
    u.error_message,
    u.error_kind,
    u.exception,
    u.metadata::json,
    u.last_seen_at,
    u.started_by::json,
    u.attempt,
    u.forked_from,
    u.truncated::text[],
    u.revs::bigint[],
    u.attempts::jsonb,
    COALESCE(root.part, today.day - (today.day - DATE '2001-01-01') % $32::integer),
    CASE WHEN u.exception IS NOT NULL THEN now() END,
    CASE WHEN u.last_seen_at IS NOT NULL THEN now() END
FROM unnest(
    $1::text[],
    $2::text[],
    $3::text[],
    $4::text[],
    $5::text[],
    $6::text[],
    $7::text[],
    $8::text[],
    $9::text[],
    $10::text[],
    $11::text[],
    $12::text[],
    $13::text[],
    $14::text[],
    $15::text[],
    $16::text[],
    $17::timestamptz[],
    $18::timestamptz[],
    $19::text[],
    $20::text[],
    $21::text[],
    $22::text[],
    $23::text[],
    $24::text[],
    $25::timestamptz[],
    $26::text[],
    $27::bigint[],
    $28::text[],
    $29::text[],
    $30::text[],
    $31::text[]
) AS u (
    root_plan_id,
    current_plan_id,
    parent_plan_id,
    tool_call_id,
    executor,
    name,
    title,
    user_request,
    project,
    user_id,
    tags,
    environment,
    release,
    conversation_id,
    trace_id,
    told_state,
    start_time,
    end_time,
    summary,
    model_name,
    error_message,
    error_kind,
    exception,
    metadata,
    last_seen_at,
    started_by,
    attempt,
    forked_from,
    truncated,
    revs,
    attempts
)
CROSS JOIN (SELECT (now() AT TIME ZONE 'utc')::date AS day) AS today
LEFT JOIN actlog.plan_execution_record AS root
    ON root.root_plan_id = u.root_plan_id AND root.current_plan_id = u.root_plan_id
ORDER BY u.root_plan_id COLLATE "C", u.current_plan_id COLLATE "C"
ON CONFLICT (root_plan_id, current_plan_id) DO UPDATE SET
    parent_plan_id = CASE WHEN actlog.takes(r.parent_plan_id, r.revs[1], excluded.parent_plan_id, excluded.revs[1]) THEN excluded.parent_plan_id ELSE r.parent_plan_id END,
    tool_call_id = CASE WHEN actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2]) THEN excluded.tool_call_id ELSE r.tool_call_id END,
    executor = CASE WHEN actlog.takes(r.executor, r.revs[3], excluded.executor, excluded.revs[3]) THEN excluded.executor ELSE r.executor END,
    name = CASE WHEN actlog.takes(r.name, r.revs[4], excluded.name, excluded.revs[4]) THEN excluded.name ELSE r.name END,
    title = CASE WHEN actlog.takes(r.title, r.revs[5], excluded.title, excluded.revs[5]) THEN excluded.title ELSE r.title END,
    user_request = CASE WHEN actlog.takes(r.user_request, r.revs[6], excluded.user_request, excluded.revs[6]) THEN excluded.user_request ELSE r.user_request END,
    project = CASE WHEN actlog.takes(r.project, r.revs[7], excluded.project, excluded.revs[7]) THEN excluded.project ELSE r.project END,
    user_id = CASE WHEN actlog.takes(r.user_id, r.revs[8], excluded.user_id, excluded.revs[8]) THEN excluded.user_id ELSE r.user_id END,
    tags = CASE WHEN actlog.takes(r.tags, r.revs[9], excluded.tags, excluded.revs[9]) THEN excluded.tags ELSE r.tags END,
    environment = CASE WHEN actlog.takes(r.environment, r.revs[10], excluded.environment, excluded.revs[10]) THEN excluded.environment ELSE r.environment END,
    release = CASE WHEN actlog.takes(r.release, r.revs[11], excluded.release, excluded.revs[11]) THEN excluded.release ELSE r.release END,
    conversation_id = CASE WHEN actlog.takes(r.conversation_id, r.revs[12], excluded.conversation_id, excluded.revs[12]) THEN excluded.conversation_id ELSE r.conversation_id END,
    trace_id = CASE WHEN actlog.takes(r.trace_id, r.revs[13], excluded.trace_id, excluded.revs[13]) THEN excluded.trace_id ELSE r.trace_id END,
    told_state = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.told_state WHEN 0 THEN CASE WHEN actlog.takes_state(r.told_state, r.revs[14], excluded.told_state, excluded.revs[14]) THEN excluded.told_state ELSE r.told_state END ELSE r.told_state END,
    start_time = LEAST(r.start_time, excluded.start_time),
    end_time = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.end_time WHEN 0 THEN GREATEST(r.end_time, excluded.end_time) ELSE r.end_time END,
    summary = CASE WHEN actlog.takes(r.summary, r.revs[15], excluded.summary, excluded.revs[15]) THEN excluded.summary ELSE r.summary END,
    model_name = CASE WHEN actlog.takes(r.model_name, r.revs[16], excluded.model_name, excluded.revs[16]) THEN excluded.model_name ELSE r.model_name END,
    error_message = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.error_message WHEN 0 THEN CASE WHEN actlog.takes(r.error_message, r.revs[17], excluded.error_message, excluded.revs[17]) THEN excluded.error_message ELSE r.error_message END ELSE r.error_message END,
    error_kind = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.error_kind WHEN 0 THEN CASE WHEN actlog.takes(r.error_kind, r.revs[18], excluded.error_kind, excluded.revs[18]) THEN excluded.error_kind ELSE r.error_kind END ELSE r.error_kind END,
    exception = CASE WHEN actlog.takes(r.exception, r.revs[19], excluded.exception, excluded.revs[19]) THEN excluded.exception ELSE r.exception END,
    metadata = CASE WHEN actlog.takes(r.metadata::text, r.revs[20], excluded.metadata::text, excluded.revs[20]) THEN excluded.metadata ELSE r.metadata END,
    last_seen_at = GREATEST(r.last_seen_at, excluded.last_seen_at),
    started_by = CASE WHEN actlog.takes(r.started_by::text, r.revs[21], excluded.started_by::text, excluded.revs[21]) THEN excluded.started_by ELSE r.started_by END,
    attempt = GREATEST(r.attempt, excluded.attempt),
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[22], excluded.forked_from, excluded.revs[22]) THEN excluded.forked_from ELSE r.forked_from END,
    exception_at = CASE WHEN r.exception IS DISTINCT FROM excluded.exception AND actlog.takes(r.exception, r.revs[19], excluded.exception, excluded.revs[19]) THEN excluded.exception_at ELSE r.exception_at END,
    exception_served_at = CASE WHEN r.exception IS DISTINCT FROM excluded.exception AND actlog.takes(r.exception, r.revs[19], excluded.exception, excluded.revs[19]) THEN NULL ELSE r.exception_served_at END,
    beat_at = CASE WHEN excluded.last_seen_at > COALESCE(r.last_seen_at, '-infinity') THEN excluded.beat_at ELSE r.beat_at END,
    truncated = CASE
        WHEN excluded.truncated <@ COALESCE(r.truncated, '{}') THEN r.truncated
        WHEN excluded.truncated IS NULL THEN r.truncated
        ELSE r.truncated || excluded.truncated
    END,
    revs = CASE WHEN r.revs IS NULL AND excluded.revs IS NULL THEN CASE WHEN r.origin = 'otlp' AND NOT (excluded.parent_plan_id, excluded.tool_call_id, excluded.executor, excluded.name, excluded.title, excluded.user_request, excluded.project, excluded.user_id, excluded.tags, excluded.environment, excluded.release, excluded.conversation_id, excluded.trace_id, excluded.told_state, excluded.start_time, excluded.end_time, excluded.summary, excluded.model_name, excluded.error_message, excluded.error_kind, excluded.exception, excluded.metadata, excluded.last_seen_at, excluded.started_by, excluded.attempt, excluded.forked_from) IS NULL THEN '{}'::bigint[] END ELSE ARRAY[
        GREATEST(r.revs[1], excluded.revs[1]),
        GREATEST(r.revs[2], excluded.revs[2]),
        GREATEST(r.revs[3], excluded.revs[3]),
        GREATEST(r.revs[4], excluded.revs[4]),
        GREATEST(r.revs[5], excluded.revs[5]),
        GREATEST(r.revs[6], excluded.revs[6]),
        GREATEST(r.revs[7], excluded.revs[7]),
        GREATEST(r.revs[8], excluded.revs[8]),
        GREATEST(r.revs[9], excluded.revs[9]),
        GREATEST(r.revs[10], excluded.revs[10]),
        GREATEST(r.revs[11], excluded.revs[11]),
        GREATEST(r.revs[12], excluded.revs[12]),
        GREATEST(r.revs[13], excluded.revs[13]),
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[14] WHEN 0 THEN CASE WHEN actlog.takes_state(r.told_state, r.revs[14], excluded.told_state, excluded.revs[14]) THEN COALESCE(excluded.revs[14], r.revs[14]) ELSE r.revs[14] END ELSE r.revs[14] END,
        GREATEST(r.revs[15], excluded.revs[15]),
        GREATEST(r.revs[16], excluded.revs[16]),
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[17] WHEN 0 THEN GREATEST(r.revs[17], excluded.revs[17]) ELSE r.revs[17] END,
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[18] WHEN 0 THEN GREATEST(r.revs[18], excluded.revs[18]) ELSE r.revs[18] END,
        GREATEST(r.revs[19], excluded.revs[19]),
        GREATEST(r.revs[20], excluded.revs[20]),
        GREATEST(r.revs[21], excluded.revs[21]),
        GREATEST(r.revs[22], excluded.revs[22])
    ] END,
    attempts = CASE WHEN actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.attempts IS NULL THEN r.attempts ELSE actlog.merge_attempts(r.attempts, jsonb_build_object('attempt', r.attempt, 'revs', r.revs, 'state', r.told_state, 'endTime', r.end_time, 'errorMessage', r.error_message, 'errorKind', r.error_kind), excluded.attempts, jsonb_build_object('attempt', excluded.attempt, 'revs', excluded.revs, 'state', excluded.told_state, 'endTime', excluded.end_time, 'errorMessage', excluded.error_message, 'errorKind', excluded.error_kind), '{"state": {"rule": "forward", "rev": 14, "time": false}, "endTime": {"rule": "greatest", "rev": 0, "time": true}, "errorMessage": {"rule": "newest", "rev": 17, "time": false}, "errorKind": {"rule": "newest", "rev": 18, "time": false}}'::jsonb) END
WHERE r.origin = 'otlp' AND r.revs IS NULL AND NOT (excluded.parent_plan_id, excluded.tool_call_id, excluded.executor, excluded.name, excluded.title, excluded.user_request, excluded.project, excluded.user_id, excluded.tags, excluded.environment, excluded.release, excluded.conversation_id, excluded.trace_id, excluded.told_state, excluded.start_time, excluded.end_time, excluded.summary, excluded.model_name, excluded.error_message, excluded.error_kind, excluded.exception, excluded.metadata, excluded.last_seen_at, excluded.started_by, excluded.attempt, excluded.forked_from) IS NULL
    OR NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.parent_plan_id, r.revs[1], excluded.parent_plan_id, excluded.revs[1])
    OR actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2])
    OR actlog.takes(r.executor, r.revs[3], excluded.executor, excluded.revs[3])
    OR actlog.takes(r.name, r.revs[4], excluded.name, excluded.revs[4])
    OR actlog.takes(r.title, r.revs[5], excluded.title, excluded.revs[5])
    OR actlog.takes(r.user_request, r.revs[6], excluded.user_request, excluded.revs[6])
    OR actlog.takes(r.project, r.revs[7], excluded.project, excluded.revs[7])
    OR actlog.takes(r.user_id, r.revs[8], excluded.user_id, excluded.revs[8])
    OR actlog.takes(r.tags, r.revs[9], excluded.tags, excluded.revs[9])
    OR actlog.takes(r.environment, r.revs[10], excluded.environment, excluded.revs[10])
    OR actlog.takes(r.release, r.revs[11], excluded.release, excluded.revs[11])
    OR actlog.takes(r.conversation_id, r.revs[12], excluded.conversation_id, excluded.revs[12])
    OR actlog.takes(r.trace_id, r.revs[13], excluded.trace_id, excluded.revs[13])
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes_state(r.told_state, r.revs[14], excluded.told_state, excluded.revs[14]))
    OR excluded.start_time < COALESCE(r.start_time, 'infinity')
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.end_time > COALESCE(r.end_time, '-infinity'))
    OR actlog.takes(r.summary, r.revs[15], excluded.summary, excluded.revs[15])
    OR actlog.takes(r.model_name, r.revs[16], excluded.model_name, excluded.revs[16])
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes(r.error_message, r.revs[17], excluded.error_message, excluded.revs[17]))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes(r.error_kind, r.revs[18], excluded.error_kind, excluded.revs[18]))
    OR actlog.takes(r.exception, r.revs[19], excluded.exception, excluded.revs[19])
    OR actlog.takes(r.metadata::text, r.revs[20], excluded.metadata::text, excluded.revs[20])
    OR excluded.last_seen_at > COALESCE(r.last_seen_at, '-infinity')
    OR actlog.takes(r.started_by::text, r.revs[21], excluded.started_by::text, excluded.revs[21])
    OR excluded.attempt > COALESCE(r.attempt, 0)
    OR actlog.takes(r.forked_from, r.revs[22], excluded.forked_from, excluded.revs[22])
    OR NOT (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.attempts IS NULL) AND r.attempts IS DISTINCT FROM actlog.merge_attempts(r.attempts, jsonb_build_object('attempt', r.attempt, 'revs', r.revs, 'state', r.told_state, 'endTime', r.end_time, 'errorMessage', r.error_message, 'errorKind', r.error_kind), excluded.attempts, jsonb_build_object('attempt', excluded.attempt, 'revs', excluded.revs, 'state', excluded.told_state, 'endTime', excluded.end_time, 'errorMessage', excluded.error_message, 'errorKind', excluded.error_kind), '{"state": {"rule": "forward", "rev": 14, "time": false}, "endTime": {"rule": "greatest", "rev": 0, "time": true}, "errorMessage": {"rule": "newest", "rev": 17, "time": false}, "errorKind": {"rule": "newest", "rev": 18, "time": false}}'::jsonb)
