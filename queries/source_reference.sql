-- name: SourceList :many
-- What was relied on in a plan, by id, from a cursor on.
-- A row without an item where the plan has none. A page ends before the item
-- that would make it too large, but holds one at least.
WITH asked AS MATERIALIZED (
    SELECT root_plan_id, current_plan_id
    FROM actlog.plan_execution_record
    WHERE current_plan_id = @plan_id::text
    ORDER BY first_seen_at DESC, root_plan_id DESC
    LIMIT 1
)
SELECT
    asked.root_plan_id, asked.current_plan_id,
    i.id, COALESCE(i.source_id, '')::text AS source_id, i.step_id, i.tool_call_id, i.uri, i.type, i.line_start, i.line_end, i.snippet, i.description,
    i.relevance_score, i.metadata, i.truncated, COALESCE(i.found, 0)::bigint AS found
FROM asked
LEFT JOIN LATERAL (
    SELECT y.*
    FROM (
        SELECT
            x.*, count(*) OVER () AS found,
            sum(COALESCE(octet_length(x.uri), 0) + COALESCE(octet_length(x.snippet), 0) + COALESCE(octet_length(x.description), 0) + COALESCE(octet_length(x.metadata::text), 0)) OVER (ORDER BY x.source_id) AS bytes,
            row_number() OVER (ORDER BY x.source_id) AS place
        FROM (
            SELECT x.*
            FROM actlog.source_reference AS x
            WHERE x.root_plan_id = asked.root_plan_id AND x.plan_id = asked.current_plan_id
                AND x.source_id > @after_id::text
            ORDER BY x.source_id
            LIMIT @page_size::integer
        ) AS x
    ) AS y
    WHERE y.bytes <= @page_bytes::bigint OR y.place = 1
) AS i ON true
ORDER BY i.place;
