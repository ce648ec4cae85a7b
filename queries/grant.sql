-- What each worker may use of the limits that all workers share.

-- name: GrantTurn :exec
-- Waits until no other worker is granted anything, to the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('actlog.worker_grant', 0));

-- name: GrantRound :many
-- Grants a worker as much as is free of what it asks for, and says at how much it should aim: what it has beyond that it
-- gives back when it can. It has at least what it keeps. If all want more than there is, each gets as many as the others,
-- or as many as it wants; what is left over goes from one to the next, about each second. Of what is of use as a whole
-- only, who got more longest ago gets all that it wants first. If there is more, each may also
-- have what it likes, and half of an equal part of the rest, so that it need not ask again soon. Of a worker that has
-- stopped, or was declared dead, only what lasts counts. Whoever was itself declared dead is granted nothing. No clock
-- decides how much there is. The caller has the turn.
WITH asked AS MATERIALIZED (
    SELECT u.*
    FROM unnest(@limit_names::text[], @most::bigint[], @keep::bigint[], @wanted::bigint[], @liked::bigint[], @lasting::boolean[], @whole::boolean[])
        AS u (limit_name, most, keep, wanted, liked, lasting, whole)
    WHERE EXISTS (SELECT FROM actlog.worker AS w WHERE w.worker_id = @worker_id::text AND w.stopped_at IS NULL)
),
has AS MATERIALIZED (
    SELECT a.limit_name, a.most, g.worker_id, w.worker_id IS NOT NULL AS lives, false AS asks,
        CASE WHEN w.worker_id IS NOT NULL OR g.lasting THEN g.units ELSE 0 END AS units,
        CASE WHEN w.worker_id IS NOT NULL THEN g.wanted ELSE 0 END AS wanted, g.turn, g.grown_at
    FROM asked AS a
    JOIN actlog.worker_grant AS g ON g.limit_name = a.limit_name AND g.worker_id <> @worker_id::text
    LEFT JOIN actlog.worker AS w ON w.worker_id = g.worker_id AND w.stopped_at IS NULL
    UNION ALL
    SELECT a.limit_name, a.most, @worker_id::text, true, true, a.keep, a.wanted, COALESCE(g.turn, 0), COALESCE(g.grown_at, '-infinity')
    FROM asked AS a
    LEFT JOIN actlog.worker_grant AS g ON g.limit_name = a.limit_name AND g.worker_id = @worker_id::text
),
whole AS MATERIALIZED (
    SELECT h.limit_name, max(h.turn) AS turn,
        GREATEST(max(h.most) - COALESCE(sum(h.units) FILTER (WHERE NOT h.lives), 0), 0)::bigint AS units,
        (max(h.most) - COALESCE(sum(h.units) FILTER (WHERE NOT h.asks), 0))::bigint AS free,
        sum(h.wanted)::bigint AS wanted,
        count(*) FILTER (WHERE h.lives AND (h.asks OR h.wanted > 0 OR h.units > 0)) AS workers
    FROM has AS h
    GROUP BY h.limit_name
),
line AS MATERIALIZED ( -- who wants the fewest first: what is left for a worker, and those behind it, after those before it
    SELECT h.*, w.units - (sum(h.wanted) OVER upto - h.wanted) AS rest, count(*) OVER whole - row_number() OVER upto + 1 AS workers
    FROM has AS h
    JOIN whole AS w ON w.limit_name = h.limit_name
    WHERE h.lives AND h.wanted > 0
    WINDOW whole AS (PARTITION BY h.limit_name), upto AS (PARTITION BY h.limit_name ORDER BY h.wanted, h.worker_id ROWS UNBOUNDED PRECEDING)
),
short AS MATERIALIZED ( -- those that do not get all that they want
    SELECT l.limit_name, l.asks, max(l.rest) OVER whole AS rest, count(*) OVER whole AS workers, row_number() OVER (
        PARTITION BY l.limit_name
        ORDER BY l.units > 0 AND l.grown_at BETWEEN now() - INTERVAL '1 second' AND now() DESC, l.turn, l.worker_id
    ) AS turn
    FROM line AS l
    WHERE l.wanted * l.workers > l.rest
    WINDOW whole AS (PARTITION BY l.limit_name)
),
first AS MATERIALIZED ( -- how much is wanted by those who come first, of what is of use as a whole only
    SELECT a.limit_name, COALESCE(sum(o.wanted), 0)::bigint AS wanted
    FROM asked AS a
    JOIN has AS m ON m.limit_name = a.limit_name AND m.asks
    LEFT JOIN has AS o ON o.limit_name = a.limit_name AND (o.turn, o.worker_id) < (m.turn, m.worker_id)
    WHERE a.whole
    GROUP BY a.limit_name
),
aims AS MATERIALIZED (
    SELECT a.limit_name, a.most, a.keep, a.wanted, a.lasting, w.turn + 1 AS turn, w.free, (CASE
        WHEN a.wanted = 0 AND a.liked = 0 THEN 0
        WHEN w.wanted <= w.units THEN a.wanted + GREATEST(LEAST(a.liked - a.wanted, (w.units - w.wanted) / w.workers), (w.units - w.wanted) / (2 * w.workers))
        WHEN a.whole THEN GREATEST(LEAST(a.wanted, w.units - f.wanted), 0)
        WHEN s.rest IS NOT NULL THEN div(s.rest, s.workers) + CASE WHEN s.turn <= mod(s.rest, s.workers) THEN 1 ELSE 0 END
        ELSE a.wanted
    END)::bigint AS aim
    FROM asked AS a
    JOIN whole AS w ON w.limit_name = a.limit_name
    LEFT JOIN short AS s ON s.limit_name = a.limit_name AND s.asks
    LEFT JOIN first AS f ON f.limit_name = a.limit_name
),
granted AS (
    INSERT INTO actlog.worker_grant AS g (limit_name, worker_id, units, wanted, lasting, most, round, turn, grown_at)
    SELECT n.limit_name, @worker_id::text, GREATEST(n.keep, LEAST(n.aim, n.free)), n.wanted, n.lasting, n.most, @round::bigint, CASE WHEN GREATEST(n.keep, LEAST(n.aim, n.free)) > 0 THEN n.turn ELSE 0 END, now()
    FROM aims AS n
    ON CONFLICT (limit_name, worker_id) DO UPDATE
    SET units = excluded.units, wanted = excluded.wanted, most = excluded.most, round = excluded.round,
        turn = CASE WHEN excluded.units > g.units THEN excluded.turn ELSE g.turn END,
        grown_at = CASE WHEN excluded.units > g.units THEN excluded.grown_at ELSE g.grown_at END
    WHERE g.round < excluded.round
    RETURNING g.limit_name, g.units
)
SELECT g.limit_name, g.units, n.aim
FROM granted AS g
JOIN aims AS n ON n.limit_name = g.limit_name;

-- name: GrantGone :many
-- Returns the workers that are gone and have used what lasts.
SELECT DISTINCT g.worker_id
FROM actlog.worker_grant AS g
WHERE g.lasting AND g.units > 0
    AND NOT EXISTS (SELECT FROM actlog.worker AS w WHERE w.worker_id = g.worker_id AND w.stopped_at IS NULL);

-- name: GrantForget :exec
-- Deletes what workers had that are gone, but for what lasts, unless that is over.
DELETE FROM actlog.worker_grant AS g
WHERE NOT EXISTS (SELECT FROM actlog.worker AS w WHERE w.worker_id = g.worker_id AND w.stopped_at IS NULL)
    AND (NOT g.lasting OR g.units = 0 OR g.worker_id = ANY (@over::text[]));

-- name: GrantForgetOld :exec
-- Deletes what workers had that stopped more than a minute ago, or of which nothing is known any more.
DELETE FROM actlog.worker_grant AS g
WHERE NOT EXISTS (
    SELECT FROM actlog.worker AS w
    WHERE w.worker_id = g.worker_id AND (w.stopped_at IS NULL OR w.stopped_at > now() - INTERVAL '1 minute')
);
