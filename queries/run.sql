-- The runs of the runtime and the workers that hold them. A statement that writes to the record too
-- comes after the one that locks the root plan, as with every writer.

-- name: RunHold :many
-- Locks runs that workers hold under epochs, in their order, which is that of their ids. From here to the end of the
-- transaction no other worker can claim them. Returns the place of each, what it should do, and whether messages to it
-- wait. If some are not held, should do something else than is wanted (empty: anything), or have messages although they
-- should be quiet, it fails with SQLSTATE YA002, after it has returned those that are held.
WITH held AS MATERIALIZED (
    SELECT u.place, r.desired, r.unread > 0 AS unread, u.wanted IN ('', r.desired) AND NOT (u.quiet AND r.unread > 0) AS goes_on
    FROM unnest(@root_plan_ids::text[], @plan_ids::text[], @worker_ids::text[], @epochs::bigint[], @wanted::text[], @quiet::boolean[])
        WITH ORDINALITY AS u (root_plan_id, plan_id, worker_id, epoch, wanted, quiet, place)
    CROSS JOIN LATERAL ( -- one by one, by the primary key and no other index
        SELECT x.worker_id, x.epoch, x.done, x.desired, x.unread
        FROM actlog.run AS x
        WHERE x.root_plan_id = u.root_plan_id AND x.plan_id = u.plan_id
        OFFSET 0
        FOR NO KEY UPDATE
    ) AS r
    WHERE r.worker_id = u.worker_id AND r.epoch = u.epoch AND NOT r.done
)
SELECT h.place::bigint AS place, h.desired::text AS desired, h.unread::boolean AS unread
FROM held AS h
UNION ALL
SELECT 0, actlog.lease_lost()::text, false
WHERE (SELECT count(*) FROM held WHERE goes_on) < cardinality(@plan_ids::text[]);

-- name: RunOwned :exec
-- Fails with SQLSTATE YA004 if the runtime runs any of some plans. The plan of a run is in its tree, so with the
-- root plans among them this finds every tree that the runtime owns.
SELECT actlog.owned_by_runtime(array_agg(r.plan_id))
FROM actlog.run AS r
WHERE r.plan_id = ANY (@plan_ids::text[])
HAVING count(*) > 0;

-- name: RunAdd :execrows
-- Adds a run that is due, now or later, or held, unless it is there. The tree of a root run must be new: what is on
-- record of it before comes from outside.
INSERT INTO actlog.run (
    root_plan_id, plan_id, executor, name, definition_id, definition_version, needs, input, limits, depth,
    parent_plan_id, parent_step_id, parent_seq, parent_tool_call_id, owner, starter, project, idempotency_key, request_sha256, due_at, desired,
    parent_attempt, again_of, asked, priority, concurrency_key, agent, start_at, expires_at, schedule, tick_at, queued
)
SELECT
    @root_plan_id::text, @plan_id::text, @executor::text, sqlc.narg('name')::text, sqlc.narg('definition_id')::text, sqlc.narg('definition_version')::integer,
    @needs::text[], @input::json, sqlc.narg('limits')::json, @depth::integer,
    sqlc.narg('parent_plan_id')::text, sqlc.narg('parent_step_id')::text, sqlc.narg('parent_seq')::integer, sqlc.narg('parent_tool_call_id')::text,
    @owner::text, @starter::text, @project::text, sqlc.narg('idempotency_key')::text, sqlc.narg('request_sha256')::text,
    CASE WHEN NOT (@held::boolean OR @queued::boolean) THEN GREATEST(now(), sqlc.narg('start_at')::timestamptz) END, CASE WHEN @held::boolean THEN 'PAUSE' ELSE 'RUN' END,
    sqlc.narg('parent_attempt')::integer, sqlc.narg('again_of')::text, sqlc.narg('asked')::json,
    @priority::smallint, sqlc.narg('concurrency_key')::text, sqlc.narg('agent')::text,
    sqlc.narg('start_at')::timestamptz, sqlc.narg('expires_at')::timestamptz,
    sqlc.narg('schedule')::text, sqlc.narg('tick_at')::timestamptz, @queued::boolean
WHERE @root_plan_id::text <> @plan_id::text OR EXISTS (
    SELECT FROM actlog.plan_execution_record AS p
    WHERE p.root_plan_id = @root_plan_id::text AND p.current_plan_id = @plan_id::text AND p.first_seen_at = transaction_timestamp()
)
ON CONFLICT DO NOTHING;

-- name: RunByKey :one
-- Returns the run that a request of somebody with an idempotency key started in a project.
SELECT r.root_plan_id, r.plan_id, r.executor, COALESCE(r.request_sha256, '')::text AS request_sha256
FROM actlog.run AS r
WHERE r.idempotency_key = @idempotency_key::text AND r.starter = @starter::text AND r.project = @project::text;

-- name: RunPark :exec
-- Lets go of a run until a time or a signal. If a signal came since it was claimed, it is due at once.
UPDATE actlog.run AS r
SET worker_id = NULL, lost = 0, due_at = CASE WHEN r.signals > r.seen THEN now() ELSE sqlc.narg('until')::timestamptz END
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;

-- name: RunFinish :exec
-- Ends a run and all below it for good. The workers that hold them can write nothing any more. What those below worked until
-- the last heartbeats of their workers counts for the runs above.
WITH RECURSIVE below AS (
    SELECT r.root_plan_id, r.plan_id
    FROM actlog.run AS r
    WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
    UNION
    SELECT r.root_plan_id, r.plan_id
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id
),
waits AS (
    DELETE FROM actlog.model_wait AS w
    USING below AS b
    WHERE w.root_plan_id = b.root_plan_id AND w.plan_id = b.plan_id
),
event_waits AS (
    DELETE FROM actlog.event_wait AS w
    USING below AS b
    WHERE w.root_plan_id = b.root_plan_id AND w.plan_id = b.plan_id
),
messages AS ( -- which nobody will read
    UPDATE actlog.run_message AS m
    SET state = 'UNREAD'
    FROM below AS b
    WHERE m.root_plan_id = b.root_plan_id AND m.plan_id = b.plan_id AND m.state = 'PENDING'
)
UPDATE actlog.run AS r
SET worker_id = NULL, due_at = NULL, done = true, done_at = now(), unread = 0,
    clock_ran = COALESCE(r.clock_ran, (SELECT GREATEST(w.age - r.clock_from, 0) FROM actlog.worker AS w WHERE w.worker_id = r.worker_id))
FROM below AS b
WHERE r.root_plan_id = b.root_plan_id AND r.plan_id = b.plan_id AND NOT r.done;

-- name: RunLive :many
-- Returns what has not ended of a run that ends: its steps, cycles, tool calls and waits, and with those below it
-- their plans. The caller holds the root plan. thinks: the model of a cycle has not answered. starts: the call started
-- a plan.
WITH RECURSIVE below AS (
    SELECT sqlc.arg('plan_id')::text COLLATE "C" AS plan_id
    UNION
    SELECT p.current_plan_id
    FROM below AS b
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = @root_plan_id::text AND p.parent_plan_id = b.plan_id
),
steps AS MATERIALIZED (
    SELECT a.shown_plan_id AS plan_id, a.step_id, a.part, a.attempt, a.state, a.status
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = @root_plan_id::text AND a.shown_plan_id IN (SELECT b.plan_id FROM below AS b)
),
live AS (
    SELECT 'plan'::text AS kind, p.current_plan_id AS plan_id, ''::text AS step_id, 0 AS seq, ''::text AS id, p.attempt, p.state,
        false AS thinks, false AS starts
    FROM actlog.plan_execution_record AS p
    WHERE p.root_plan_id = @root_plan_id::text AND p.current_plan_id IN (SELECT b.plan_id FROM below AS b)
        AND p.current_plan_id <> @plan_id::text AND NOT p.completed
    UNION ALL
    SELECT 'agentExecution', s.plan_id, s.step_id, 0, '', s.attempt, s.state, false, false
    FROM steps AS s
    WHERE s.status <> 'FINISHED'
    UNION ALL
    SELECT 'thinkAct', s.plan_id, c.step_id, c.seq, '', c.attempt, c.state, c.think_start_time IS NOT NULL AND c.think_end_time IS NULL, false
    FROM steps AS s
    JOIN actlog.think_act_record AS c ON c.root_plan_id = @root_plan_id::text AND c.step_id = s.step_id AND c.part = s.part AND c.status <> 'FINISHED'
    UNION ALL
    SELECT 'actTool', s.plan_id, t.step_id, t.seq, t.tool_call_id, t.attempt, t.state, false, EXISTS (
        SELECT FROM actlog.plan_execution_record AS p
        WHERE p.root_plan_id = @root_plan_id::text AND p.parent_plan_id = s.plan_id AND p.tool_call_id = t.tool_call_id
    )
    FROM steps AS s
    JOIN actlog.act_tool_info AS t ON t.root_plan_id = @root_plan_id::text AND t.step_id = s.step_id AND t.part = s.part AND t.status <> 'FINISHED'
    UNION ALL
    SELECT 'wait', w.plan_id, '', 0, w.wait_id, NULL, w.state, false, false
    FROM actlog.wait_state AS w
    WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id IN (SELECT b.plan_id FROM below AS b) AND w.state = 'WAITING'
)
SELECT l.kind, l.plan_id, l.step_id, l.seq, l.id, l.attempt, l.state, l.thinks, l.starts FROM live AS l;

-- name: RunTree :many
-- Returns what is on record of the runs of a tree: their plans with their executors, steps, cycles, tool calls and open waits. The
-- times of a cycle are those of its model call. has_message: the model of a cycle has answered, in this attempt or in one
-- before. has_result: a call has a result that is not empty. began_at: when its first attempt began. Copied plans are no runs; they
-- are returned if the caller wants copies.
SELECT 'plan'::text AS kind, p.current_plan_id AS plan_id, ''::text AS step_id, COALESCE(r.parent_attempt, 1)::integer AS step_index, 0 AS seq, COALESCE(p.tool_call_id, '')::text AS id,
    COALESCE(p.attempt, 1)::integer AS attempt, p.state::text AS state, COALESCE(p.error_kind, '')::text AS error_kind,
    p.start_time, p.end_time, NULL::timestamptz AS first_token_time, false AS has_message, false AS has_result,
    false AS has_metadata, false AS has_progress, r.limits, COALESCE(r.executor, '')::text AS executor, p.start_time AS began_at, ''::text AS agent, false AS copied
FROM actlog.plan_execution_record AS p
LEFT JOIN actlog.run AS r ON r.root_plan_id = p.root_plan_id AND r.plan_id = p.current_plan_id
WHERE p.root_plan_id = @root_plan_id::text AND (r.plan_id IS NOT NULL OR @copies::boolean)
UNION ALL
SELECT 'agentExecution', a.shown_plan_id, a.step_id, COALESCE(a.step_index, 0), 0, '', COALESCE(a.attempt, 1), a.state, COALESCE(a.error_kind, ''),
    a.start_time, a.end_time, NULL, false, false, false, false, NULL, '', LEAST(actlog.first_start(a.attempts), a.start_time), COALESCE(a.agent_name, ''), a.forked_from IS NOT NULL
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = @root_plan_id::text
UNION ALL
SELECT 'thinkAct', a.shown_plan_id, c.step_id, 0, c.seq, '', COALESCE(c.attempt, 1), c.state, COALESCE(c.error_kind, ''),
    c.think_start_time, c.think_end_time, c.first_token_time, c.message IS NOT NULL, false, false, false, NULL, '', LEAST((SELECT min((e ->> 'thinkStartTime') COLLATE "C")::timestamptz FROM jsonb_array_elements(c.attempts) AS e), c.think_start_time), '', c.forked_from IS NOT NULL
FROM actlog.agent_execution_record AS a
JOIN actlog.think_act_record AS c ON c.root_plan_id = @root_plan_id::text AND c.step_id = a.step_id AND c.part = a.part
WHERE a.root_plan_id = @root_plan_id::text
UNION ALL
SELECT 'actTool', a.shown_plan_id, t.step_id, COALESCE(t.call_index, 0), t.seq, t.tool_call_id, COALESCE(t.attempt, 1), t.state, COALESCE(t.error_kind, ''),
    t.start_time, t.end_time, NULL, false, COALESCE(t.result, '') <> '', t.metadata IS NOT NULL, t.progress IS NOT NULL, NULL, '', LEAST(actlog.first_start(t.attempts), t.start_time), '', t.forked_from IS NOT NULL
FROM actlog.agent_execution_record AS a
JOIN actlog.act_tool_info AS t ON t.root_plan_id = @root_plan_id::text AND t.step_id = a.step_id AND t.part = a.part
WHERE a.root_plan_id = @root_plan_id::text
UNION ALL
SELECT 'wait', w.plan_id, '', 0, 0, w.wait_id, 1, w.state, '', w.start_time, w.end_time, NULL, false, false, false, false, NULL, '', w.start_time, '', false
FROM actlog.wait_state AS w
WHERE w.root_plan_id = @root_plan_id::text AND w.state = 'WAITING';

-- name: RunRetry :exec
-- Opens runs of a tree again. They are due, by any worker, whatever the code of the last one did. One that nobody had begun
-- does not expire any more, and waits for no other run of its schedule. The caller holds the root plan.
UPDATE actlog.run AS r
SET done = false, done_at = NULL, desired = 'RUN', due_at = GREATEST(now(), CASE WHEN r.first_claimed_at IS NULL THEN r.start_at END),
    expires_at = CASE WHEN r.first_claimed_at IS NOT NULL THEN r.expires_at END, queued = false,
    worker_id = NULL, signals = r.signals + 1, lost = 0,
    ended_before = COALESCE(p.end_time, now()), anew = r.plan_id = @anew_plan_id::text,
    needs = array_remove(r.needs, 'release:' || r.release), mismatch = NULL, mismatch_at = NULL,
    parent_attempt = COALESCE(NULLIF(u.call_attempt, 0), r.parent_attempt), limits = NULLIF(u.limits, '')::json
FROM unnest(@plan_ids::text[], @limits::text[], @call_attempts::integer[]) AS u (plan_id, limits, call_attempt)
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = @root_plan_id::text AND p.current_plan_id = u.plan_id
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = u.plan_id;

-- name: RunLimits :exec
-- Sets the limits of a root run.
UPDATE actlog.run AS r
SET limits = sqlc.narg('limits')::json
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @root_plan_id::text AND r.limits::text IS DISTINCT FROM sqlc.narg('limits')::text;

-- name: RunRetryable :one
-- Returns what a retry of a run depends on: the newest run of a plan. mismatch_plan_id is a run of its tree whose code does not
-- fit the record.
SELECT r.root_plan_id, r.plan_id, r.done, r.limits, r.worked, p.state::text AS state, COALESCE(p.error_kind, '')::text AS error_kind,
    COALESCE(m.plan_id, '')::text AS mismatch_plan_id, COALESCE(m.mismatch_at, '')::text AS mismatch_at, (m.worker_id IS NOT NULL)::boolean AS mismatch_held,
    EXISTS (SELECT FROM actlog.dropped_detail AS d WHERE p.part >= d.from_day AND p.part < d.to_day) AS dropped, now()::timestamptz AS now
FROM actlog.run AS r
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id
LEFT JOIN LATERAL (
    SELECT x.plan_id, x.mismatch_at, x.worker_id
    FROM actlog.run AS x
    WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.mismatch IS NOT NULL AND x.desired <> 'CANCEL'
    ORDER BY x.plan_id
    LIMIT 1
) AS m ON true
WHERE r.plan_id = @plan_id::text
ORDER BY r.created_at DESC
LIMIT 1;

-- name: ControlByKey :one
-- Returns the hash of the request that asked a run for something under an idempotency key of somebody.
SELECT c.request_sha256
FROM actlog.control_request AS c
WHERE c.root_plan_id = @root_plan_id::text AND c.plan_id = @plan_id::text AND c.action = @action::text
    AND c.idempotency_key = @idempotency_key::text AND COALESCE(c.requested_by, '') = @requested_by::text
LIMIT 1;

-- name: RunGain :exec
-- Notes that a run put a result on record: the workers that it lost before do not count any more.
UPDATE actlog.run AS r
SET lost = 0
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text AND r.lost > 0;

-- name: RunClockStart :one
-- Notes that a run begins to work, and what its clock and those of the runs above it show now: what is on record of
-- them, or what they have come to since a run below them began: on this worker until now, on others until their last
-- heartbeats. Only times that a worker measured between two moments of its own count, so that nobody who sets a clock
-- changes them. It returns how long the run may work until the first limit is reached; null: there is none. The caller
-- holds the root plan.
WITH RECURSIVE above AS (
    SELECT r.plan_id, r.parent_plan_id, r.worked, (r.limits ->> 'seconds')::float8 AS seconds
    FROM actlog.run AS r
    WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
    UNION ALL
    SELECT r.plan_id, r.parent_plan_id, r.worked, (r.limits ->> 'seconds')::float8
    FROM above AS a
    JOIN actlog.run AS r ON r.root_plan_id = @root_plan_id::text AND r.plan_id = a.parent_plan_id
),
shown AS (
    SELECT
        a.plan_id, a.seconds,
        GREATEST(a.worked, max((x.clock ->> a.plan_id)::float8 + COALESCE(
            x.clock_ran, GREATEST(CASE WHEN w.worker_id = @worker_id::text THEN sqlc.arg('age')::float8 ELSE w.age END - x.clock_from, 0), 0
        ))) AS worked
    FROM above AS a
    LEFT JOIN actlog.run AS x ON x.root_plan_id = @root_plan_id::text AND jsonb_exists(x.clock, a.plan_id)
    LEFT JOIN actlog.worker AS w ON w.worker_id = x.worker_id
    GROUP BY a.plan_id, a.seconds, a.worked
)
UPDATE actlog.run AS r
SET clock = (SELECT jsonb_object_agg(s.plan_id, s.worked) FROM shown AS s), clock_from = sqlc.arg('age')::float8, clock_ran = NULL
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
RETURNING (SELECT min(s.seconds - s.worked) FROM shown AS s)::float8 AS left;

-- name: RunClockStop :exec
-- Notes that a run works no more, and sets its clock and those of the runs above it. What several runs do at the same
-- time counts once. The caller holds the root plan.
UPDATE actlog.run AS a
SET worked = GREATEST(a.worked, (x.clock ->> a.plan_id)::float8 + GREATEST(sqlc.arg('age')::float8 - x.clock_from, 0)),
    clock = CASE WHEN a.plan_id <> x.plan_id THEN a.clock END
FROM actlog.run AS x
WHERE x.root_plan_id = @root_plan_id::text AND x.plan_id = @plan_id::text
    AND a.root_plan_id = @root_plan_id::text AND jsonb_exists(x.clock, a.plan_id);

-- name: RunMismatch :exec
-- Notes that the code of a worker does other things than are on record of a run. From now on the run needs a worker of the
-- release on which it last went on; empty: that is not known, and any will do.
UPDATE actlog.run AS r
SET release = NULLIF(@release::text, ''), mismatch = @mismatch::text, mismatch_at = @mismatch_at::text,
    needs = array_remove(r.needs, 'release:' || @release::text) || CASE WHEN @release::text <> '' THEN ARRAY['release:' || @release::text] ELSE '{}' END
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;

-- name: RunFits :exec
-- Notes that a run goes on with the code of a release: it fits the record.
UPDATE actlog.run AS r
SET release = @release::text, mismatch = NULL, mismatch_at = NULL, needs = array_remove(r.needs, 'release:' || r.release)
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;

-- name: RunTryCode :exec
-- Lets any worker take a run and those below it whose code did other things than are on record, at once.
WITH RECURSIVE below AS (
    SELECT r.root_plan_id, r.plan_id
    FROM actlog.run AS r
    WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
    UNION
    SELECT r.root_plan_id, r.plan_id
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id
)
UPDATE actlog.run AS r
SET needs = array_remove(r.needs, 'release:' || r.release), signals = r.signals + 1, due_at = CASE WHEN r.worker_id IS NULL THEN now() END
FROM below AS b
WHERE r.root_plan_id = b.root_plan_id AND r.plan_id = b.plan_id AND NOT r.done AND r.mismatch IS NOT NULL;

-- name: RunRelease :exec
-- Lets go of a run, which is due at once.
UPDATE actlog.run AS r
SET worker_id = NULL, due_at = now()
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;

-- name: RunHandBack :exec
-- Lets go of all runs of a worker but some, which are due at once. What they worked until its last heartbeat counts. They
-- are locked in the order of RunHold.
WITH held AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id
    FROM actlog.run AS r
    WHERE r.worker_id = @worker_id::text AND r.plan_id <> ALL (@kept::text[])
    ORDER BY r.root_plan_id, r.plan_id
    FOR NO KEY UPDATE
)
UPDATE actlog.run AS r
SET worker_id = NULL, due_at = now(),
    clock_ran = COALESCE(r.clock_ran, (SELECT GREATEST(w.age - r.clock_from, 0) FROM actlog.worker AS w WHERE w.worker_id = r.worker_id))
FROM held AS h
WHERE r.root_plan_id = h.root_plan_id AND r.plan_id = h.plan_id;

-- name: RunSignal :exec
-- Says that something happened that a run may wait for. If nobody holds it, it is due.
UPDATE actlog.run AS r
SET signals = r.signals + 1, due_at = CASE WHEN r.worker_id IS NULL THEN now() END
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text AND NOT r.done;

-- name: RunClaim :many
-- Claims runs that are due. What has a higher priority comes first, then who has fewer runs under way: the owners, then the
-- trees, then the time decides. A tree takes its places with the first of its runs; a run that finds none is due no more,
-- and waits in the list of that place: it is returned, too. Runs that lost lone_at workers in a row are claimed alone, but
-- for those that should stop or pause. To stop or to pause one, a worker needs nothing that it provides, and the run no
-- place. A run begins between its start_at and its expires_at, and not while it is queued. A budget that is spent is a
-- place of which there are none, and only runs that have not begun need it. The caller has the turn, see PlaceTurn.
WITH open AS MATERIALIZED (
    SELECT r.*
    FROM generate_series(9, 0, -1) AS v (priority)
    CROSS JOIN LATERAL (
        SELECT x.root_plan_id, x.plan_id, x.owner, x.priority, x.due_at AS since, x.desired = 'RUN' AS begins
        FROM actlog.run AS x
        WHERE x.priority = v.priority AND x.due_at <= now() AND x.due_at IS NOT NULL AND x.worker_id IS NULL AND NOT x.done
            AND CASE -- of which the planner does not think that it keeps few, so that it reads what is due in its order
                WHEN x.desired <> 'RUN' THEN NOT @alone::boolean
                ELSE x.needs <@ @provides::text[] AND (x.lost = @lone_at::integer) = @alone::boolean
                    AND (x.first_claimed_at IS NOT NULL OR NOT x.queued AND COALESCE(x.start_at <= now(), true) AND COALESCE(x.expires_at > now(), true))
            END
        ORDER BY x.due_at
        LIMIT 1000
    ) AS r
    LIMIT 1000
),
turns AS MATERIALIZED ( -- what is held counts before what is open
    SELECT
        a.root_plan_id, a.plan_id, a.priority, a.since, a.begins, a.is_open,
        row_number() OVER (PARTITION BY a.owner ORDER BY a.is_open, a.priority DESC, a.since) AS of_owner,
        row_number() OVER (PARTITION BY a.root_plan_id ORDER BY a.is_open, a.priority DESC, a.since) AS of_tree
    FROM (
        SELECT o.root_plan_id, o.plan_id, o.owner, o.priority, o.since, o.begins, true AS is_open FROM open AS o
        UNION ALL
        SELECT r.root_plan_id, r.plan_id, r.owner, r.priority, r.claimed_at, true, false
        FROM actlog.run AS r
        WHERE r.worker_id IS NOT NULL AND EXISTS (SELECT FROM open)
    ) AS a
),
ordered AS MATERIALIZED (
    SELECT t.root_plan_id, t.plan_id, t.begins, row_number() OVER (ORDER BY t.priority DESC, t.of_owner, t.of_tree, t.since, t.plan_id COLLATE "C") AS n
    FROM turns AS t
    WHERE t.is_open
    ORDER BY n
    LIMIT 50 + @runs::integer
),
asked AS MATERIALIZED ( -- the places that a run would take for its tree; none, if that has them
    SELECT o.root_plan_id, o.plan_id, o.n, o.in_tree, p.place, l.most, COALESCE(q.taken, 0) AS taken, EXISTS (
            SELECT FROM actlog.run AS e
            WHERE left(p.place, 4) = 'key:' AND e.concurrency_key = k.concurrency_key AND e.project = k.project AND NOT e.keyed AND NOT e.done
                AND (e.created_at, e.plan_id) < (k.created_at, k.plan_id)
                AND e.desired = 'RUN' AND (e.due_at <= now() OR e.blocked IS NOT NULL)
                AND (e.first_claimed_at IS NOT NULL OR 'budget:' || e.project <> ALL (@places::text[])) -- else it cannot begin today
        ) AS is_later
    FROM (
        SELECT t.*, row_number() OVER (PARTITION BY t.root_plan_id ORDER BY t.n) AS in_tree FROM ordered AS t WHERE t.begins
    ) AS o
    CROSS JOIN LATERAL (
        SELECT * FROM actlog.run AS y WHERE y.root_plan_id = o.root_plan_id AND y.plan_id = o.root_plan_id OFFSET 0
    ) AS k
    CROSS JOIN LATERAL unnest(
        CASE WHEN k.placed THEN '{}' ELSE actlog.places_of(k.agent, k.project, k.owner, k.root_plan_id) END
        || CASE WHEN k.keyed OR k.concurrency_key IS NULL THEN '{}' ELSE ARRAY[actlog.place_of_key(k.project, k.concurrency_key)] END
        || CASE WHEN k.first_claimed_at IS NULL AND 'budget:' || k.project = ANY (@places::text[]) THEN ARRAY['budget:' || k.project] ELSE '{}' END
    ) AS p (place)
    LEFT JOIN actlog.place AS q ON q.place = p.place
    CROSS JOIN LATERAL (
        SELECT CASE split_part(p.place, ':', 1)
            WHEN 'key' THEN NULLIF(@per_key::integer, 0)
            WHEN 'owner' THEN NULLIF(@per_owner::integer, 0)
            ELSE (SELECT u.most FROM unnest(@places::text[], @most::integer[]) AS u (place, most) WHERE u.place = p.place)
        END AS most
    ) AS l
),
-- Of a tree that has no places, one run after the other asks.
taken AS MATERIALIZED (
    SELECT DISTINCT a.n FROM asked AS a WHERE a.taken >= a.most OR a.is_later
),
fits AS MATERIALIZED ( -- no more than there are places
    SELECT x.n, bool_and(x.in_tree = 1 AND (x.most IS NULL OR x.taken + x.nth <= x.most)) AS fits
    FROM (
        SELECT a.n, a.in_tree, a.most, a.taken, row_number() OVER (PARTITION BY a.place ORDER BY a.n) AS nth
        FROM asked AS a
        WHERE NOT EXISTS (SELECT FROM taken AS f WHERE f.n = a.n)
    ) AS x
    GROUP BY x.n
),
chosen AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id, t.n, t.takes
    FROM (
        SELECT o.*, f.n IS NOT NULL AS takes
        FROM ordered AS o
        LEFT JOIN fits AS f ON f.n = o.n
        WHERE COALESCE(f.fits, true) AND NOT EXISTS (SELECT FROM taken AS x WHERE x.n = o.n)
        ORDER BY o.n
    ) AS t
    CROSS JOIN LATERAL (
        SELECT x.root_plan_id, x.plan_id
        FROM actlog.run AS x
        WHERE x.root_plan_id = t.root_plan_id AND x.plan_id = t.plan_id AND NOT x.done AND x.worker_id IS NULL AND x.due_at <= now()
            AND (x.desired = 'RUN') = t.begins -- else it was not asked whether it may begin
        OFFSET 0
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS r
    LEFT JOIN LATERAL ( -- its tree, if that takes places now or still has them
        SELECT y.plan_id
        FROM actlog.run AS y
        WHERE t.begins AND y.root_plan_id = t.root_plan_id AND y.plan_id = t.root_plan_id AND NOT y.done AND (t.takes OR y.placed)
        OFFSET 0
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS k ON true
    WHERE NOT t.begins OR k.plan_id IS NOT NULL
    LIMIT @runs::integer -- so that no more are locked
),
waits AS MATERIALIZED ( -- the others, if what was chosen leaves no place for them
    SELECT DISTINCT ON (a.n) a.n, a.root_plan_id, a.plan_id, a.place
    FROM (
        SELECT x.*, c.n IS NOT NULL AS is_chosen, x.taken + count(c.n) OVER (PARTITION BY x.place) AS taken_now
        FROM asked AS x
        LEFT JOIN chosen AS c ON c.n = x.n
    ) AS a
    WHERE a.in_tree = 1 AND NOT a.is_chosen AND (a.taken_now >= a.most OR a.is_later)
    ORDER BY a.n, array_position('{budget,key,owner,agent,project}', split_part(a.place, ':', 1)) -- the list of the fewest, but for a budget
),
blocked AS (
    UPDATE actlog.run AS r
    SET due_at = NULL, blocked = f.place
    FROM (
        SELECT z.root_plan_id, z.plan_id, x.place
        FROM waits AS x
        CROSS JOIN LATERAL (
            SELECT y.root_plan_id, y.plan_id
            FROM actlog.run AS y
            WHERE y.root_plan_id = x.root_plan_id AND y.plan_id = x.plan_id AND NOT y.done AND y.worker_id IS NULL AND y.due_at <= now() AND y.desired = 'RUN'
            OFFSET 0
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS z
    ) AS f
    WHERE r.root_plan_id = f.root_plan_id AND r.plan_id = f.plan_id
    RETURNING r.root_plan_id, r.plan_id
),
counted AS (
    INSERT INTO actlog.place AS p (place, taken, most)
    SELECT a.place, count(c.n), max(a.most)
    FROM asked AS a
    LEFT JOIN chosen AS c ON c.n = a.n
    LEFT JOIN waits AS f ON f.n = a.n AND f.place = a.place
    WHERE (c.n IS NOT NULL OR f.n IS NOT NULL) AND left(a.place, 7) <> 'budget:'
    GROUP BY a.place
    ON CONFLICT (place) DO UPDATE SET taken = p.taken + excluded.taken, most = excluded.most
),
later AS ( -- those that came after a run with the same key may have a place, too
    INSERT INTO actlog.place_change (places, freed)
    SELECT array_agg(a.place), false
    FROM asked AS a
    JOIN chosen AS c ON c.n = a.n
    WHERE left(a.place, 4) = 'key:' AND a.most IS DISTINCT FROM 1
    HAVING count(*) > 0
),
tree AS ( -- a run below the root takes places for it, and for all that waits for them in the tree
    UPDATE actlog.run AS r
    SET placed = r.placed OR r.plan_id = r.root_plan_id, keyed = r.keyed OR r.plan_id = r.root_plan_id AND r.concurrency_key IS NOT NULL,
        due_at = CASE WHEN r.blocked IS NOT NULL AND r.worker_id IS NULL THEN COALESCE(r.due_at, now()) ELSE r.due_at END
    FROM (
        SELECT z.root_plan_id, z.plan_id
        FROM chosen AS c
        CROSS JOIN LATERAL (
            SELECT x.root_plan_id, x.plan_id
            FROM actlog.run AS x
            WHERE x.root_plan_id = c.root_plan_id AND NOT x.done
                AND (x.plan_id = x.root_plan_id OR x.blocked IS NOT NULL AND x.due_at IS NULL AND x.worker_id IS NULL)
            OFFSET 0
            FOR NO KEY UPDATE SKIP LOCKED -- one that somebody has locked is made due later, at the latest when the tree gives its places back
        ) AS z
        WHERE c.takes AND NOT EXISTS (SELECT FROM chosen AS o WHERE o.root_plan_id = z.root_plan_id AND o.plan_id = z.plan_id)
    ) AS f
    WHERE r.root_plan_id = f.root_plan_id AND r.plan_id = f.plan_id
),
claimed AS (
    UPDATE actlog.run AS r
    SET worker_id = @worker_id::text, epoch = r.epoch + 1, due_at = NULL, seen = r.signals, claimed_at = now(), blocked = NULL,
        placed = r.placed OR c.roots, keyed = r.keyed OR c.roots AND r.concurrency_key IS NOT NULL,
        first_claimed_at = COALESCE(r.first_claimed_at, CASE WHEN r.desired = 'RUN' THEN now() END),
        release = CASE WHEN r.first_claimed_at IS NULL THEN @release::text ELSE r.release END
    FROM (
        SELECT o.root_plan_id, o.plan_id, o.plan_id = o.root_plan_id AND bool_or(o.takes) OVER (PARTITION BY o.root_plan_id) AS roots FROM chosen AS o
    ) AS c
    WHERE r.root_plan_id = c.root_plan_id AND r.plan_id = c.plan_id
    RETURNING r.root_plan_id, r.plan_id, r.epoch, r.desired
)
SELECT c.root_plan_id, c.plan_id, c.epoch, c.desired, false AS waits FROM claimed AS c
UNION ALL
SELECT b.root_plan_id, b.plan_id, 0, 'RUN', true FROM blocked AS b;

-- name: RunClaimed :many
-- Returns runs that a worker has claimed. What they should do is what RunClaim returned: it may have changed since.
SELECT
    r.root_plan_id, r.plan_id, r.executor, r.name, r.definition_id, r.definition_version, r.input, r.limits, r.depth,
    r.parent_plan_id, r.parent_step_id, r.parent_seq, r.parent_tool_call_id, r.owner, r.starter, r.project, r.priority,
    r.epoch, r.takeovers, r.lost, u.desired::text AS desired,
    EXISTS (SELECT FROM actlog.model_wait AS w WHERE w.root_plan_id = r.root_plan_id AND w.plan_id = r.plan_id) AS awaits_models,
    r.release, (r.mismatch IS NOT NULL)::boolean AS mismatched, r.ended_before, r.anew, r.parent_attempt, r.unread,
    COALESCE(r.ids_of, '')::text AS ids_of, r.changes
FROM unnest(@root_plan_ids::text[], @plan_ids::text[], @epochs::bigint[], @desired::text[]) AS u (root_plan_id, plan_id, epoch, desired)
JOIN actlog.run AS r ON r.root_plan_id = u.root_plan_id AND r.plan_id = u.plan_id
WHERE r.worker_id = @worker_id::text AND r.epoch = u.epoch;

-- name: RunSuspect :one
-- Reports whether a worker should make room for a run that is claimed alone and has been due for some time. One worker
-- does it: of those that live and can carry the run, that with the least id. A worker that carries such a run, or one
-- that waits for a person, is left out: nobody knows when it will be empty.
WITH free AS MATERIALIZED (
    SELECT w.worker_id, w.provides
    FROM actlog.worker AS w
    WHERE w.stopped_at IS NULL AND w.lease_until > now() AND NOT EXISTS (
        SELECT FROM actlog.run AS x
        WHERE x.worker_id = w.worker_id AND (x.lost = @lone_at::integer OR EXISTS (
            SELECT FROM actlog.wait_state AS p
            WHERE p.root_plan_id = x.root_plan_id AND p.plan_id = x.plan_id AND p.state = 'WAITING'
        ))
    )
)
SELECT EXISTS (
    SELECT FROM actlog.run AS r
    WHERE r.due_at <= now() - sqlc.arg('seconds')::float8 * INTERVAL '1 second' AND r.worker_id IS NULL AND NOT r.done
        AND r.lost = @lone_at::integer AND r.desired = 'RUN'
        AND @worker_id::text = (SELECT min(f.worker_id) FROM free AS f WHERE r.needs <@ f.provides)
);

-- name: RunHeld :one
-- Says how the runs of a tree that have not ended stand: how many there are, and how many of them a worker holds that
-- lives. The workers of the others can write nothing.
SELECT count(*) AS open, count(w.worker_id) AS held
FROM actlog.run AS r
LEFT JOIN actlog.worker AS w ON w.worker_id = r.worker_id AND w.stopped_at IS NULL AND w.lease_until > now()
WHERE r.root_plan_id = @root_plan_id::text AND NOT r.done;

-- name: RunArtifact :one
-- Returns an artifact that a root run produced. Artifacts of plans that were only recorded are not found.
SELECT a.value
FROM actlog.run AS r
JOIN actlog.artifact AS a ON a.root_plan_id = r.root_plan_id AND a.plan_id = r.plan_id
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @root_plan_id::text AND a.name = @name::text;

-- name: RunWanted :many
-- Returns what runs that a worker carries should do other than run. kept are those of them that are below others: if one of
-- these has ended, somebody else ended it, with a run above it. With those of its runs to which messages wait come the
-- messages that interrupt, and the steps that these are for; empty: any.
SELECT r.root_plan_id, r.plan_id, r.epoch, r.desired, false AS unread, '{}'::text[] AS interrupts, '{}'::text[] AS interrupted
FROM actlog.run AS r
WHERE r.worker_id = @worker_id::text AND r.desired <> 'RUN'
UNION ALL
SELECT r.root_plan_id, r.plan_id, r.epoch, 'CANCEL', false, '{}', '{}'
FROM actlog.run AS r
WHERE r.plan_id = ANY (@kept::text[]) AND (r.done OR r.worker_id IS DISTINCT FROM @worker_id::text)
UNION ALL
SELECT r.root_plan_id, r.plan_id, r.epoch, r.desired, true, i.message_ids, i.step_ids
FROM actlog.run AS r
CROSS JOIN LATERAL (
    SELECT COALESCE(array_agg(m.message_id), '{}') AS message_ids, COALESCE(array_agg(COALESCE(m.to_step_id, '')), '{}') AS step_ids
    FROM actlog.run_message AS m
    WHERE m.root_plan_id = r.root_plan_id AND m.plan_id = r.plan_id AND m.state = 'PENDING' AND m.interrupts
) AS i
WHERE r.worker_id = @worker_id::text AND r.unread > 0;

-- name: RunControl :many
-- Says what a run and all below it should do. Those that nobody holds are due, but for one that is to begin later, or
-- behind others. It returns them. One that is to go on and waits for a model asks that model.
WITH RECURSIVE below AS (
    SELECT r.root_plan_id, r.plan_id
    FROM actlog.run AS r
    WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
    UNION
    SELECT r.root_plan_id, r.plan_id
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id
),
asks AS (
    UPDATE actlog.model_wait AS w
    SET asks = true
    FROM below AS b
    WHERE w.root_plan_id = b.root_plan_id AND w.plan_id = b.plan_id AND @desired::text = 'RUN'
    RETURNING w.root_plan_id, w.plan_id
)
UPDATE actlog.run AS r
SET desired = @desired::text, signals = r.signals + 1,
    due_at = CASE WHEN r.worker_id IS NULL AND NOT (r.queued AND @desired::text = 'RUN') THEN GREATEST(now(), CASE WHEN @desired::text = 'RUN' AND r.first_claimed_at IS NULL THEN r.start_at END) END
FROM below AS b
WHERE r.root_plan_id = b.root_plan_id AND r.plan_id = b.plan_id AND NOT r.done AND r.desired <> 'CANCEL'
    AND (r.desired <> @desired::text OR (r.root_plan_id, r.plan_id) IN (SELECT a.root_plan_id, a.plan_id FROM asks AS a))
RETURNING r.plan_id;

-- name: RunOfPlan :one
-- Returns the run of a plan: the newest, if several trees have a plan of that id.
SELECT
    r.root_plan_id, r.plan_id, r.executor, r.name, r.definition_id, r.definition_version, r.needs, r.input, r.limits, r.depth,
    r.parent_plan_id, r.worker_id, r.due_at, r.takeovers, r.desired, r.signals, r.done, r.created_at, r.claimed_at, r.done_at
FROM actlog.run AS r
WHERE r.plan_id = @plan_id::text
ORDER BY r.created_at DESC
LIMIT 1;

-- name: RunStands :one
-- Says what the run of a plan should do, whether it has ended, whether its code did other things than are on record, and
-- whose input it has, or from which it goes on: of the newest, as RunOfPlan.
SELECT r.root_plan_id, r.desired, r.done, (r.mismatch IS NOT NULL)::boolean AS mismatched, r.again_of, r.forked_from
FROM actlog.run AS r
WHERE r.plan_id = @plan_id::text
ORDER BY r.created_at DESC
LIMIT 1;

-- name: RunOpenCounts :many
-- Counts the runs that have not ended, by executor and state. One that is held back before it begins is PAUSED.
SELECT r.executor, (CASE WHEN p.state = 'PENDING' AND r.desired = 'PAUSE' THEN 'PAUSED' ELSE p.state END)::text AS state, count(*) AS runs
FROM actlog.run AS r
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id
WHERE NOT r.done
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: RunWait :one
-- Returns where a wait of a run, or of a run below it, stands: the open one first, if several have its
-- id. Of several runs with the id of a plan, it is the newest.
WITH RECURSIVE below AS (
    (SELECT r.root_plan_id, r.plan_id, r.done FROM actlog.run AS r WHERE r.plan_id = @plan_id::text ORDER BY r.created_at DESC LIMIT 1)
    UNION
    SELECT r.root_plan_id, r.plan_id, r.done
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id
)
SELECT w.root_plan_id, w.plan_id, b.done
FROM below AS b
JOIN actlog.wait_state AS w ON w.root_plan_id = b.root_plan_id AND w.plan_id = b.plan_id AND w.wait_id = @wait_id::text
ORDER BY w.state = 'WAITING' DESC, w.start_time, w.plan_id
LIMIT 1;

-- name: RunHadForm :one
-- Reports whether a run, or a run below it, ever showed a form.
WITH RECURSIVE below AS (
    (SELECT r.root_plan_id, r.plan_id FROM actlog.run AS r WHERE r.plan_id = @plan_id::text ORDER BY r.created_at DESC LIMIT 1)
    UNION
    SELECT r.root_plan_id, r.plan_id
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id
)
SELECT EXISTS (
    SELECT FROM below AS b
    JOIN actlog.wait_state AS w ON w.root_plan_id = b.root_plan_id AND w.plan_id = b.plan_id
    WHERE COALESCE(w.type, 'USER_INPUT') = 'USER_INPUT'
);

-- name: ControlAdd :exec
-- Notes who asked a run for something, if it is there.
INSERT INTO actlog.control_request (root_plan_id, plan_id, action, requested_by, claimed_by, idempotency_key, request_sha256)
SELECT
    r.root_plan_id, r.plan_id, @action::text, sqlc.narg('requested_by')::text, sqlc.narg('claimed_by')::text,
    sqlc.narg('idempotency_key')::text, sqlc.narg('request_sha256')::text
FROM actlog.run AS r
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;

-- name: RunAsked :one
-- Returns what a run was asked for, so that another one can be started as it was: the newest run of a plan.
SELECT
    r.root_plan_id, r.plan_id, r.executor, r.input, COALESCE(r.asked, '{}')::json AS asked, r.priority, r.concurrency_key,
    p.project, p.user_id, p.tags
FROM actlog.run AS r
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id
WHERE r.plan_id = @plan_id::text
ORDER BY r.created_at DESC
LIMIT 1;

-- name: ControlApply :exec
-- Notes that a run did what it was asked for.
UPDATE actlog.control_request AS c
SET applied_at = now()
WHERE c.root_plan_id = @root_plan_id::text AND c.plan_id = @plan_id::text AND c.applied_at IS NULL;

-- name: WorkerAdd :one
-- Registers a worker, and returns the time of the database.
INSERT INTO actlog.worker (worker_id, host, release, provides, slots, age, lease_until)
VALUES (
    @worker_id::text, @host::text, @release::text, @provides::text[], @slots::integer, @age::float8,
    now() + sqlc.arg('lease_seconds')::float8 * INTERVAL '1 second'
)
RETURNING now()::timestamptz AS now;

-- name: WorkerBeat :one
-- Extends the lease of a worker, unless another one has declared it dead, and returns the time of the database.
UPDATE actlog.worker AS w
SET lease_until = now() + sqlc.arg('lease_seconds')::float8 * INTERVAL '1 second', provides = @provides::text[], age = @age::float8
WHERE w.worker_id = @worker_id::text AND w.stopped_at IS NULL
RETURNING now()::timestamptz AS now;

-- name: WorkerHolders :many
-- Returns the workers that hold runs, or a part of a limit, with what changes at each heartbeat.
SELECT w.worker_id, w.lease_until, (w.stopped_at IS NOT NULL)::boolean AS stopped
FROM actlog.worker AS w
WHERE EXISTS (SELECT FROM actlog.run AS r WHERE r.worker_id = w.worker_id)
    OR w.stopped_at IS NULL AND EXISTS (SELECT FROM actlog.worker_grant AS g WHERE g.worker_id = w.worker_id AND g.units > 0);

-- name: WorkerBury :one
-- Declares a worker dead, unless it sent another heartbeat, and lets go of its runs, which are due at once.
-- Those that are being written keep for another time. It returns how many it let go of. A run whose clock another worker
-- started has worked for as long as is on record: ages of two workers say nothing together.
WITH dead AS (
    UPDATE actlog.worker AS w
    SET stopped_at = COALESCE(w.stopped_at, now())
    WHERE w.worker_id = @worker_id::text AND w.lease_until = @lease_until::timestamptz
    RETURNING w.worker_id, w.age
),
free AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id, d.age
    FROM dead AS d
    JOIN actlog.run AS r ON r.worker_id = d.worker_id
    FOR NO KEY UPDATE OF r SKIP LOCKED
),
taken AS (
    UPDATE actlog.run AS r
    SET worker_id = NULL, due_at = now(), takeovers = r.takeovers + 1, lost = r.lost + 1,
        clock_ran = COALESCE(r.clock_ran, GREATEST(f.age - r.clock_from, 0))
    FROM free AS f
    WHERE r.root_plan_id = f.root_plan_id AND r.plan_id = f.plan_id
    RETURNING r.plan_id
)
SELECT count(*) AS runs FROM taken;

-- name: RunMendDue :execrows
-- Makes runs due that were due before the clock of the database was set back.
UPDATE actlog.run AS r
SET due_at = now()
WHERE r.due_at > now() AND r.due_at <= sqlc.arg('before')::timestamptz AND r.worker_id IS NULL AND NOT r.done;

-- name: WorkerLive :many
-- Returns the workers that live, the oldest first.
SELECT w.worker_id, w.host, w.release, w.slots, w.started_at, w.provides
FROM actlog.worker AS w
WHERE w.stopped_at IS NULL AND w.lease_until > now()
ORDER BY w.started_at, w.worker_id
LIMIT @most::integer;

-- name: WorkerStop :exec
-- Notes that a worker has stopped.
UPDATE actlog.worker AS w
SET stopped_at = now(), lease_until = LEAST(w.lease_until, now())
WHERE w.worker_id = @worker_id::text;

-- name: WorkerForget :exec
-- Deletes workers that were last heard of more than a day ago and hold nothing.
DELETE FROM actlog.worker AS w
WHERE w.lease_until < now() - INTERVAL '1 day' AND NOT EXISTS (SELECT FROM actlog.run AS r WHERE r.worker_id = w.worker_id);

-- name: DefinitionNewest :many
-- Returns a version of each of some definitions: the one that has one of the hashes, else the newest.
SELECT DISTINCT ON (d.definition_id) d.definition_id, d.version, d.sha256, d.body
FROM actlog.definition AS d
WHERE d.definition_id = ANY(@ids::text[])
ORDER BY d.definition_id, (d.sha256 = ANY(@hashes::text[])) DESC, d.version DESC;

-- name: DefinitionPin :one
-- Returns the version of a definition with a body, after adding it if there is none. Versions count from 1.
WITH known AS (
    SELECT d.version FROM actlog.definition AS d WHERE d.definition_id = @definition_id::text AND d.sha256 = @sha256::text
),
added AS (
    INSERT INTO actlog.definition (definition_id, version, kind, body, sha256, created_by)
    SELECT @definition_id::text, COALESCE((SELECT max(d.version) FROM actlog.definition AS d WHERE d.definition_id = @definition_id::text), 0) + 1,
        @kind::text, @body::json, @sha256::text, sqlc.narg('created_by')::text
    WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT DO NOTHING
    RETURNING version
)
SELECT version FROM known UNION ALL SELECT version FROM added;

-- name: DefinitionBody :one
-- Returns the body of a definition.
SELECT d.body FROM actlog.definition AS d WHERE d.definition_id = @definition_id::text AND d.version = @version::integer;

-- name: WaitOpen :one
-- Returns a wait of a run as it stands, whether it is too late to decide it, who began its tree, and whether by the policy of
-- its call they may not approve it. Waits that were only recorded are no waits of runs. The caller holds the root plan.
SELECT w.root_plan_id, w.plan_id, w.state, w.type, w.form_inputs, w.subject, w.expires_at,
    (r.done OR COALESCE(w.expires_at <= now(), false))::boolean AS over, w.step_id, w.tool_call_id,
    COALESCE((SELECT o.starter FROM actlog.run AS o WHERE o.root_plan_id = w.root_plan_id AND o.plan_id = w.root_plan_id), '')::text AS starter,
    EXISTS (
        SELECT FROM actlog.act_tool_info AS t
        WHERE t.tool_call_id = w.tool_call_id AND t.root_plan_id = w.root_plan_id AND t.policy #>> '{approval,notStarter}' = 'true'
    ) AS not_starter
FROM actlog.wait_state AS w
JOIN actlog.run AS r ON r.root_plan_id = w.root_plan_id AND r.plan_id = w.plan_id
WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id = @plan_id::text AND w.wait_id = @wait_id::text;

-- name: WaitFormFree :exec
-- Fails with SQLSTATE YA003 if another form of a tree waits for a human, also one whose time is over as long as its run has
-- not ended it. The caller holds the root plan.
SELECT CASE WHEN EXISTS (
    SELECT FROM actlog.wait_state AS w
    WHERE w.root_plan_id = @root_plan_id::text AND NOT (w.plan_id = @plan_id::text AND w.wait_id = @wait_id::text)
        AND w.state = 'WAITING' AND COALESCE(w.type, 'USER_INPUT') = 'USER_INPUT'
        AND EXISTS (SELECT FROM actlog.run AS r WHERE r.root_plan_id = w.root_plan_id AND r.plan_id = w.plan_id AND NOT r.done)
) THEN actlog.form_waits() END;

-- name: RunUsed :one
-- Returns what a run and all below it have used: tokens and cost, a model whose calls have no price, unless its name begins with one that is allowed, and why a run below
-- could not keep its limit of cost; empty: none. It reads all calls if they may lack a price.
WITH RECURSIVE below AS (
    SELECT sqlc.arg('plan_id')::text COLLATE "C" AS plan_id
    UNION
    SELECT p.current_plan_id
    FROM below AS b
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = @root_plan_id::text AND p.parent_plan_id = b.plan_id
)
SELECT COALESCE(sum(COALESCE(a.input_tokens, 0) + COALESCE(a.output_tokens, 0)), 0)::bigint AS tokens, COALESCE(sum(a.cost_usd), 0)::float8 AS cost_usd,
    COALESCE((
        SELECT min(c.model_name)
        FROM actlog.agent_execution_record AS s
        JOIN actlog.think_act_record AS c ON c.root_plan_id = s.root_plan_id AND c.step_id = s.step_id AND c.part = s.part
        WHERE s.root_plan_id = @root_plan_id::text AND s.shown_plan_id IN (SELECT b.plan_id FROM below AS b) AND @costs::boolean
            AND c.forked_from IS NULL AND c.cost_usd IS NULL AND c.input_price IS NULL AND c.model_name IS NOT NULL AND COALESCE(c.input_tokens, c.output_tokens) IS NOT NULL
            AND NOT EXISTS (SELECT FROM unnest(@allowed::text[]) AS u (model) WHERE starts_with(c.model_name, u.model))
    ), '')::text AS unpriced_model,
    COALESCE((
        SELECT min(p.error_message)
        FROM actlog.plan_execution_record AS p
        WHERE p.root_plan_id = @root_plan_id::text AND p.current_plan_id IN (SELECT b.plan_id FROM below AS b)
            AND p.error_kind = 'limit_cost_unknown' AND (p.forked_from IS NULL OR p.current_plan_id = p.root_plan_id)
    ), '')::text AS unpriced_below
FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = @root_plan_id::text AND a.shown_plan_id IN (SELECT b.plan_id FROM below AS b);

-- name: RunCancelTree :execrows
-- Says that all runs of a tree should stop. Those that nobody holds are due. The caller holds the root plan.
UPDATE actlog.run AS r
SET desired = 'CANCEL', signals = r.signals + 1, due_at = CASE WHEN r.worker_id IS NULL THEN now() END
WHERE r.root_plan_id = @root_plan_id::text AND NOT r.done AND r.desired <> 'CANCEL';

-- name: RunForkable :one
-- Returns a run that another one is to go on from: the newest run of a plan, with what the fork has of its plan.
SELECT r.root_plan_id, r.plan_id, r.project,
    EXISTS (SELECT FROM actlog.dropped_detail AS d WHERE p.part >= d.from_day AND p.part < d.to_day) AS dropped,
    p.executor, p.name, p.title, p.user_request, p.user_id, p.tags, p.environment, p.conversation_id, p.model_name, p.metadata,
    p.project AS plan_project
FROM actlog.run AS r
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id
WHERE r.plan_id = @plan_id::text
ORDER BY r.created_at DESC
LIMIT 1;

-- name: DefinitionsOfTree :many
-- Returns the definitions of the runs of a tree.
SELECT d.definition_id, d.version, d.body
FROM actlog.definition AS d
WHERE (d.definition_id, d.version) IN (
    SELECT r.definition_id, r.definition_version FROM actlog.run AS r WHERE r.root_plan_id = @root_plan_id::text
);

-- name: CycleMessages :many
-- Returns what the models of some cycles of a tree said.
SELECT c.step_id, c.seq, c.message
FROM unnest(@step_ids::text[], @seqs::integer[]) AS u (step_id, seq)
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = @root_plan_id::text AND p.current_plan_id = @root_plan_id::text
JOIN actlog.think_act_record AS c ON c.root_plan_id = p.root_plan_id AND c.step_id = u.step_id AND c.seq = u.seq AND c.part = p.part;

-- name: RunsOfTree :many
-- Returns the runs of a tree, as they were started.
SELECT
    r.plan_id, r.executor, r.name, r.definition_id, r.definition_version, array_remove(r.needs, 'release:' || r.release)::text[] AS needs,
    r.input, r.limits, r.depth, r.starter, r.project, r.priority, r.concurrency_key, r.agent, r.asked,
    COALESCE(r.ids_of, r.plan_id)::text AS ids_of, r.changes
FROM actlog.run AS r
WHERE r.root_plan_id = @root_plan_id::text;

-- name: RunDefinition :one
-- Returns the definition of a run, and what is changed in it.
SELECT d.body, r.changes
FROM actlog.run AS r
JOIN actlog.definition AS d ON d.definition_id = r.definition_id AND d.version = r.definition_version
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;

-- name: RunFork :exec
-- Notes of a run from which one, and from which row of it, it goes on, if it is a root; of which plan its ids follow, and what
-- is changed in its definition.
UPDATE actlog.run AS r
SET forked_from = sqlc.narg('forked_from')::text, forked_at = sqlc.narg('forked_at')::text, ids_of = @ids_of::text,
    changes = sqlc.narg('changes')::json
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text;
