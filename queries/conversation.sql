-- name: ConversationAdd :exec
-- Begins a conversation, or notes that it goes on.
INSERT INTO actlog.conversation AS c (conversation_id, given_id, starter, project, user_id, agent_name, workflow_name, base_id)
VALUES (@conversation_id::text, sqlc.narg('given_id')::text, @starter::text, @project::text,
    sqlc.narg('user_id')::text, sqlc.narg('agent_name')::text, sqlc.narg('workflow_name')::text, sqlc.narg('base_id')::text)
ON CONFLICT (conversation_id) DO UPDATE SET
    updated_at = now(),
    agent_name = COALESCE(c.agent_name, excluded.agent_name),
    workflow_name = COALESCE(c.workflow_name, excluded.workflow_name),
    base_id = COALESCE(c.base_id, excluded.base_id);

-- name: ConversationSay :exec
-- Adds what was said in a run to its conversation, from a position of the run on, unless it is there. What a retry of the run
-- says at a position takes the place of what was said there before.
INSERT INTO actlog.conversation_message AS m (conversation_id, plan_id, position, role, content, message)
SELECT @conversation_id::text, @plan_id::text, u.position - 1 + sqlc.arg('number')::integer, u.role, u.content, NULLIF(u.message, '')::json
FROM unnest(@roles::text[], @contents::text[], @messages::text[]) WITH ORDINALITY AS u (role, content, message, position)
ON CONFLICT ON CONSTRAINT conversation_said_once DO UPDATE
SET role = excluded.role, content = excluded.content, message = excluded.message
WHERE (m.role, m.content) IS DISTINCT FROM (excluded.role, excluded.content)
    AND EXISTS (SELECT FROM actlog.run AS r WHERE r.plan_id = excluded.plan_id AND r.ended_before IS NOT NULL);

-- name: ConversationHistory :many
-- Returns the last messages of a conversation from before a run, newest first. What was said in a run stands together.
SELECT m.role, m.content, m.message
FROM (
    SELECT x.*, min(x.created_at) OVER (PARTITION BY x.plan_id) AS began
    FROM actlog.conversation_message AS x
    WHERE x.conversation_id = @conversation_id::text
        AND x.created_at < (SELECT r.created_at FROM actlog.run AS r WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text)
) AS m
ORDER BY m.began DESC, m.plan_id DESC, m.position DESC
LIMIT @messages::integer;

-- name: ConversationMessages :many
-- Returns a page of the messages of a conversation, oldest first. What was said in a run stands together.
SELECT m.role, m.content, m.message, m.plan_id, m.created_at
FROM (
    SELECT x.*, min(x.created_at) OVER (PARTITION BY x.plan_id) AS began
    FROM actlog.conversation_message AS x
    WHERE x.conversation_id = @conversation_id::text
) AS m
ORDER BY m.began, m.plan_id, m.position
LIMIT @messages::integer OFFSET @skipped::integer;

-- name: SessionOne :one
-- Returns the session of an id, of one starter or of any, with the number of its messages: of several, that of the one who asks, else
-- the last used one.
SELECT c.conversation_id AS key, COALESCE(c.given_id, c.conversation_id)::text AS conversation_id, c.starter, c.project, c.user_id, c.agent_name,
    c.workflow_name, c.base_id, c.created_at, c.updated_at,
    (SELECT count(*) FROM actlog.conversation_message AS m WHERE m.conversation_id = c.conversation_id) AS messages
FROM actlog.conversation AS c
WHERE COALESCE(c.given_id, c.conversation_id) = @conversation_id::text AND (c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL)
    AND (sqlc.narg('starter')::text IS NULL OR c.starter = sqlc.narg('starter')::text)
    AND (sqlc.narg('project')::text IS NULL OR c.project = sqlc.narg('project')::text)
ORDER BY c.starter = @asker::text DESC, c.updated_at DESC, c.conversation_id
LIMIT 1;

-- name: SessionList :many
-- Returns a page of the sessions of agents and workflows, of one starter or of all, the last used first.
SELECT c.conversation_id AS key, COALESCE(c.given_id, c.conversation_id)::text AS conversation_id, c.starter, c.project, c.user_id, c.agent_name,
    c.workflow_name, c.base_id, c.created_at, c.updated_at,
    (SELECT count(*) FROM actlog.conversation_message AS m WHERE m.conversation_id = c.conversation_id) AS messages
FROM actlog.conversation AS c
WHERE (c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL)
    AND (sqlc.narg('starter')::text IS NULL OR c.starter = sqlc.narg('starter')::text)
    AND (sqlc.narg('project')::text IS NULL OR c.project = sqlc.narg('project')::text)
    AND (sqlc.narg('agent_name')::text IS NULL OR c.agent_name = sqlc.narg('agent_name')::text)
    AND (sqlc.narg('workflow_name')::text IS NULL OR c.workflow_name = sqlc.narg('workflow_name')::text)
ORDER BY c.updated_at DESC, c.conversation_id
LIMIT @page::integer OFFSET @skipped::integer;

-- name: SessionCount :one
-- Counts the sessions that a list has on all of its pages.
SELECT count(*)
FROM actlog.conversation AS c
WHERE (c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL)
    AND (sqlc.narg('starter')::text IS NULL OR c.starter = sqlc.narg('starter')::text)
    AND (sqlc.narg('project')::text IS NULL OR c.project = sqlc.narg('project')::text)
    AND (sqlc.narg('agent_name')::text IS NULL OR c.agent_name = sqlc.narg('agent_name')::text)
    AND (sqlc.narg('workflow_name')::text IS NULL OR c.workflow_name = sqlc.narg('workflow_name')::text);

-- name: SessionDelete :execrows
-- Deletes a session with those of its steps, by the key of its row.
DELETE FROM actlog.conversation AS c
USING actlog.conversation AS s
WHERE s.conversation_id = @conversation_id::text AND (
    c.conversation_id = s.conversation_id
    OR c.base_id = COALESCE(s.given_id, s.conversation_id) AND c.starter = s.starter AND c.project = s.project
);

-- name: SessionCleanup :execrows
-- Deletes the sessions that were not used for so many days, and all but the last used ones. The sessions of steps go with theirs.
WITH kept AS (
    SELECT COALESCE(c.given_id, c.conversation_id) AS id, c.starter, c.project
    FROM actlog.conversation AS c
    WHERE (c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL) AND c.base_id IS NULL
        AND c.updated_at >= now() - make_interval(days => @days::integer)
    ORDER BY c.updated_at DESC, c.conversation_id
    LIMIT @most::integer
)
DELETE FROM actlog.conversation AS c
WHERE (c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL)
    AND NOT EXISTS (
        SELECT FROM kept AS k
        WHERE k.id = COALESCE(c.base_id, c.given_id, c.conversation_id) AND k.starter = c.starter AND k.project = c.project
    );
