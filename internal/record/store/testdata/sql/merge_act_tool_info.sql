INSERT INTO actlog.act_tool_info AS r (
    root_plan_id,
    step_id,
    seq,
    tool_call_id,
    call_index,
    provider_call_id,
    server_name,
    name,
    parameters,
    result,
    told_state,
    attempt,
    error_message,
    error_kind,
    start_time,
    end_time,
    span_id,
    metadata,
    inferred,
    policy,
    progress,
    forked_from,
    truncated,
    revs,
    attempts,
    part
)
SELECT
    u.root_plan_id,
    u.step_id,
    u.seq,
    u.tool_call_id,
    u.call_index,
    u.provider_call_id,
    u.server_name,
    u.name,
    u.parameters,
    u.result,
    u.told_state,
    u.attempt,
    u.error_message,
    u.error_kind,
    u.start_time,
    u.end_time,
    u.span_id,
    u.metadata::json,
    u.inferred,
    u.policy::json,
    u.progress::json,
    u.forked_from,
    u.truncated::text[],
    u.revs::bigint[],
    u.attempts::jsonb,
    root.part
FROM unnest(
    $1::text[],
    $2::text[],
    $3::bigint[],
    $4::text[],
    $5::bigint[],
    $6::text[],
    $7::text[],
    $8::text[],
    $9::text[],
    $10::text[],
    $11::text[],
    $12::bigint[],
    $13::text[],
    $14::text[],
    $15::timestamptz[],
    $16::timestamptz[],
    $17::text[],
    $18::text[],
    $19::boolean[],
    $20::text[],
    $21::text[],
    $22::text[],
    $23::text[],
    $24::text[],
    $25::text[]
) AS u (
    root_plan_id,
    step_id,
    seq,
    tool_call_id,
    call_index,
    provider_call_id,
    server_name,
    name,
    parameters,
    result,
    told_state,
    attempt,
    error_message,
    error_kind,
    start_time,
    end_time,
    span_id,
    metadata,
    inferred,
    policy,
    progress,
    forked_from,
    truncated,
    revs,
    attempts
)
LEFT JOIN actlog.plan_execution_record AS root
    ON root.root_plan_id = u.root_plan_id AND root.current_plan_id = u.root_plan_id
ON CONFLICT (root_plan_id, step_id, seq, tool_call_id, part) DO UPDATE SET
    call_index = CASE WHEN actlog.takes(r.call_index, r.revs[1], excluded.call_index, excluded.revs[1]) THEN excluded.call_index ELSE r.call_index END,
    provider_call_id = CASE WHEN actlog.takes(r.provider_call_id, r.revs[2], excluded.provider_call_id, excluded.revs[2]) THEN excluded.provider_call_id ELSE r.provider_call_id END,
    server_name = CASE WHEN actlog.takes(r.server_name, r.revs[3], excluded.server_name, excluded.revs[3]) THEN excluded.server_name ELSE r.server_name END,
    name = CASE WHEN actlog.takes(r.name, r.revs[4], excluded.name, excluded.revs[4]) THEN excluded.name ELSE r.name END,
    parameters = CASE WHEN actlog.takes(r.parameters, r.revs[5], excluded.parameters, excluded.revs[5]) THEN excluded.parameters ELSE r.parameters END,
    result = CASE WHEN actlog.takes(r.result, r.revs[6], excluded.result, excluded.revs[6]) THEN excluded.result ELSE r.result END,
    told_state = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.told_state WHEN 0 THEN CASE WHEN actlog.takes_state(r.told_state, r.revs[7], excluded.told_state, excluded.revs[7]) THEN excluded.told_state ELSE r.told_state END ELSE r.told_state END,
    attempt = GREATEST(r.attempt, excluded.attempt),
    error_message = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.error_message WHEN 0 THEN CASE WHEN actlog.takes(r.error_message, r.revs[8], excluded.error_message, excluded.revs[8]) THEN excluded.error_message ELSE r.error_message END ELSE r.error_message END,
    error_kind = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.error_kind WHEN 0 THEN CASE WHEN actlog.takes(r.error_kind, r.revs[9], excluded.error_kind, excluded.revs[9]) THEN excluded.error_kind ELSE r.error_kind END ELSE r.error_kind END,
    start_time = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.start_time WHEN 0 THEN LEAST(r.start_time, excluded.start_time) ELSE r.start_time END,
    end_time = CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.end_time WHEN 0 THEN GREATEST(r.end_time, excluded.end_time) ELSE r.end_time END,
    span_id = CASE WHEN actlog.takes(r.span_id, r.revs[10], excluded.span_id, excluded.revs[10]) THEN excluded.span_id ELSE r.span_id END,
    metadata = CASE WHEN actlog.takes(r.metadata::text, r.revs[11], excluded.metadata::text, excluded.revs[11]) THEN excluded.metadata ELSE r.metadata END,
    inferred = CASE WHEN actlog.takes(r.inferred, r.revs[12], excluded.inferred, excluded.revs[12]) THEN excluded.inferred ELSE r.inferred END,
    policy = CASE WHEN actlog.takes(r.policy::text, r.revs[13], excluded.policy::text, excluded.revs[13]) THEN excluded.policy ELSE r.policy END,
    progress = CASE WHEN actlog.takes(r.progress::text, r.revs[14], excluded.progress::text, excluded.revs[14]) THEN excluded.progress ELSE r.progress END,
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[15], excluded.forked_from, excluded.revs[15]) THEN excluded.forked_from ELSE r.forked_from END,
    truncated = CASE
        WHEN excluded.truncated <@ COALESCE(r.truncated, '{}') THEN r.truncated
        WHEN excluded.truncated IS NULL THEN r.truncated
        ELSE r.truncated || excluded.truncated
    END,
    revs = CASE WHEN r.revs IS NULL AND excluded.revs IS NULL THEN CASE WHEN r.origin = 'otlp' AND NOT (excluded.call_index, excluded.provider_call_id, excluded.server_name, excluded.name, excluded.parameters, excluded.result, excluded.told_state, excluded.attempt, excluded.error_message, excluded.error_kind, excluded.start_time, excluded.end_time, excluded.span_id, excluded.metadata, excluded.inferred, excluded.policy, excluded.progress, excluded.forked_from) IS NULL THEN '{}'::bigint[] END ELSE ARRAY[
        GREATEST(r.revs[1], excluded.revs[1]),
        GREATEST(r.revs[2], excluded.revs[2]),
        GREATEST(r.revs[3], excluded.revs[3]),
        GREATEST(r.revs[4], excluded.revs[4]),
        GREATEST(r.revs[5], excluded.revs[5]),
        GREATEST(r.revs[6], excluded.revs[6]),
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[7] WHEN 0 THEN CASE WHEN actlog.takes_state(r.told_state, r.revs[7], excluded.told_state, excluded.revs[7]) THEN COALESCE(excluded.revs[7], r.revs[7]) ELSE r.revs[7] END ELSE r.revs[7] END,
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[8] WHEN 0 THEN GREATEST(r.revs[8], excluded.revs[8]) ELSE r.revs[8] END,
        CASE actlog.attempts(r.attempt, excluded.attempt) WHEN 1 THEN excluded.revs[9] WHEN 0 THEN GREATEST(r.revs[9], excluded.revs[9]) ELSE r.revs[9] END,
        GREATEST(r.revs[10], excluded.revs[10]),
        GREATEST(r.revs[11], excluded.revs[11]),
        GREATEST(r.revs[12], excluded.revs[12]),
        GREATEST(r.revs[13], excluded.revs[13]),
        GREATEST(r.revs[14], excluded.revs[14]),
        GREATEST(r.revs[15], excluded.revs[15])
    ] END,
    attempts = CASE WHEN actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.attempts IS NULL THEN r.attempts ELSE actlog.merge_attempts(r.attempts, jsonb_build_object('attempt', r.attempt, 'revs', r.revs, 'state', r.told_state, 'errorMessage', r.error_message, 'errorKind', r.error_kind, 'startTime', r.start_time, 'endTime', r.end_time), excluded.attempts, jsonb_build_object('attempt', excluded.attempt, 'revs', excluded.revs, 'state', excluded.told_state, 'errorMessage', excluded.error_message, 'errorKind', excluded.error_kind, 'startTime', excluded.start_time, 'endTime', excluded.end_time), '{"state": {"rule": "forward", "rev": 7, "time": false}, "errorMessage": {"rule": "newest", "rev": 8, "time": false}, "errorKind": {"rule": "newest", "rev": 9, "time": false}, "startTime": {"rule": "least", "rev": 0, "time": true}, "endTime": {"rule": "greatest", "rev": 0, "time": true}}'::jsonb) END
WHERE r.origin = 'otlp' AND r.revs IS NULL AND NOT (excluded.call_index, excluded.provider_call_id, excluded.server_name, excluded.name, excluded.parameters, excluded.result, excluded.told_state, excluded.attempt, excluded.error_message, excluded.error_kind, excluded.start_time, excluded.end_time, excluded.span_id, excluded.metadata, excluded.inferred, excluded.policy, excluded.progress, excluded.forked_from) IS NULL
    OR NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.call_index, r.revs[1], excluded.call_index, excluded.revs[1])
    OR actlog.takes(r.provider_call_id, r.revs[2], excluded.provider_call_id, excluded.revs[2])
    OR actlog.takes(r.server_name, r.revs[3], excluded.server_name, excluded.revs[3])
    OR actlog.takes(r.name, r.revs[4], excluded.name, excluded.revs[4])
    OR actlog.takes(r.parameters, r.revs[5], excluded.parameters, excluded.revs[5])
    OR actlog.takes(r.result, r.revs[6], excluded.result, excluded.revs[6])
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes_state(r.told_state, r.revs[7], excluded.told_state, excluded.revs[7]))
    OR excluded.attempt > COALESCE(r.attempt, 0)
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes(r.error_message, r.revs[8], excluded.error_message, excluded.revs[8]))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND actlog.takes(r.error_kind, r.revs[9], excluded.error_kind, excluded.revs[9]))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.start_time < COALESCE(r.start_time, 'infinity'))
    OR (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.end_time > COALESCE(r.end_time, '-infinity'))
    OR actlog.takes(r.span_id, r.revs[10], excluded.span_id, excluded.revs[10])
    OR actlog.takes(r.metadata::text, r.revs[11], excluded.metadata::text, excluded.revs[11])
    OR actlog.takes(r.inferred, r.revs[12], excluded.inferred, excluded.revs[12])
    OR actlog.takes(r.policy::text, r.revs[13], excluded.policy::text, excluded.revs[13])
    OR actlog.takes(r.progress::text, r.revs[14], excluded.progress::text, excluded.revs[14])
    OR actlog.takes(r.forked_from, r.revs[15], excluded.forked_from, excluded.revs[15])
    OR NOT (actlog.attempts(r.attempt, excluded.attempt) = 0 AND excluded.attempts IS NULL) AND r.attempts IS DISTINCT FROM actlog.merge_attempts(r.attempts, jsonb_build_object('attempt', r.attempt, 'revs', r.revs, 'state', r.told_state, 'errorMessage', r.error_message, 'errorKind', r.error_kind, 'startTime', r.start_time, 'endTime', r.end_time), excluded.attempts, jsonb_build_object('attempt', excluded.attempt, 'revs', excluded.revs, 'state', excluded.told_state, 'errorMessage', excluded.error_message, 'errorKind', excluded.error_kind, 'startTime', excluded.start_time, 'endTime', excluded.end_time), '{"state": {"rule": "forward", "rev": 7, "time": false}, "errorMessage": {"rule": "newest", "rev": 8, "time": false}, "errorKind": {"rule": "newest", "rev": 9, "time": false}, "startTime": {"rule": "least", "rev": 0, "time": true}, "endTime": {"rule": "greatest", "rev": 0, "time": true}}'::jsonb)
