-- Jobs that ask many runs for the same thing.

-- name: BulkAdd :execrows
-- Adds a job, unless a request of its starter with its idempotency key added one.
INSERT INTO actlog.bulk (bulk_id, action, filter, limits, rate, starter, claimed_by, idempotency_key, request_sha256)
VALUES (
    @bulk_id::text, @action::text, @filter::json, sqlc.narg('limits')::json, @rate::float8, @starter::text, sqlc.narg('claimed_by')::text,
    sqlc.narg('idempotency_key')::text, sqlc.narg('request_sha256')::text
)
ON CONFLICT DO NOTHING;

-- name: BulkByKey :one
-- Returns the job that a request of somebody with an idempotency key started.
SELECT b.bulk_id, COALESCE(b.request_sha256, '')::text AS request_sha256
FROM actlog.bulk AS b
WHERE b.idempotency_key = @idempotency_key::text AND b.starter = @starter::text;

-- name: BulkRead :one
-- Returns a job, and how many of its runs were asked.
SELECT b.bulk_id, b.action, b.state, b.rate, b.created_at, b.ended_at, n.matches, n.done, n.failed
FROM actlog.bulk AS b
CROSS JOIN LATERAL (
    SELECT count(*) AS matches, count(r.handled_at) FILTER (WHERE r.error IS NULL) AS done, count(r.error) AS failed
    FROM actlog.bulk_run AS r
    WHERE r.bulk_id = b.bulk_id
) AS n
WHERE b.bulk_id = @bulk_id::text;

-- name: BulkStop :execrows
-- Stops a job, unless it has ended.
UPDATE actlog.bulk AS b
SET state = 'CANCELLED', ended_at = now(), due_at = NULL
WHERE b.bulk_id = @bulk_id::text AND b.state = 'RUNNING';

-- name: BulkTake :one
-- Takes a job that is due, for as long as its next runs take at its rate: until then no other worker takes it.
UPDATE actlog.bulk AS b
SET due_at = GREATEST(b.due_at, now() - INTERVAL '1 second') + (LEAST(ceil(b.rate), @most::integer) / b.rate) * INTERVAL '1 second'
FROM (
    SELECT x.bulk_id FROM actlog.bulk AS x WHERE x.due_at <= now() ORDER BY x.due_at LIMIT 1 FOR UPDATE SKIP LOCKED
) AS d
WHERE b.bulk_id = d.bulk_id
RETURNING b.bulk_id, b.action, b.limits, b.starter, b.claimed_by, LEAST(ceil(b.rate), @most::integer)::integer AS runs;

-- name: BulkNext :many
-- Returns the next runs of a job that were not asked yet.
SELECT r.place, r.plan_id
FROM actlog.bulk_run AS r
WHERE r.bulk_id = @bulk_id::text AND r.handled_at IS NULL
ORDER BY r.place
LIMIT @runs::integer;

-- name: BulkHandled :exec
-- Notes that a run of a job was asked, and why it does not do it.
UPDATE actlog.bulk_run AS r
SET handled_at = now(), error = sqlc.narg('error')::text
WHERE r.bulk_id = @bulk_id::text AND r.place = @place::integer AND r.handled_at IS NULL;

-- name: BulkEnd :exec
-- Ends a job all of whose runs were asked.
UPDATE actlog.bulk AS b
SET state = 'COMPLETED', ended_at = now(), due_at = NULL
WHERE b.bulk_id = @bulk_id::text AND b.state = 'RUNNING'
    AND NOT EXISTS (SELECT FROM actlog.bulk_run AS r WHERE r.bulk_id = b.bulk_id AND r.handled_at IS NULL);

-- name: BulkForget :exec
-- Deletes jobs that ended more than 30 days ago.
DELETE FROM actlog.bulk AS b WHERE b.ended_at < now() - INTERVAL '30 days';
