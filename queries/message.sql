-- What is said to runs while they are at work.

-- name: MessageSaid :one
-- Returns a message that was said before: that of an id, or of a request. It has the hash of the body of that.
SELECT
    m.message_id, m.plan_id, m.to_step_id, m.text, COALESCE(m.claimed_by, m.said_by, '')::text AS said_by, m.interrupts, m.state,
    m.created_at, m.read_at, m.step_id, m.seq, m.request_sha256
FROM actlog.run_message AS m
WHERE m.root_plan_id = @root_plan_id::text
    AND (m.message_id = @message_id::text OR m.idempotency_key = @idempotency_key::text AND COALESCE(m.said_by, '') = @said_by::text);

-- name: MessageReader :one
-- Returns the run of a step that goes on, which is a run of a tree or below it.
WITH RECURSIVE below AS (
    SELECT r.root_plan_id, r.plan_id
    FROM actlog.run AS r
    WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
    UNION
    SELECT r.root_plan_id, r.plan_id
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id AND NOT r.done
)
SELECT b.plan_id
FROM below AS b
JOIN actlog.agent_execution_record AS a ON a.root_plan_id = b.root_plan_id AND a.shown_plan_id = b.plan_id
WHERE a.step_id = @step_id::text AND a.status <> 'FINISHED';

-- name: MessageCount :one
-- Counts a message to a run that has not ended, and returns how many wait with it. The caller holds the root plan.
UPDATE actlog.run AS r
SET unread = r.unread + 1
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text AND NOT r.done
RETURNING r.unread;

-- name: MessageAdd :one
-- Adds a message to a run. The caller has counted it.
INSERT INTO actlog.run_message (
    root_plan_id, message_id, plan_id, to_step_id, text, said_by, claimed_by, interrupts, idempotency_key, request_sha256
)
VALUES (
    @root_plan_id::text, @message_id::text, @plan_id::text, sqlc.narg('to_step_id')::text, @text::text,
    sqlc.narg('said_by')::text, sqlc.narg('claimed_by')::text, @interrupts::boolean,
    sqlc.narg('idempotency_key')::text, sqlc.narg('request_sha256')::text
)
RETURNING created_at;

-- name: MessageUnread :many
-- Returns for which steps messages to a run wait; empty: for any.
SELECT DISTINCT COALESCE(m.to_step_id, '')::text AS to_step_id
FROM actlog.run_message AS m
WHERE m.root_plan_id = @root_plan_id::text AND m.plan_id = @plan_id::text AND m.state = 'PENDING';

-- name: MessageRead :many
-- Lets cycles that begin read the messages to their run that wait for their steps, no more than most each, and returns
-- all that each of them has read, also before: so it may be called again. The caller holds the run.
WITH begins AS (
    SELECT u.step_id, u.seq, u.place
    FROM unnest(@step_ids::text[], @seqs::integer[]) WITH ORDINALITY AS u (step_id, seq, place)
),
waiting AS (
    SELECT DISTINCT ON (m.message_id) m.message_id, m.number, b.step_id, b.seq
    FROM actlog.run_message AS m
    JOIN begins AS b ON m.to_step_id IS NULL OR m.to_step_id = b.step_id
    WHERE m.root_plan_id = @root_plan_id::text AND m.plan_id = @plan_id::text AND m.state = 'PENDING'
    ORDER BY m.message_id, b.place
),
before AS (
    SELECT m.message_id, m.step_id, m.seq, m.text, m.said_by, m.claimed_by, m.created_at, m.read_at, m.number
    FROM actlog.run_message AS m
    JOIN begins AS b ON m.step_id = b.step_id AND m.seq = b.seq
    WHERE m.root_plan_id = @root_plan_id::text AND m.plan_id = @plan_id::text AND m.state = 'READ'
),
taken AS (
    SELECT w.message_id, w.step_id, w.seq, row_number() OVER (PARTITION BY w.step_id ORDER BY w.number) AS n
    FROM waiting AS w
),
now_read AS (
    UPDATE actlog.run_message AS m
    SET state = 'READ', read_at = now(), step_id = t.step_id, seq = t.seq
    FROM taken AS t
    WHERE m.root_plan_id = @root_plan_id::text AND m.message_id = t.message_id
        AND t.n + (SELECT count(*) FROM before AS x WHERE x.step_id = t.step_id) <= @most::integer
    RETURNING m.message_id, m.step_id, m.seq, m.text, m.said_by, m.claimed_by, m.created_at, m.read_at, m.number
),
counted AS (
    UPDATE actlog.run AS r
    SET unread = r.unread - (SELECT count(*)::integer FROM now_read)
    WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @plan_id::text
)
SELECT
    a.message_id, a.step_id::text AS step_id, a.text, COALESCE(a.claimed_by, a.said_by, '')::text AS said_by, a.created_at
FROM (SELECT * FROM before UNION ALL SELECT * FROM now_read) AS a
ORDER BY a.read_at, a.number;

-- name: MessageList :many
-- Returns messages to a run and to those below it, in their order, those after one of them; empty: the first.
WITH RECURSIVE below AS (
    (SELECT r.root_plan_id, r.plan_id FROM actlog.run AS r WHERE r.plan_id = @plan_id::text ORDER BY r.created_at DESC LIMIT 1)
    UNION
    SELECT r.root_plan_id, r.plan_id
    FROM below AS b
    JOIN actlog.run AS r ON r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id
)
SELECT
    m.message_id, m.plan_id, m.to_step_id, m.text, COALESCE(m.claimed_by, m.said_by, '')::text AS said_by, m.interrupts, m.state,
    m.created_at, m.read_at, m.step_id, m.seq
FROM below AS b
JOIN actlog.run_message AS m ON m.root_plan_id = b.root_plan_id AND m.plan_id = b.plan_id
WHERE @after::text = '' OR m.number > (
    SELECT x.number FROM actlog.run_message AS x WHERE x.root_plan_id = b.root_plan_id AND x.message_id = @after::text
)
ORDER BY m.number
LIMIT @most::integer;

-- name: MessageFork :exec
-- Says to a step of a fork what the cycle has read with which it goes on, which is made anew. The caller holds both root plans.
WITH said AS (
    INSERT INTO actlog.run_message (root_plan_id, message_id, plan_id, to_step_id, text, said_by, claimed_by, interrupts, created_at)
    SELECT @to_root_plan_id::text, m.message_id, @to_plan_id::text, @to_step_id::text, m.text, m.said_by, m.claimed_by, m.interrupts, m.created_at
    FROM actlog.run_message AS m
    WHERE m.root_plan_id = @from_root_plan_id::text AND m.step_id = @step_id::text AND m.seq = @seq::integer AND m.state = 'READ'
    ORDER BY m.number
    RETURNING message_id
)
UPDATE actlog.run AS r
SET unread = (SELECT count(*) FROM said)
WHERE r.root_plan_id = @to_root_plan_id::text AND r.plan_id = @to_plan_id::text;
