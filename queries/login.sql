-- name: LoginAdd :exec
-- Begins a session, and forgets those that have expired, and of the key all but the newest.
WITH expired AS (
    DELETE FROM actlog.login AS l WHERE l.expires_at < now()
), oldest AS (
    DELETE FROM actlog.login AS l
    WHERE l.session_sha256 IN (
        SELECT o.session_sha256 FROM actlog.login AS o
        WHERE o.key_sha256 = @key_sha256::bytea AND o.expires_at >= now()
        ORDER BY o.expires_at DESC
        OFFSET @others::integer
    )
)
INSERT INTO actlog.login (session_sha256, key_sha256, expires_at)
VALUES (@session_sha256::bytea, @key_sha256::bytea, now() + @lasts::interval);

-- name: LoginKey :one
-- Returns with which key a session was begun.
SELECT l.key_sha256 FROM actlog.login AS l WHERE l.session_sha256 = @session_sha256::bytea AND l.expires_at > now();

-- name: LoginEnd :exec
-- Ends a session.
DELETE FROM actlog.login AS l WHERE l.session_sha256 = @session_sha256::bytea;

-- name: LoginEndKeys :exec
-- Ends the sessions of keys that are gone, and of keys that are not listed unless they last longer.
DELETE FROM actlog.login AS l
WHERE l.key_sha256 = ANY(@gone::bytea[])
    OR l.key_sha256 <> ALL(@listed::bytea[]) AND l.expires_at <= now() + @rest::interval;
