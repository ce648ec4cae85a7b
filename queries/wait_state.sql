-- name: WaitList :many
-- What a plan waited for, in order of time, from a cursor on.
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
    i.id, COALESCE(i.wait_id, '')::text AS wait_id, i.step_id, i.tool_call_id, i.type, i.title, i.form_description, i.form_inputs, COALESCE(i.state, '')::text AS state, i.decision,
    i.decided_by, i.start_time, i.end_time, i.expires_at, i.truncated, COALESCE(i.found, 0)::bigint AS found
FROM asked
LEFT JOIN LATERAL (
    SELECT y.*
    FROM (
        SELECT
            x.*, count(*) OVER () AS found,
            sum(COALESCE(octet_length(x.title), 0) + COALESCE(octet_length(x.form_description), 0) + COALESCE(octet_length(x.form_inputs::text), 0) + COALESCE(octet_length(x.decision), 0)) OVER (ORDER BY COALESCE(x.start_time, TIMESTAMPTZ '10000-01-01 00:00:00+00'), x.wait_id) AS bytes,
            row_number() OVER (ORDER BY COALESCE(x.start_time, TIMESTAMPTZ '10000-01-01 00:00:00+00'), x.wait_id) AS place
        FROM (
            SELECT x.*
            FROM actlog.wait_state AS x
            WHERE x.root_plan_id = asked.root_plan_id AND x.plan_id = asked.current_plan_id
                AND (COALESCE(x.start_time, TIMESTAMPTZ '10000-01-01 00:00:00+00'), x.wait_id) > (@after_time::timestamptz, @after_id::text)
            ORDER BY COALESCE(x.start_time, TIMESTAMPTZ '10000-01-01 00:00:00+00'), x.wait_id
            LIMIT @page_size::integer
        ) AS x
    ) AS y
    WHERE y.bytes <= @page_bytes::bigint OR y.place = 1
) AS i ON true
ORDER BY i.place;
