-- Places of agents, projects, owners and keys, of which there are only some. RunClaim takes them.

-- name: PlaceDue :one
-- Reports whether a claim may find something: RunClaim reads what is due by the same condition.
SELECT (EXISTS (SELECT FROM actlog.place_change) OR EXISTS (
    SELECT FROM generate_series(0, 9) AS v (priority)
    WHERE EXISTS (
        SELECT FROM actlog.run AS x
        WHERE x.priority = v.priority AND x.due_at <= now() AND x.due_at IS NOT NULL AND x.worker_id IS NULL AND NOT x.done
            AND CASE
                WHEN x.desired <> 'RUN' THEN NOT @alone::boolean
                ELSE x.needs <@ @provides::text[] AND (x.lost = @lone_at::integer) = @alone::boolean
                    AND (x.first_claimed_at IS NOT NULL OR NOT x.queued AND COALESCE(x.start_at <= now(), true) AND COALESCE(x.expires_at > now(), true))
            END
    )
))::boolean AS due;

-- name: PlaceTurn :exec
-- Waits until no other claim counts places, to the end of the transaction. A claim is one message to Postgres, so that no
-- worker keeps others waiting. What follows is planned once for each connection: that takes longer than a claim.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), pg_advisory_xact_lock(hashtextextended('actlog.place', 0));

-- name: PlaceCount :execrows
-- Counts what happened to places, and makes as many of the runs due that wait for one as there is room: in the order of
-- their list, those of one rank by turns of their owners. A run is left that no live worker could take. The caller has
-- the turn.
WITH gone AS (
    DELETE FROM actlog.place_change AS c
    RETURNING c.places, c.freed
),
change AS MATERIALIZED (
    SELECT p.place, count(*) FILTER (WHERE g.freed) AS freed
    FROM gone AS g
    CROSS JOIN LATERAL unnest(g.places) AS p (place)
    GROUP BY p.place
),
counted AS (
    UPDATE actlog.place AS p
    SET taken = p.taken - c.freed
    FROM change AS c
    WHERE p.place = c.place
    RETURNING p.place, p.taken
),
room AS MATERIALIZED ( -- 200 at once where there is no limit any more
    SELECT c.place, LEAST(GREATEST(COALESCE(l.most - COALESCE(n.taken, 0), 200), 0), 200) AS runs
    FROM change AS c
    LEFT JOIN counted AS n ON n.place = c.place
    CROSS JOIN LATERAL (
        SELECT CASE split_part(c.place, ':', 1)
            WHEN 'key' THEN NULLIF(@per_key::integer, 0)
            WHEN 'owner' THEN NULLIF(@per_owner::integer, 0)
            ELSE (SELECT u.most FROM unnest(@places::text[], @most::integer[]) AS u (place, most) WHERE u.place = c.place)
        END AS most
    ) AS l
),
live AS MATERIALIZED (
    SELECT DISTINCT w.provides FROM actlog.worker AS w WHERE w.lease_until > now() AND w.stopped_at IS NULL
),
next AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id
    FROM room AS m
    CROSS JOIN LATERAL (
        SELECT y.root_plan_id, y.plan_id
        FROM (
            SELECT x.root_plan_id, x.plan_id
            FROM (
                SELECT b.root_plan_id, b.plan_id, b.owner, b.created_at, actlog.place_rank(b.blocked, b.priority) AS rank
                FROM actlog.run AS b
                WHERE b.blocked = m.place AND b.due_at IS NULL AND b.worker_id IS NULL AND NOT b.done
                    AND EXISTS (SELECT FROM live AS l WHERE b.needs <@ l.provides)
                ORDER BY actlog.place_rank(b.blocked, b.priority), b.created_at, b.plan_id
                LIMIT 200
            ) AS x
            LEFT JOIN actlog.place AS o ON o.place = 'owner:' || x.owner
            ORDER BY x.rank, CASE WHEN left(m.place, 4) <> 'key:' THEN
                COALESCE(o.taken, 0) + row_number() OVER (PARTITION BY x.owner ORDER BY x.rank, x.created_at, x.plan_id)
            END, x.created_at, x.plan_id
        ) AS t
        CROSS JOIN LATERAL (
            SELECT z.root_plan_id, z.plan_id
            FROM actlog.run AS z
            WHERE z.root_plan_id = t.root_plan_id AND z.plan_id = t.plan_id AND z.due_at IS NULL AND z.worker_id IS NULL AND NOT z.done
            OFFSET 0
            FOR NO KEY UPDATE SKIP LOCKED -- whoever has locked it makes it due, or ends it
        ) AS y
        LIMIT m.runs
    ) AS r
)
UPDATE actlog.run AS r
SET due_at = now()
FROM next AS n
WHERE r.root_plan_id = n.root_plan_id AND r.plan_id = n.plan_id;

-- name: PlaceLook :exec
-- Lets the next claim look at all places for which runs wait: there may be more of them than before, or another worker.
WITH RECURSIVE waited AS (
    (
        SELECT r.blocked
        FROM actlog.run AS r
        WHERE r.blocked IS NOT NULL AND r.due_at IS NULL AND r.worker_id IS NULL AND NOT r.done
        ORDER BY r.blocked
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT r.blocked
        FROM actlog.run AS r
        WHERE r.blocked > w.blocked AND r.due_at IS NULL AND r.worker_id IS NULL AND NOT r.done
        ORDER BY r.blocked
        LIMIT 1
    )
    FROM waited AS w
    WHERE w.blocked IS NOT NULL
)
INSERT INTO actlog.place_change (places, freed)
SELECT array_agg(w.blocked), false
FROM waited AS w
WHERE w.blocked IS NOT NULL
HAVING count(*) > 0;

-- name: PlaceForget :exec
-- Deletes places that nobody has or waits for. The caller has the turn: a claim locks places in another order.
DELETE FROM actlog.place AS p
WHERE p.taken = 0 AND NOT EXISTS (SELECT FROM actlog.run AS r WHERE r.blocked = p.place AND r.due_at IS NULL AND r.worker_id IS NULL AND NOT r.done);

-- name: RunIdle :exec
-- Gives back the places of a tree in which nothing goes on: all that has not ended waits for people, for a model, for
-- other code or until a time. A key is kept. The caller holds the root plan.
UPDATE actlog.run AS r
SET placed = false
WHERE r.root_plan_id = @root_plan_id::text AND r.plan_id = @root_plan_id::text AND r.placed AND NOT EXISTS (
    SELECT FROM actlog.run AS x
    WHERE x.root_plan_id = @root_plan_id::text AND NOT x.done AND (x.worker_id IS NOT NULL OR x.due_at <= now() AND x.mismatch IS NULL)
);

-- name: PlaceIdle :exec
-- Does what RunIdle does, for all trees: workers of an earlier release let go of runs without it. The caller has the turn.
UPDATE actlog.run AS r
SET placed = false
FROM (
    SELECT z.root_plan_id, z.plan_id
    FROM actlog.run AS z
    WHERE z.placed AND NOT z.done AND NOT EXISTS (
        SELECT FROM actlog.run AS x
        WHERE x.root_plan_id = z.root_plan_id AND NOT x.done AND (x.worker_id IS NOT NULL OR x.due_at <= now() AND x.mismatch IS NULL)
    )
    FOR NO KEY UPDATE OF z SKIP LOCKED
) AS f
WHERE r.root_plan_id = f.root_plan_id AND r.plan_id = f.plan_id;
