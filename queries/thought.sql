-- name: ThoughtList :many
-- What was thought in a plan, in order of time, from a cursor on.
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
    i.id, COALESCE(i.thought_id, '')::text AS thought_id, i.step_id, i.agent_id, i.role, i.iteration, i.type, i.content, i.related_operations, i.confidence,
    i."time", i.truncated, COALESCE(i.found, 0)::bigint AS found
FROM asked
LEFT JOIN LATERAL (
    SELECT y.*
    FROM (
        SELECT
            x.*, count(*) OVER () AS found,
            sum(COALESCE(octet_length(x.content), 0)) OVER (ORDER BY COALESCE(x."time", TIMESTAMPTZ '10000-01-01 00:00:00+00'), COALESCE(x.iteration, 2147483647), x.thought_id) AS bytes,
            row_number() OVER (ORDER BY COALESCE(x."time", TIMESTAMPTZ '10000-01-01 00:00:00+00'), COALESCE(x.iteration, 2147483647), x.thought_id) AS place
        FROM (
            SELECT x.*
            FROM actlog.thought AS x
            WHERE x.root_plan_id = asked.root_plan_id AND x.plan_id = asked.current_plan_id
                AND (COALESCE(x."time", TIMESTAMPTZ '10000-01-01 00:00:00+00'), COALESCE(x.iteration, 2147483647), x.thought_id) > (@after_time::timestamptz, @after_number::integer, @after_id::text)
            ORDER BY COALESCE(x."time", TIMESTAMPTZ '10000-01-01 00:00:00+00'), COALESCE(x.iteration, 2147483647), x.thought_id
            LIMIT @page_size::integer
        ) AS x
    ) AS y
    WHERE y.bytes <= @page_bytes::bigint OR y.place = 1
) AS i ON true
ORDER BY i.place;
