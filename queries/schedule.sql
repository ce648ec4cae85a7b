-- Schedules, their ticks and the order of their runs. Who decides about the ticks of a schedule holds its row, so that
-- each tick has one outcome.

-- name: ScheduleFind :one
-- Returns a schedule, unless it is of a file that no process has had for a minute.
SELECT sqlc.embed(s), now()::timestamptz AS now
FROM actlog.schedule AS s
WHERE s.name = @name::text AND (s.source = 'api' OR s.seen_at > now() - INTERVAL '1 minute');

-- name: ScheduleList :many
-- Returns schedules behind a name, as ScheduleFind does.
SELECT sqlc.embed(s), now()::timestamptz AS now
FROM actlog.schedule AS s
WHERE s.name > @after::text AND (s.source = 'api' OR s.seen_at > now() - INTERVAL '1 minute')
ORDER BY s.name
LIMIT @most::integer;

-- name: ScheduleHold :one
-- Locks a schedule that is to be changed, and says whether it is of a file that a process has.
SELECT sqlc.embed(s), (s.source = 'file' AND s.seen_at > now() - INTERVAL '1 minute')::boolean AS of_file
FROM actlog.schedule AS s
WHERE s.name = @name::text
FOR NO KEY UPDATE;

-- name: ScheduleTake :one
-- Locks a schedule of which a tick is due, unless it was changed meanwhile, or another process decides about it.
SELECT s.next_at, s.overlap, now()::timestamptz AS now
FROM actlog.schedule AS s
WHERE s.name = @name::text AND s.version = @version::bigint AND s.due_at <= now()
FOR NO KEY UPDATE SKIP LOCKED;

-- name: ScheduleOpen :one
-- Reports whether a run of a schedule has not ended. The caller holds the schedule.
SELECT EXISTS (SELECT FROM actlog.run AS r WHERE r.schedule = @name::text AND NOT r.done);

-- name: ScheduleNow :one
-- Returns the time of the database.
SELECT now()::timestamptz AS now;

-- name: SchedulePut :one
-- Writes what defines a schedule, and reports whether it is new.
INSERT INTO actlog.schedule AS s (
    name, source, cron, timezone, jitter_seconds, overlap, catch_up, window_seconds, start, starter, paused, file_paused, file_hash, next_at, due_at
)
VALUES (
    @name::text, @source::text, @cron::text, @timezone::text, @jitter_seconds::float8, @overlap::text, @catch_up::text, @window_seconds::float8,
    @start::json, @starter::text, @paused::boolean, sqlc.narg('file_paused')::boolean, sqlc.narg('file_hash')::text, sqlc.narg('next_at')::timestamptz, sqlc.narg('due_at')::timestamptz
)
ON CONFLICT (name) DO UPDATE
SET source = excluded.source, cron = excluded.cron, timezone = excluded.timezone, jitter_seconds = excluded.jitter_seconds,
    overlap = excluded.overlap, catch_up = excluded.catch_up, window_seconds = excluded.window_seconds, start = excluded.start,
    starter = excluded.starter, paused = excluded.paused, file_paused = excluded.file_paused, file_hash = excluded.file_hash, next_at = excluded.next_at, due_at = excluded.due_at,
    error = NULL, version = s.version + 1, seen_at = now(), updated_at = now()
RETURNING (xmax = 0)::boolean AS is_new;

-- name: SchedulePause :exec
-- Pauses a schedule, or lets it tick from a tick on.
UPDATE actlog.schedule AS s
SET paused = @paused::boolean, next_at = sqlc.narg('next_at')::timestamptz, due_at = sqlc.narg('due_at')::timestamptz, error = NULL,
    version = s.version + 1, updated_at = now()
WHERE s.name = @name::text;

-- name: ScheduleDelete :execrows
-- Deletes a schedule, unless it is of a file that a process has. Its runs stay.
DELETE FROM actlog.schedule AS s
WHERE s.name = @name::text AND (s.source = 'api' OR s.seen_at <= now() - INTERVAL '1 minute');

-- name: ScheduleUnqueue :exec
-- Stops the runs of a schedule that have not begun because others went on.
UPDATE actlog.run AS r
SET desired = 'CANCEL', signals = r.signals + 1, due_at = CASE WHEN r.worker_id IS NULL THEN now() END
WHERE r.schedule = @name::text AND r.queued AND NOT r.done AND r.desired <> 'CANCEL';

-- name: ScheduleDue :many
-- Returns schedules of which a tick is due, behind one: those of requests, and those that a process has in its file.
SELECT sqlc.embed(s)
FROM actlog.schedule AS s
WHERE s.due_at <= now() AND (s.source = 'api' OR s.name = ANY (@names::text[]))
    AND (s.due_at, s.name) > (@after_due_at::timestamptz, @after_name::text)
ORDER BY s.due_at, s.name
LIMIT @most::integer;

-- name: ScheduleSeen :many
-- Notes that a process has schedules in its file as they are here, and returns those that it has to put again: they are not
-- there, a request took them over, or they are of the file of processes that have been silent for a minute.
WITH mine AS (
    SELECT u.name, u.hash FROM unnest(@names::text[], @hashes::text[]) AS u (name, hash)
), seen AS (
    UPDATE actlog.schedule AS s
    SET seen_at = now()
    FROM mine AS m
    WHERE s.name = m.name AND s.source = 'file' AND s.file_hash = m.hash AND s.seen_at < now() - INTERVAL '10 seconds'
)
SELECT m.name::text AS name
FROM mine AS m
LEFT JOIN actlog.schedule AS s ON s.name = m.name
WHERE s.name IS NULL OR s.source <> 'file' OR s.file_hash IS DISTINCT FROM m.hash AND s.seen_at <= now() - INTERVAL '1 minute';

-- name: ScheduleTickAdd :many
-- Puts what came of ticks on record, and returns those of which that was not known.
INSERT INTO actlog.schedule_tick (schedule, tick, outcome, plan_id)
SELECT @name::text, u.tick, u.outcome, NULLIF(u.plan_id, '')
FROM unnest(@ticks::timestamptz[], @outcomes::text[], @plan_ids::text[]) AS u (tick, outcome, plan_id)
ON CONFLICT DO NOTHING
RETURNING tick;

-- name: ScheduleAdvance :exec
-- Notes what came of ticks, and which one is next.
UPDATE actlog.schedule AS s
SET next_at = sqlc.narg('next_at')::timestamptz, due_at = sqlc.narg('due_at')::timestamptz, last_at = GREATEST(s.last_at, @last_at::timestamptz),
    started = s.started + @started::bigint, skipped = s.skipped + @skipped::bigint, missed = s.missed + @missed::bigint, error = NULL
WHERE s.name = @name::text;

-- name: ScheduleFailed :execrows
-- Notes why the tick that is due cannot be started by a process, if that is new. Another one may start it meanwhile.
UPDATE actlog.schedule AS s
SET error = @error::text
WHERE s.name = @name::text AND s.version = @version::bigint AND s.due_at <= now() - INTERVAL '10 seconds' AND s.error IS DISTINCT FROM @error::text;

-- name: ScheduleTicks :many
-- Returns ticks of a schedule, the newest first, before one.
SELECT t.tick, t.outcome, t.plan_id
FROM actlog.schedule_tick AS t
WHERE t.schedule = @name::text AND t.tick < @before::timestamptz
ORDER BY t.tick DESC
LIMIT @most::integer;

-- name: ScheduleQueues :one
-- Reports whether runs wait for others of their schedules.
SELECT EXISTS (SELECT FROM actlog.run AS r WHERE r.schedule IS NOT NULL AND r.queued AND NOT r.done);

-- name: ScheduleWaits :many
-- Returns the schedules of which a run waits for others, and none of these goes on.
SELECT DISTINCT r.schedule::text AS name
FROM actlog.run AS r
WHERE r.schedule IS NOT NULL AND r.queued AND NOT r.done AND r.desired = 'RUN'
    AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.schedule = r.schedule AND NOT o.done AND NOT o.queued);

-- name: ScheduleTurn :execrows
-- Lets the run of a schedule begin that waits longest. The caller holds the schedule, if it is there.
UPDATE actlog.run AS r
SET queued = false, due_at = now()
WHERE (r.root_plan_id, r.plan_id) = (
        SELECT q.root_plan_id, q.plan_id
        FROM actlog.run AS q
        WHERE q.schedule = @name::text AND q.queued AND NOT q.done AND q.desired = 'RUN'
        ORDER BY q.tick_at, q.created_at
        LIMIT 1
    )
    AND r.queued AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.schedule = @name::text AND NOT o.done AND NOT o.queued);

-- name: ScheduleOvertaken :many
-- Returns the runs that a newer one of their schedule is to replace.
SELECT r.plan_id, r.schedule::text AS name
FROM actlog.run AS r
JOIN actlog.schedule AS s ON s.name = r.schedule
WHERE s.overlap = 'cancel' AND NOT r.done AND r.desired <> 'CANCEL' AND EXISTS (
    SELECT FROM actlog.run AS n
    WHERE n.schedule = r.schedule AND n.queued AND NOT n.done AND n.desired = 'RUN' AND (n.tick_at > r.tick_at OR r.tick_at IS NULL AND n.created_at > r.created_at)
)
ORDER BY r.created_at
LIMIT 100;

-- name: ScheduleForget :exec
-- Deletes ticks but the last of each schedule, and schedules that no process has had in its file for long.
WITH gone AS (
    DELETE FROM actlog.schedule AS s
    WHERE s.source = 'file' AND s.seen_at < now() - INTERVAL '30 days'
)
DELETE FROM actlog.schedule_tick AS t
USING actlog.schedule AS s
WHERE t.schedule = s.name AND t.tick <= (
    SELECT x.tick FROM actlog.schedule_tick AS x WHERE x.schedule = s.name ORDER BY x.tick DESC LIMIT 1 OFFSET @kept::integer
);
