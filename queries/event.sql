-- Events, and the tool calls that wait for one or until a time.

-- name: EventAdd :one
-- Adds an event, unless a request of its sender with its idempotency key sent one in the project.
INSERT INTO actlog.event (project, key, data, sent_by, claimed_by, idempotency_key, request_sha256)
VALUES (
    @project::text, @key::text, @data::json, @sent_by::text, sqlc.narg('claimed_by')::text,
    sqlc.narg('idempotency_key')::text, sqlc.narg('request_sha256')::text
)
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: EventByKey :one
-- Returns the event that a request of somebody with an idempotency key sent in a project.
SELECT e.event_id, COALESCE(e.request_sha256, '')::text AS request_sha256
FROM actlog.event AS e
WHERE e.idempotency_key = @idempotency_key::text AND e.sent_by = @sent_by::text AND e.project = @project::text;

-- name: EventTurn :exec
-- Waits until no other event of the same key wakes runs, to the end of the transaction. So each call is woken by one.
SELECT pg_advisory_xact_lock(hashtextextended('actlog.event ' || e.project || ' ' || e.key, 0))
FROM actlog.event AS e
WHERE e.event_id = @event_id::bigint;

-- name: EventWake :exec
-- Makes the runs due that wait for an event, which is committed, and notes how many runs it woke: of each tree at most one
-- call that no event before has woken. A run that is to pause takes it when it goes on. The caller has the turn. Runs are
-- locked in the order of RunHold.
WITH sent AS MATERIALIZED (
    SELECT e.event_id, e.project, e.key, e.sent_at
    FROM actlog.event AS e
    WHERE e.event_id = @event_id::bigint AND e.woken IS NULL
),
waits AS MATERIALIZED (
    SELECT w.root_plan_id, w.plan_id, w.tool_call_id, w.since, w.woken
    FROM sent AS s
    JOIN actlog.event_wait AS w ON w.project = s.project AND w.key = s.key AND COALESCE(s.sent_at < w.until, true)
    WHERE NOT EXISTS (SELECT FROM actlog.event_taken AS t WHERE t.root_plan_id = w.root_plan_id AND t.event_id = s.event_id)
),
runs AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id
    FROM (SELECT DISTINCT w.root_plan_id, w.plan_id FROM waits AS w ORDER BY w.root_plan_id, w.plan_id) AS d
    CROSS JOIN LATERAL (
        SELECT x.root_plan_id, x.plan_id
        FROM actlog.run AS x
        WHERE x.root_plan_id = d.root_plan_id AND x.plan_id = d.plan_id AND NOT x.done AND x.desired = 'RUN'
        OFFSET 0
        FOR NO KEY UPDATE
    ) AS r
),
due AS (
    UPDATE actlog.run AS r
    SET signals = r.signals + 1, due_at = CASE WHEN r.worker_id IS NULL THEN now() END
    FROM runs AS d
    WHERE r.root_plan_id = d.root_plan_id AND r.plan_id = d.plan_id
),
next AS MATERIALIZED (
    SELECT DISTINCT ON (w.root_plan_id) w.root_plan_id, w.plan_id, w.tool_call_id
    FROM waits AS w
    JOIN runs AS r ON r.root_plan_id = w.root_plan_id AND r.plan_id = w.plan_id
    WHERE NOT w.woken
    ORDER BY w.root_plan_id, w.since, w.plan_id, w.tool_call_id
),
woken AS (
    UPDATE actlog.event_wait AS w
    SET woken = true
    FROM next AS n
    WHERE w.root_plan_id = n.root_plan_id AND w.plan_id = n.plan_id AND w.tool_call_id = n.tool_call_id
    RETURNING w.root_plan_id
)
UPDATE actlog.event AS e
SET woken = (SELECT count(*) FROM woken AS w)
FROM sent AS s
WHERE e.event_id = s.event_id;

-- name: EventWoken :one
-- Returns how many runs an event woke.
SELECT COALESCE(e.woken, 0)::integer AS woken FROM actlog.event AS e WHERE e.event_id = @event_id::bigint;

-- name: EventOpen :many
-- Returns events whose sender was lost before those that wait were woken.
SELECT e.event_id
FROM actlog.event AS e
WHERE e.woken IS NULL AND e.sent_at < now() - INTERVAL '1 second'
ORDER BY e.event_id
LIMIT @most::integer;

-- name: EventWaitAdd :exec
-- Notes that a tool call of a run waits for an event, or until a time. The caller holds the root plan.
INSERT INTO actlog.event_wait (root_plan_id, plan_id, tool_call_id, project, key, since, until)
SELECT r.root_plan_id, r.plan_id, @tool_call_id::text, r.project, sqlc.narg('key')::text, now(), sqlc.narg('until')::timestamptz
FROM actlog.run AS r
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
ON CONFLICT (root_plan_id, plan_id, tool_call_id) DO UPDATE
SET key = EXCLUDED.key, since = EXCLUDED.since, until = EXCLUDED.until, woken = false;

-- name: EventTake :many
-- Ends the wait of a tool call, if it is over: with the oldest event that its run has not taken, which it takes; or without
-- data, because the time is over. What an attempt of a call took once it takes again. Returns no row if it still waits. The
-- wait was committed before, so that no event is missed that is sent meanwhile. A call that takes what woke another one of its
-- tree leaves that to be woken by the next event. The caller holds the root plan.
WITH wait AS MATERIALIZED (
    SELECT w.project, w.key, w.since, w.until, w.woken
    FROM actlog.event_wait AS w
    WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id = @plan_id::text AND w.tool_call_id = @tool_call_id::text
),
again AS MATERIALIZED (
    SELECT e.data
    FROM actlog.event_taken AS t
    JOIN actlog.event AS e ON e.event_id = t.event_id
    WHERE t.root_plan_id = @root_plan_id::text AND t.plan_id = @plan_id::text AND t.tool_call_id = @tool_call_id::text AND t.attempt = @attempt::integer
),
next AS MATERIALIZED (
    SELECT e.event_id, e.data
    FROM wait AS w
    JOIN actlog.event AS e ON e.project = w.project AND e.key = w.key
        AND e.sent_at >= w.since - INTERVAL '24 hours' AND COALESCE(e.sent_at < w.until, true)
    WHERE NOT EXISTS (SELECT FROM again)
        AND NOT EXISTS (SELECT FROM actlog.event_taken AS t WHERE t.root_plan_id = @root_plan_id::text AND t.event_id = e.event_id)
    ORDER BY e.event_id
    LIMIT 1
),
taken AS (
    INSERT INTO actlog.event_taken (root_plan_id, event_id, plan_id, tool_call_id, attempt)
    SELECT @root_plan_id::text, n.event_id, @plan_id::text, @tool_call_id::text, @attempt::integer
    FROM next AS n
),
passed_over AS (
    UPDATE actlog.event_wait AS w
    SET woken = false
    FROM (
        SELECT x.plan_id, x.tool_call_id
        FROM wait AS v
        JOIN actlog.event_wait AS x ON x.root_plan_id = @root_plan_id::text AND x.project = v.project AND x.key = v.key
        WHERE x.woken AND NOT v.woken AND EXISTS (SELECT FROM next)
        ORDER BY x.since, x.plan_id, x.tool_call_id
        LIMIT 1
    ) AS p
    WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id = p.plan_id AND w.tool_call_id = p.tool_call_id
),
over AS MATERIALIZED (
    SELECT a.data FROM again AS a
    UNION ALL
    SELECT n.data FROM next AS n
    UNION ALL
    SELECT NULL::json FROM wait AS w WHERE w.until <= now() AND NOT EXISTS (SELECT FROM again) AND NOT EXISTS (SELECT FROM next)
),
ended AS (
    DELETE FROM actlog.event_wait AS w
    WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id = @plan_id::text AND w.tool_call_id = @tool_call_id::text
        AND EXISTS (SELECT FROM over)
)
SELECT o.data FROM over AS o;

-- name: EventFork :exec
-- Notes that a fork has taken what calls of another tree took that it has copies of. The caller holds both root plans.
INSERT INTO actlog.event_taken (root_plan_id, event_id, plan_id, tool_call_id, attempt)
SELECT @to_root_plan_id::text, t.event_id, @to_root_plan_id::text, u.new_id, t.attempt
FROM unnest(@tool_call_ids::text[], @new_ids::text[]) AS u (id, new_id)
JOIN actlog.event_taken AS t ON t.root_plan_id = @from_root_plan_id::text AND t.tool_call_id = u.id
ON CONFLICT DO NOTHING;

-- name: EventForget :execrows
-- Deletes events that were sent more than a day ago, some at once: but for the oldest one that a run which waits may still
-- take, because no worker carried it meanwhile.
DELETE FROM actlog.event AS e
USING (
    SELECT x.event_id
    FROM actlog.event AS x
    WHERE x.sent_at < now() - INTERVAL '1 day' AND NOT EXISTS (
        SELECT FROM actlog.event_wait AS w
        WHERE w.project = x.project AND w.key = x.key AND x.event_id = (
            SELECT min(o.event_id)
            FROM actlog.event AS o
            WHERE o.project = w.project AND o.key = w.key AND o.sent_at >= w.since - INTERVAL '24 hours' AND COALESCE(o.sent_at < w.until, true)
                AND NOT EXISTS (SELECT FROM actlog.event_taken AS t WHERE t.root_plan_id = w.root_plan_id AND t.event_id = o.event_id)
        )
    )
    ORDER BY x.sent_at
    LIMIT @most::integer
) AS old
WHERE e.event_id = old.event_id;
