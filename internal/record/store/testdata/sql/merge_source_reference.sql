INSERT INTO actlog.source_reference AS r (
    root_plan_id,
    plan_id,
    source_id,
    step_id,
    tool_call_id,
    uri,
    type,
    line_start,
    line_end,
    snippet,
    description,
    relevance_score,
    metadata,
    forked_from,
    truncated,
    revs
)
SELECT
    u.root_plan_id,
    u.plan_id,
    u.source_id,
    u.step_id,
    u.tool_call_id,
    u.uri,
    u.type,
    u.line_start,
    u.line_end,
    u.snippet,
    u.description,
    u.relevance_score,
    u.metadata::json,
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
    $8::bigint[],
    $9::bigint[],
    $10::text[],
    $11::text[],
    $12::double precision[],
    $13::text[],
    $14::text[],
    $15::text[],
    $16::text[]
) AS u (
    root_plan_id,
    plan_id,
    source_id,
    step_id,
    tool_call_id,
    uri,
    type,
    line_start,
    line_end,
    snippet,
    description,
    relevance_score,
    metadata,
    forked_from,
    truncated,
    revs
)
ON CONFLICT (root_plan_id, plan_id, source_id) DO UPDATE SET
    step_id = CASE WHEN actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1]) THEN excluded.step_id ELSE r.step_id END,
    tool_call_id = CASE WHEN actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2]) THEN excluded.tool_call_id ELSE r.tool_call_id END,
    uri = CASE WHEN actlog.takes(r.uri, r.revs[3], excluded.uri, excluded.revs[3]) THEN excluded.uri ELSE r.uri END,
    type = CASE WHEN actlog.takes(r.type, r.revs[4], excluded.type, excluded.revs[4]) THEN excluded.type ELSE r.type END,
    line_start = CASE WHEN actlog.takes(r.line_start, r.revs[5], excluded.line_start, excluded.revs[5]) THEN excluded.line_start ELSE r.line_start END,
    line_end = CASE WHEN actlog.takes(r.line_end, r.revs[6], excluded.line_end, excluded.revs[6]) THEN excluded.line_end ELSE r.line_end END,
    snippet = CASE WHEN actlog.takes(r.snippet, r.revs[7], excluded.snippet, excluded.revs[7]) THEN excluded.snippet ELSE r.snippet END,
    description = CASE WHEN actlog.takes(r.description, r.revs[8], excluded.description, excluded.revs[8]) THEN excluded.description ELSE r.description END,
    relevance_score = CASE WHEN actlog.takes(r.relevance_score, r.revs[9], excluded.relevance_score, excluded.revs[9]) THEN excluded.relevance_score ELSE r.relevance_score END,
    metadata = CASE WHEN actlog.takes(r.metadata::text, r.revs[10], excluded.metadata::text, excluded.revs[10]) THEN excluded.metadata ELSE r.metadata END,
    forked_from = CASE WHEN actlog.takes(r.forked_from, r.revs[11], excluded.forked_from, excluded.revs[11]) THEN excluded.forked_from ELSE r.forked_from END,
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
        GREATEST(r.revs[10], excluded.revs[10]),
        GREATEST(r.revs[11], excluded.revs[11])
    ] END
WHERE NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))
    OR actlog.takes(r.step_id, r.revs[1], excluded.step_id, excluded.revs[1])
    OR actlog.takes(r.tool_call_id, r.revs[2], excluded.tool_call_id, excluded.revs[2])
    OR actlog.takes(r.uri, r.revs[3], excluded.uri, excluded.revs[3])
    OR actlog.takes(r.type, r.revs[4], excluded.type, excluded.revs[4])
    OR actlog.takes(r.line_start, r.revs[5], excluded.line_start, excluded.revs[5])
    OR actlog.takes(r.line_end, r.revs[6], excluded.line_end, excluded.revs[6])
    OR actlog.takes(r.snippet, r.revs[7], excluded.snippet, excluded.revs[7])
    OR actlog.takes(r.description, r.revs[8], excluded.description, excluded.revs[8])
    OR actlog.takes(r.relevance_score, r.revs[9], excluded.relevance_score, excluded.revs[9])
    OR actlog.takes(r.metadata::text, r.revs[10], excluded.metadata::text, excluded.revs[10])
    OR actlog.takes(r.forked_from, r.revs[11], excluded.forked_from, excluded.revs[11])
