-- Models that do not answer, and the runs that wait for them.

-- name: ModelAwayAdd :exec
-- Notes that a model is away, when it is asked next, and whether runs ask another one in its place.
INSERT INTO actlog.model_away (model, since, error_kind, error_message, passed_over, probe_at)
VALUES (
    @model::text, sqlc.arg('since')::timestamptz, @error_kind::text, @error_message::text, @passed_over::boolean,
    now() + sqlc.arg('pause_seconds')::float8 * INTERVAL '1 second'
)
ON CONFLICT (model) DO UPDATE
SET error_kind = EXCLUDED.error_kind, error_message = EXCLUDED.error_message,
    passed_over = model_away.passed_over OR EXCLUDED.passed_over;

-- name: ModelWaitAdd :exec
-- Notes that a run waits for a model, and has asked it if it was its turn.
INSERT INTO actlog.model_wait (root_plan_id, plan_id, model, since, error_kind, error_message, alone)
VALUES (
    @root_plan_id::text, @plan_id::text, @model::text, sqlc.arg('since')::timestamptz, @error_kind::text, @error_message::text,
    @alone::boolean
)
ON CONFLICT (root_plan_id, plan_id, model) DO UPDATE
SET error_kind = EXCLUDED.error_kind, error_message = EXCLUDED.error_message, alone = EXCLUDED.alone, asks = false;

-- name: ModelWaits :many
-- Returns the models that a run waits for.
SELECT w.model, w.since, w.error_kind, w.error_message, w.alone, w.asks
FROM actlog.model_wait AS w
WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id = @plan_id::text;

-- name: ModelAway :many
-- Returns the models that are away.
SELECT a.model, a.since, a.error_kind, a.error_message, a.probe_at FROM actlog.model_away AS a ORDER BY a.model;

-- name: ModelProbeTake :execrows
-- Lets a run that could ask another model ask whether one is back, if that is due and no other run takes it. The next
-- pause is as for ModelProbe.
UPDATE actlog.model_away AS a
SET probes = a.probes + 1, passed_over = true, probe_at = now() + INTERVAL '1 second' * LEAST(
    sqlc.arg('from_seconds')::float8 * sqlc.arg('factor')::float8 ^ LEAST(a.probes + 1, 100), sqlc.arg('most_seconds')::float8
)
WHERE a.model = @model::text AND a.probe_at <= now();

-- name: ModelProbe :execrows
-- Makes one run due for each model that is to be asked whether it is back, of those that a worker has: of the runs that
-- the worker can carry, that which was carried longest ago. A model that is being asked is not asked by another run. The next pause is
-- from * factor ^ probes, and no longer than most.
WITH due AS MATERIALIZED (
    SELECT a.model, LEAST(p.from_seconds * p.factor ^ LEAST(a.probes + 1, 100), p.most_seconds) AS pause
    FROM actlog.model_away AS a
    JOIN unnest(@models::text[], @from_seconds::float8[], @factors::float8[], @most_seconds::float8[])
        AS p (model, from_seconds, factor, most_seconds) ON p.model = a.model
    WHERE a.probe_at <= now() AND NOT EXISTS (
        SELECT FROM actlog.model_wait AS w
        JOIN actlog.run AS r ON r.root_plan_id = w.root_plan_id AND r.plan_id = w.plan_id
        WHERE w.model = a.model AND w.asks AND NOT r.done AND (r.worker_id IS NOT NULL OR r.due_at <= now())
    )
    FOR UPDATE OF a SKIP LOCKED
),
chosen AS MATERIALIZED (
    SELECT c.root_plan_id, c.plan_id, d.model
    FROM due AS d
    CROSS JOIN LATERAL (
        SELECT r.root_plan_id, r.plan_id
        FROM actlog.model_wait AS w
        JOIN actlog.run AS r ON r.root_plan_id = w.root_plan_id AND r.plan_id = w.plan_id
        WHERE w.model = d.model AND r.worker_id IS NULL AND NOT r.done AND r.desired = 'RUN' AND r.needs <@ @provides::text[]
        ORDER BY r.claimed_at
        LIMIT 1
        FOR NO KEY UPDATE OF r SKIP LOCKED
    ) AS c
),
next AS (
    UPDATE actlog.model_away AS a
    SET probes = a.probes + 1, probe_at = now() + d.pause * INTERVAL '1 second'
    FROM due AS d
    JOIN chosen AS c ON c.model = d.model
    WHERE a.model = d.model
),
asks AS (
    UPDATE actlog.model_wait AS w
    SET asks = true
    FROM chosen AS c
    WHERE w.root_plan_id = c.root_plan_id AND w.plan_id = c.plan_id AND w.model = c.model
)
UPDATE actlog.run AS r
SET due_at = now()
FROM chosen AS c
WHERE r.root_plan_id = c.root_plan_id AND r.plan_id = c.plan_id;

-- name: ModelUnwanted :exec
-- Forgets models that are away and that no run waits for: nobody would notice that they are back. One in whose place
-- runs ask another is forgotten when no run has come to it for a day.
DELETE FROM actlog.model_away AS a
WHERE (NOT a.passed_over OR a.probe_at < now() - INTERVAL '1 day') AND NOT EXISTS (
    SELECT FROM actlog.model_wait AS w
    JOIN actlog.run AS r ON r.root_plan_id = w.root_plan_id AND r.plan_id = w.plan_id
    WHERE w.model = a.model AND NOT r.done
);

-- name: ModelAnswered :exec
-- Notes that a model is back, and that a run which waited for models goes on.
WITH back AS (
    DELETE FROM actlog.model_away AS a WHERE a.model = @model::text
)
DELETE FROM actlog.model_wait AS w
WHERE w.root_plan_id = @root_plan_id::text AND w.plan_id = @plan_id::text;

-- name: ModelWaitEnd :execrows
-- Makes runs due that wait for a model which is not away any more. What somebody else is about to do with one of them
-- makes that due, too.
WITH free AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id
    FROM actlog.run AS r
    WHERE r.worker_id IS NULL AND NOT r.done AND EXISTS (
        SELECT FROM actlog.model_wait AS w
        WHERE w.root_plan_id = r.root_plan_id AND w.plan_id = r.plan_id AND NOT w.alone
            AND NOT EXISTS (SELECT FROM actlog.model_away AS a WHERE a.model = w.model)
    )
    FOR NO KEY UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM actlog.model_wait AS w
    USING free AS f
    WHERE w.root_plan_id = f.root_plan_id AND w.plan_id = f.plan_id
)
UPDATE actlog.run AS r
SET due_at = now()
FROM free AS f
WHERE r.root_plan_id = f.root_plan_id AND r.plan_id = f.plan_id;
