INSERT INTO actlog.artifact AS r (
    root_plan_id,
    plan_id,
    name,
    step_id,
    tool_call_id,
    type,
    value,
    forked_from,
    truncated,
    revs
)
SELECT
    u.root_plan_id,
    u.plan_id,
    u.name,
    u.step_id,
    u.tool_call_id,
    u.type,
    u.value::json,
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
    $10::text[]
) AS u (
    root_plan_id,
    plan_id,
    name,
    step_id,
    tool_call_id,
    type,
    value,
    forked_from,
    truncated,
    revs
)
ON CONFLICT (root_plan_id, plan_id, name) DO UPDATE SET
    step_id = CASE WHEN actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1]) THEN excluded.step_id ELSE r.step_id END,
    tool_call_id = CASE WHEN actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2]) THEN excluded.tool_call_id ELSE r.tool_call_id END,
    type = CASE WHEN actlog.takes(r.type, r.revs[3], excluded.type, excluded.revs[3]) THEN excluded.type ELSE r.type END,
    value = CASE WHEN actlog.takes(r.value::text, r.revs[4], excluded.value::text, excluded.revs[4]) THEN excluded.value ELSE r.value END,
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[5], excluded.forked_from, excluded.revs[5]) THEN excluded.forked_from ELSE r.forked_from END,
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
        GREATEST(r.revs[5], excluded.revs[5])
    ] END
WHERE NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1])
    OR actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2])
    OR actlog.takes(r.type, r.revs[3], excluded.type, excluded.revs[3])
    OR actlog.takes(r.value::text, r.revs[4], excluded.value::text, excluded.revs[4])
    OR actlog.takes(r.forked_from, r.revs[5], excluded.forked_from, excluded.revs[5])
