-- name: PlanLive :many
-- Returns up to three root plans of a period that have not ended. Its detail is still in use.
SELECT root_plan_id
FROM actlog.plan_execution_record
WHERE NOT completed AND root_plan_id = current_plan_id AND part >= @from_day::date AND part < @to_day::date
ORDER BY root_plan_id
LIMIT 3;

-- name: PlanOutdated :many
-- Returns trees that have ended, with all of their runs, and were first seen more than keep_days ago, oldest first,
-- behind a cursor.
SELECT root_plan_id, first_seen_at
FROM actlog.plan_execution_record
WHERE root_plan_id = current_plan_id AND completed
    AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = plan_execution_record.root_plan_id AND NOT o.done)
    AND first_seen_at < now() - make_interval(days => @keep_days::integer)
    AND (first_seen_at, root_plan_id) > (@after_time::timestamptz, @after_id::text)
ORDER BY first_seen_at, root_plan_id
LIMIT 200;

-- name: PlanRootOf :one
-- Returns the root of the tree that a plan belongs to, as PlanHome does. A root plan is its own root.
SELECT x.root_plan_id
FROM actlog.plan_execution_record AS x
WHERE x.current_plan_id = @plan_id::text
ORDER BY EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.current_plan_id) DESC,
    x.root_plan_id = x.current_plan_id DESC, x.first_seen_at DESC, x.root_plan_id DESC
LIMIT 1;

-- name: PlanUnseen :many
-- Returns trees whose live plans have sent heartbeats, and none in a range of time, with the last
-- one: all behind a cursor, or only some of them. A tree with a plan that is WAITING or PAUSED is
-- not dead, nor is one that waits for a human: with a wait that has not expired, of a live plan or
-- below a live root. The runtime itself looks after its runs. A heartbeat after the range is one from before the clock of the database went back.
SELECT r.root_plan_id, r.last_seen_at::timestamptz AS last_seen_at
FROM (
    SELECT DISTINCT p.root_plan_id
    FROM actlog.plan_execution_record AS p
    WHERE NOT p.completed AND p.root_plan_id > @after_id::text AND (p.beat_at < @since::timestamptz OR p.beat_at > @until::timestamptz)
        AND (sqlc.narg('among')::text[] IS NULL OR p.root_plan_id = ANY (sqlc.narg('among')::text[]))
) AS live
CROSS JOIN LATERAL (
    SELECT live.root_plan_id, max(t.last_seen_at) AS last_seen_at, bool_or(t.beat_at BETWEEN @since::timestamptz AND @until::timestamptz) AS seen,
        bool_or(t.state IN ('WAITING', 'PAUSED') OR EXISTS (
            SELECT FROM actlog.wait_state AS w
            WHERE w.root_plan_id = t.root_plan_id AND t.current_plan_id IN (w.plan_id, w.root_plan_id)
                AND w.state = 'WAITING' AND COALESCE(w.expires_at > @until::timestamptz, true)
        )) AS waits
    FROM actlog.plan_execution_record AS t
    WHERE t.root_plan_id = live.root_plan_id AND NOT t.completed
) AS r
WHERE NOT r.seen AND NOT r.waits
    AND NOT EXISTS (SELECT FROM actlog.run AS e WHERE e.root_plan_id = r.root_plan_id)
ORDER BY r.root_plan_id COLLATE "C"
LIMIT 100;

-- name: PlanLockFree :many
-- Locks those of some root plans that nobody else holds, in the same order as writers, and returns
-- them.
SELECT p.root_plan_id
FROM (SELECT x.id FROM unnest(@root_plan_ids::text[]) AS x (id) ORDER BY x.id COLLATE "C") AS u
CROSS JOIN LATERAL (
    SELECT x.root_plan_id
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR NO KEY UPDATE SKIP LOCKED
) AS p;

-- name: Clock :one
-- Returns the time of the database.
SELECT clock_timestamp()::timestamptz AS now;

-- The next statements delete trees. TreeRoots locks the root plans, so nobody else writes to
-- the trees meanwhile.

-- name: TreeRoots :many
-- Locks the root plans that are on record, in the same order as writers, and returns them with
-- the part of their detail.
SELECT p.root_plan_id, p.part
FROM (SELECT x.id FROM unnest(@root_plan_ids::text[]) AS x (id) ORDER BY x.id COLLATE "C") AS u
CROSS JOIN LATERAL (
    SELECT x.root_plan_id, x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR UPDATE
) AS p;

-- name: TreeDeleteSpans :exec
DELETE FROM actlog.otlp_span AS s
USING actlog.otlp_trace AS t
WHERE t.root_plan_id = ANY (@root_plan_ids::text[]) AND s.trace_id = t.trace_id AND s.part = t.part;

-- name: TreeDeleteTraces :exec
DELETE FROM actlog.otlp_trace WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteActTools :exec
DELETE FROM actlog.act_tool_info WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND part = ANY (@parts::date[]);

-- name: TreeDeleteThinkActs :exec
DELETE FROM actlog.think_act_record WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND part = ANY (@parts::date[]);

-- name: TreeDeleteContents :exec
DELETE FROM actlog.content WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND part = ANY (@parts::date[]);

-- name: TreeDeleteThoughts :exec
DELETE FROM actlog.thought WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteArtifacts :exec
DELETE FROM actlog.artifact WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteSources :exec
DELETE FROM actlog.source_reference WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteWaits :exec
DELETE FROM actlog.wait_state WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteAgentExecutions :exec
DELETE FROM actlog.agent_execution_record WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeleteInterrupted :exec
DELETE FROM actlog.interrupted WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: TreeDeletePlans :exec
DELETE FROM actlog.plan_execution_record WHERE root_plan_id = ANY (@root_plan_ids::text[]);

-- name: PartitionList :exec
-- Returns the partitions of some tables, without the default ones, by their days. Within a
-- period, the table that sorts last comes first: think-acts before tools, as writers lock them.
SELECT p.relname::text AS parent, c.relname::text AS name, b.bounds[1]::date AS from_day, b.bounds[2]::date AS to_day
FROM pg_inherits AS i
JOIN pg_class AS p ON p.oid = i.inhparent
JOIN pg_class AS c ON c.oid = i.inhrelid
CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([0-9-]+)''\) TO \(''([0-9-]+)''\)') AS b (bounds)
WHERE p.relnamespace = 'actlog'::regnamespace AND p.relname = ANY (@tables::text[]) AND b.bounds IS NOT NULL
ORDER BY 3, 4, p.relname DESC;

-- name: PartitionAdd :exec
SELECT actlog.add_partition(@parent::text, @from_day::date, @to_day::date);

-- name: PartitionOwned :exec
-- Reports whether the role owns some tables and, if asked, may rename them.
SELECT bool_and(pg_has_role(relowner, 'USAGE')) AND (NOT @renames::boolean OR has_schema_privilege('actlog', 'CREATE')) AS owned
FROM pg_class
WHERE relnamespace = 'actlog'::regnamespace AND relname = ANY (@names::text[]);

-- name: PartitionAttached :exec
-- Returns how many of some tables are partitions.
SELECT count(*) AS attached
FROM pg_class
WHERE relnamespace = 'actlog'::regnamespace AND relname = ANY (@names::text[]) AND relispartition;

-- name: PartitionDetached :exec
-- Returns the partitions that were detached from their tables and still exist.
SELECT relname::text AS name
FROM pg_class
WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname LIKE 'dropping\_%' AND pg_has_role(relowner, 'USAGE')
ORDER BY 1;

-- name: PartitionForeignKeys :exec
-- Returns the foreign keys of a partition.
SELECT conname::text AS name
FROM pg_constraint
WHERE contype = 'f' AND conrelid = to_regclass('actlog.' || @partition::text);

-- name: PartitionDefaultDays :many
-- Returns the parts of the rows in the default partitions, except of dropped periods.
SELECT d.part
FROM (
    SELECT part FROM actlog.think_act_record_default
    UNION SELECT part FROM actlog.act_tool_info_default
    UNION SELECT part FROM actlog.content_default
) AS d
WHERE NOT EXISTS (SELECT FROM actlog.dropped_detail AS x WHERE d.part >= x.from_day AND d.part < x.to_day)
ORDER BY 1;

-- name: DetailDropped :execrows
-- Notes that the detail of a period is dropped. From now on its roll-ups do not change.
INSERT INTO actlog.dropped_detail (from_day, to_day) VALUES (@from_day::date, @to_day::date) ON CONFLICT DO NOTHING;

-- name: TurnTake :one
-- Reports whether this transaction does some part of the upkeep. If not, another one does.
SELECT COALESCE(pg_try_advisory_xact_lock(hashtext(@task::text)), false)::boolean AS mine;

-- name: Today :one
-- Returns the UTC day, by the clock of the database.
SELECT COALESCE((now() AT TIME ZONE 'utc')::date, '-infinity')::date AS day;

-- In the next two statements, package upkeep replaces the table actlog.act_tool_info by a
-- detached partition, or by deleted rows.

-- name: LinkSave :exec
-- Saves, for a page of sub-plans of a part, the step under which each stands. It finds the step
-- through the tool calls, as PlanTree does. Returns the size of the page and its last plan.
WITH page AS MATERIALIZED (
    SELECT p.root_plan_id, p.current_plan_id, p.tool_call_id, p.part
    FROM actlog.plan_execution_record AS p
    WHERE p.part = @part::date AND p.tool_call_id IS NOT NULL AND (p.root_plan_id, p.current_plan_id) > (@after_root::text, @after_plan::text)
    ORDER BY p.root_plan_id, p.current_plan_id
    LIMIT @page_size::integer
),
link AS MATERIALIZED (
    SELECT page.root_plan_id, page.current_plan_id, t.step_id
    FROM page
    CROSS JOIN LATERAL (
        SELECT c.step_id
        FROM actlog.act_tool_info AS c
        JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
        WHERE c.root_plan_id = page.root_plan_id AND c.tool_call_id = page.tool_call_id AND c.part = page.part
        ORDER BY LEAST(a.start_time, actlog.first_start(a.attempts)) NULLS LAST, a.step_id, c.seq
        LIMIT 1
    ) AS t
),
found AS MATERIALIZED (
    SELECT p.root_plan_id, p.current_plan_id, link.step_id
    FROM link
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = link.root_plan_id AND p.current_plan_id = link.current_plan_id
    WHERE p.parent_step_id IS DISTINCT FROM link.step_id
    ORDER BY p.root_plan_id, p.current_plan_id
    FOR NO KEY UPDATE OF p
),
saved AS (
    UPDATE actlog.plan_execution_record AS p
    SET parent_step_id = found.step_id
    FROM found
    WHERE p.root_plan_id = found.root_plan_id AND p.current_plan_id = found.current_plan_id
),
fed AS (
    INSERT INTO actlog.change (root_plan_id, kinds) SELECT DISTINCT root_plan_id, '{plan}'::text[] FROM found
)
SELECT count(*), (array_agg(root_plan_id ORDER BY root_plan_id DESC, current_plan_id DESC))[1],
    (array_agg(current_plan_id ORDER BY root_plan_id DESC, current_plan_id DESC))[1]
FROM page;

-- name: DetailCount :exec
-- Adds tool calls to their daily figures. Calls of deleted trees are not counted, nor are copies.
INSERT INTO actlog.tool_daily AS d (day, tool_name, server_name, project, calls, failures, total_ms, histogram)
SELECT x.day, x.tool_name, x.server_name, x.project, sum(x.calls), sum(x.failures), COALESCE(sum(x.ms), 0),
    actlog.histogram(array_agg(x.bucket), array_agg(x.calls::bigint))
FROM (
    SELECT s.day, s.tool_name, s.server_name, COALESCE(p.project, r.project, 'default') AS project, s.bucket,
        sum(s.calls) AS calls, sum(s.failures) AS failures, sum(s.ms) AS ms
    FROM (
        SELECT c.root_plan_id, c.step_id, c.day, c.tool_name, c.server_name, actlog.duration_bucket(c.ms) AS bucket,
            count(*) AS calls, count(*) FILTER (WHERE c.failed) AS failures, sum(c.ms) AS ms
        FROM (
            SELECT t.root_plan_id, t.step_id, COALESCE(t.name, '') AS tool_name, COALESCE(t.server_name, '') AS server_name,
                COALESCE((COALESCE(t.start_time, t.end_time, t.first_seen_at) AT TIME ZONE 'utc')::date, t.part) AS day, t.state = 'FAILED' AS failed,
                CASE WHEN t.start_time IS NOT NULL AND t.end_time IS NOT NULL
                    THEN GREATEST(0, round(1000 * extract(epoch FROM t.end_time - t.start_time)))::bigint END AS ms
            FROM actlog.act_tool_info AS t
            WHERE t.forked_from IS NULL
        ) AS c
        GROUP BY 1, 2, 3, 4, 5, 6
    ) AS s
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = s.root_plan_id AND a.step_id = s.step_id
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
    JOIN actlog.plan_execution_record AS r ON r.root_plan_id = a.root_plan_id AND r.current_plan_id = a.root_plan_id
    GROUP BY 1, 2, 3, 4, 5
) AS x
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
ON CONFLICT (day, tool_name, server_name, project) DO UPDATE SET
    calls = d.calls + excluded.calls,
    failures = d.failures + excluded.failures,
    total_ms = d.total_ms + excluded.total_ms,
    histogram = actlog.add_histograms(d.histogram, excluded.histogram);

-- name: SpanMove :exec
-- Moves the old spans of traces that still grow to the current day.
WITH moved AS (
    UPDATE actlog.otlp_trace AS t
    SET part = (now() AT TIME ZONE 'utc')::date
    FROM actlog.otlp_trace AS old
    WHERE old.trace_id = t.trace_id AND t.part < (now() AT TIME ZONE 'utc')::date - @trace_days::integer
        AND EXISTS (SELECT FROM actlog.otlp_span AS s WHERE s.trace_id = t.trace_id AND s.part = t.part)
    RETURNING t.trace_id, old.part AS from_part, t.part
)
INSERT INTO actlog.otlp_span (trace_id, part, id, spans)
SELECT s.trace_id, moved.part, s.id, s.spans
FROM moved JOIN actlog.otlp_span AS s ON s.trace_id = moved.trace_id AND s.part = moved.from_part;

-- name: DetailToForget :many
-- Returns the dropped periods whose texts are still in steps and waits.
SELECT from_day, to_day FROM actlog.dropped_detail WHERE NOT forgotten ORDER BY from_day;

-- name: DetailRoots :many
-- Returns root plans of a period behind a cursor, in the order of parts and ids.
SELECT p.part, p.root_plan_id
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = p.current_plan_id AND p.part < @to_day::date AND (p.part, p.root_plan_id) > (@after_part::date, @after_root::text)
ORDER BY p.part, p.root_plan_id
LIMIT @most::integer;

-- name: StepForget :execrows
-- Removes from the steps of dropped trees the arguments of their last tool calls, from some at a time. Steps are locked in the
-- order of the writers.
WITH page AS MATERIALIZED (
    SELECT s.root_plan_id, s.step_id
    FROM actlog.agent_execution_record AS s
    WHERE s.root_plan_id = ANY (@root_plan_ids::text[]) AND s.latest_tool_args IS NOT NULL
    ORDER BY s.root_plan_id, s.step_id
    LIMIT @most::integer
    FOR NO KEY UPDATE
)
UPDATE actlog.agent_execution_record AS s
SET latest_tool_args = NULL
FROM page
WHERE s.root_plan_id = page.root_plan_id AND s.step_id = page.step_id;

-- name: WaitForget :execrows
-- Removes from the waits of dropped trees the tool calls that were to be approved, and the questions and answers of forms, from
-- some waits at a time.
WITH page AS MATERIALIZED (
    SELECT w.root_plan_id, w.plan_id, w.wait_id
    FROM actlog.wait_state AS w
    WHERE w.root_plan_id = ANY (@root_plan_ids::text[]) AND w.tool_call_id IS NOT NULL AND w.state <> 'WAITING'
        AND (w.subject IS NOT NULL OR w.form_inputs IS NOT NULL OR w.form_description IS NOT NULL)
    ORDER BY w.root_plan_id, w.plan_id, w.wait_id
    LIMIT @most::integer
    FOR NO KEY UPDATE
)
UPDATE actlog.wait_state AS w
SET subject = NULL, form_inputs = NULL, form_description = NULL, title = CASE WHEN w.type <> 'USER_INPUT' THEN w.title END
FROM page
WHERE w.root_plan_id = page.root_plan_id AND w.plan_id = page.plan_id AND w.wait_id = page.wait_id;

-- name: FailureForget :exec
-- Removes what failed among the cycles and tool calls of dropped trees.
DELETE FROM actlog.failure AS f
WHERE f.root_plan_id = ANY (@root_plan_ids::text[]) AND f.kind IN ('thinkAct', 'actTool');

-- name: DetailForgotten :exec
-- Notes that the texts of a dropped period are in no step and no wait.
UPDATE actlog.dropped_detail SET forgotten = true WHERE from_day = @from_day::date AND to_day = @to_day::date;
