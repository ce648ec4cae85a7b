-- Runs that nobody has begun before their time was over.

-- name: RunExpired :many
-- Returns runs that nobody began in time, those that were due first, as RunExpire ends them.
SELECT r.root_plan_id
FROM actlog.run AS r
WHERE r.expires_at <= now() AND NOT r.done AND r.first_claimed_at IS NULL AND r.worker_id IS NULL AND r.desired <> 'CANCEL'
ORDER BY r.expires_at
LIMIT @most::integer;

-- name: RunExpire :one
-- Ends a run that nobody began in time, unless a worker has begun it meanwhile, or it was stopped. There is nothing below
-- it, and nobody has read the messages to it. The caller holds the root plan.
WITH messages AS (
    UPDATE actlog.run_message AS m
    SET state = 'UNREAD'
    FROM actlog.run AS r
    WHERE m.root_plan_id = r.root_plan_id AND m.plan_id = r.plan_id AND m.state = 'PENDING'
        AND r.root_plan_id = @root_plan_id::text AND r.plan_id = @root_plan_id::text
        AND r.expires_at <= now() AND NOT r.done AND r.first_claimed_at IS NULL AND r.worker_id IS NULL AND r.desired <> 'CANCEL'
)
UPDATE actlog.run AS r
SET done = true, done_at = now(), due_at = NULL, unread = 0
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @root_plan_id::text
    AND r.expires_at <= now() AND NOT r.done AND r.first_claimed_at IS NULL AND r.worker_id IS NULL AND r.desired <> 'CANCEL'
RETURNING r.executor, r.expires_at, r.done_at;
