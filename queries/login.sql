-- name: LoginAdd :exec
-- Begins a session, and forgets those that have expired.
WITH expired AS (
    DELETE FROM actlog.login AS l WHERE l.expires_at < now()
)
INSERT INTO actlog.login (session_sha256, key_sha256, expires_at)
VALUES (@session_sha256::bytea, @key_sha256::bytea, now() + @lasts::interval);

-- name: LoginKey :one
-- Returns with which key a session was begun.
SELECT l.key_sha256 FROM actlog.login AS l WHERE l.session_sha256 = @session_sha256::bytea AND l.expires_at > now();

-- name: LoginEnd :exec
-- Ends a session.
DELETE FROM actlog.login AS l WHERE l.session_sha256 = @session_sha256::bytea;
