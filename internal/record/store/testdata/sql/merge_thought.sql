INSERT INTO actlog.thought AS r (
    root_plan_id,
    plan_id,
    thought_id,
    step_id,
    agent_id,
    role,
    iteration,
    type,
    content,
    related_operations,
    confidence,
    time,
    forked_from,
    truncated,
    revs
)
SELECT
    u.root_plan_id,
    u.plan_id,
    u.thought_id,
    u.step_id,
    u.agent_id,
    u.role,
    u.iteration,
    u.type,
    u.content,
    u.related_operations::text[],
    u.confidence,
    u.time,
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
    $7::bigint[],
    $8::text[],
    $9::text[],
    $10::text[],
    $11::double precision[],
    $12::timestamptz[],
    $13::text[],
    $14::text[],
    $15::text[]
) AS u (
    root_plan_id,
    plan_id,
    thought_id,
    step_id,
    agent_id,
    role,
    iteration,
    type,
    content,
    related_operations,
    confidence,
    time,
    forked_from,
    truncated,
    revs
)
ON CONFLICT (root_plan_id, plan_id, thought_id) DO UPDATE SET
    step_id = CASE WHEN actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1]) THEN excluded.step_id ELSE r.step_id END,
    agent_id = CASE WHEN actlog.takes(r.agent_id, r.revs[2], excluded.agent_id, excluded.revs[2]) THEN excluded.agent_id ELSE r.agent_id END,
    role = CASE WHEN actlog.takes(r.role, r.revs[3], excluded.role, excluded.revs[3]) THEN excluded.role ELSE r.role END,
    iteration = CASE WHEN actlog.takes(r.iteration, r.revs[4], excluded.iteration, excluded.revs[4]) THEN excluded.iteration ELSE r.iteration END,
    type = CASE WHEN actlog.takes(r.type, r.revs[5], excluded.type, excluded.revs[5]) THEN excluded.type ELSE r.type END,
    content = CASE WHEN actlog.takes(r.content, r.revs[6], excluded.content, excluded.revs[6]) THEN excluded.content ELSE r.content END,
    related_operations = CASE WHEN actlog.takes(r.related_operations, r.revs[7], excluded.related_operations, excluded.revs[7]) THEN excluded.related_operations ELSE r.related_operations END,
    confidence = CASE WHEN actlog.takes(r.confidence, r.revs[8], excluded.confidence, excluded.revs[8]) THEN excluded.confidence ELSE r.confidence END,
    time = CASE WHEN actlog.takes(r.time, r.revs[9], excluded.time, excluded.revs[9]) THEN excluded.time ELSE r.time END,
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[10], excluded.forked_from, excluded.revs[10]) THEN excluded.forked_from ELSE r.forked_from END,
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
        GREATEST(r.revs[7], excluded.revs[7]),
        GREATEST(r.revs[8], excluded.revs[8]),
        GREATEST(r.revs[9], excluded.revs[9]),
        GREATEST(r.revs[10], excluded.revs[10])
    ] END
WHERE NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1])
    OR actlog.takes(r.agent_id, r.revs[2], excluded.agent_id, excluded.revs[2])
    OR actlog.takes(r.role, r.revs[3], excluded.role, excluded.revs[3])
    OR actlog.takes(r.iteration, r.revs[4], excluded.iteration, excluded.revs[4])
    OR actlog.takes(r.type, r.revs[5], excluded.type, excluded.revs[5])
    OR actlog.takes(r.content, r.revs[6], excluded.content, excluded.revs[6])
    OR actlog.takes(r.related_operations, r.revs[7], excluded.related_operations, excluded.revs[7])
    OR actlog.takes(r.confidence, r.revs[8], excluded.confidence, excluded.revs[8])
    OR actlog.takes(r.time, r.revs[9], excluded.time, excluded.revs[9])
    OR actlog.takes(r.forked_from, r.revs[10], excluded.forked_from, excluded.revs[10])
