INSERT INTO actlog.wait_state AS r (
    root_plan_id,
    plan_id,
    wait_id,
    step_id,
    tool_call_id,
    type,
    title,
    form_description,
    form_inputs,
    told_state,
    decision,
    decided_by,
    start_time,
    end_time,
    expires_at,
    subject,
    subject_sha256,
    decision_text,
    claimed_by,
    forked_from,
    truncated,
    revs
)
SELECT
    u.root_plan_id,
    u.plan_id,
    u.wait_id,
    u.step_id,
    u.tool_call_id,
    u.type,
    u.title,
    u.form_description,
    u.form_inputs::json,
    u.told_state,
    u.decision,
    u.decided_by,
    u.start_time,
    u.end_time,
    u.expires_at,
    u.subject::json,
    u.subject_sha256,
    u.decision_text,
    u.claimed_by,
    u.forked_from,
    u.truncated::text[],
    u.revs::bigint[]
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
    $13::timestamptz[],
    $14::timestamptz[],
    $15::timestamptz[],
    $16::text[],
    $17::text[],
    $18::text[],
    $19::text[],
    $20::text[],
    $21::text[],
    $22::text[]
) AS u (
    root_plan_id,
    plan_id,
    wait_id,
    step_id,
    tool_call_id,
    type,
    title,
    form_description,
    form_inputs,
    told_state,
    decision,
    decided_by,
    start_time,
    end_time,
    expires_at,
    subject,
    subject_sha256,
    decision_text,
    claimed_by,
    forked_from,
    truncated,
    revs
)
ON CONFLICT (root_plan_id, plan_id, wait_id) DO UPDATE SET
    step_id = CASE WHEN actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1]) THEN excluded.step_id ELSE r.step_id END,
    tool_call_id = CASE WHEN actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2]) THEN excluded.tool_call_id ELSE r.tool_call_id END,
    type = CASE WHEN actlog.takes(r.type, r.revs[3], excluded.type, excluded.revs[3]) THEN excluded.type ELSE r.type END,
    title = CASE WHEN actlog.takes(r.title, r.revs[4], excluded.title, excluded.revs[4]) THEN excluded.title ELSE r.title END,
    form_description = CASE WHEN actlog.takes(r.form_description, r.revs[5], excluded.form_description, excluded.revs[5]) THEN excluded.form_description ELSE r.form_description END,
    form_inputs = CASE WHEN actlog.takes(r.form_inputs::text, r.revs[6], excluded.form_inputs::text, excluded.revs[6]) THEN excluded.form_inputs ELSE r.form_inputs END,
    told_state = CASE WHEN actlog.takes_state(r.told_state, r.revs[7], excluded.told_state, excluded.revs[7]) THEN excluded.told_state ELSE r.told_state END,
    decision = CASE WHEN actlog.takes(r.decision, r.revs[8], excluded.decision, excluded.revs[8]) THEN excluded.decision ELSE r.decision END,
    decided_by = CASE WHEN actlog.takes(r.decided_by, r.revs[9], excluded.decided_by, excluded.revs[9]) THEN excluded.decided_by ELSE r.decided_by END,
    start_time = LEAST(r.start_time, excluded.start_time),
    end_time = GREATEST(r.end_time, excluded.end_time),
    expires_at = CASE WHEN actlog.takes(r.expires_at, r.revs[10], excluded.expires_at, excluded.revs[10]) THEN excluded.expires_at ELSE r.expires_at END,
    subject = CASE WHEN actlog.takes(r.subject::text, r.revs[11], excluded.subject::text, excluded.revs[11]) THEN excluded.subject ELSE r.subject END,
    subject_sha256 = CASE WHEN actlog.takes(r.subject_sha256, r.revs[12], excluded.subject_sha256, excluded.revs[12]) THEN excluded.subject_sha256 ELSE r.subject_sha256 END,
    decision_text = CASE WHEN actlog.takes(r.decision_text, r.revs[13], excluded.decision_text, excluded.revs[13]) THEN excluded.decision_text ELSE r.decision_text END,
    claimed_by = CASE WHEN actlog.takes(r.claimed_by, r.revs[14], excluded.claimed_by, excluded.revs[14]) THEN excluded.claimed_by ELSE r.claimed_by END,
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[15], excluded.forked_from, excluded.revs[15]) THEN excluded.forked_from ELSE r.forked_from END,
    truncated = CASE
        WHEN excluded.truncated <@ COALESCE(r.truncated, '{}') THEN r.truncated
        WHEN excluded.truncated IS NULL THEN r.truncated
        ELSE r.truncated || excluded.truncated
    END,
    revs = CASE WHEN r.revs IS NULL AND excluded.revs IS NULL THEN NULL ELSE ARRAY[
        GREATEST(r.revs[1], excluded.revs[1]),
        GREATEST(r.revs[2], excluded.revs[2]),
        GREATEST(r.revs[3], excluded.revs[3]),
        GREATEST(r.revs[4], excluded.revs[4]),
        GREATEST(r.revs[5], excluded.revs[5]),
        GREATEST(r.revs[6], excluded.revs[6]),
        CASE WHEN actlog.takes_state(r.told_state, r.revs[7], excluded.told_state, excluded.revs[7]) THEN COALESCE(excluded.revs[7], r.revs[7]) ELSE r.revs[7] END,
        GREATEST(r.revs[8], excluded.revs[8]),
        GREATEST(r.revs[9], excluded.revs[9]),
        GREATEST(r.revs[10], excluded.revs[10]),
        GREATEST(r.revs[11], excluded.revs[11]),
        GREATEST(r.revs[12], excluded.revs[12]),
        GREATEST(r.revs[13], excluded.revs[13]),
        GREATEST(r.revs[14], excluded.revs[14]),
        GREATEST(r.revs[15], excluded.revs[15])
    ] END
WHERE NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1])
    OR actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2])
    OR actlog.takes(r.type, r.revs[3], excluded.type, excluded.revs[3])
    OR actlog.takes(r.title, r.revs[4], excluded.title, excluded.revs[4])
    OR actlog.takes(r.form_description, r.revs[5], excluded.form_description, excluded.revs[5])
    OR actlog.takes(r.form_inputs::text, r.revs[6], excluded.form_inputs::text, excluded.revs[6])
    OR actlog.takes_state(r.told_state, r.revs[7], excluded.told_state, excluded.revs[7])
    OR actlog.takes(r.decision, r.revs[8], excluded.decision, excluded.revs[8])
    OR actlog.takes(r.decided_by, r.revs[9], excluded.decided_by, excluded.revs[9])
    OR excluded.start_time < COALESCE(r.start_time, 'infinity')
    OR excluded.end_time > COALESCE(r.end_time, '-infinity')
    OR actlog.takes(r.expires_at, r.revs[10], excluded.expires_at, excluded.revs[10])
    OR actlog.takes(r.subject::text, r.revs[11], excluded.subject::text, excluded.revs[11])
    OR actlog.takes(r.subject_sha256, r.revs[12], excluded.subject_sha256, excluded.revs[12])
    OR actlog.takes(r.decision_text, r.revs[13], excluded.decision_text, excluded.revs[13])
    OR actlog.takes(r.claimed_by, r.revs[14], excluded.claimed_by, excluded.revs[14])
    OR actlog.takes(r.forked_from, r.revs[15], excluded.forked_from, excluded.revs[15])
