-- name: RecentProgress :one
-- Returns how far actlog.recent_text is made, and the highest number of the change feed; 0: seq is null, and nothing is kept. Nobody else changes
-- that before the end of the transaction.
SELECT g.version, (g.seq IS NOT NULL)::boolean AS kept, COALESCE(g.seq, 0)::bigint AS seq, g.from_day, g.before_at, COALESCE(g.before_id, '')::text AS before_id,
    (SELECT COALESCE(max(c.seq), 0)::bigint FROM actlog.change AS c) AS head
FROM actlog.recent_progress AS g
FOR UPDATE OF g;

-- name: RecentStart :exec
-- Begins to keep the runs whose part is not before a day: those that the feed names, and those that are older than the feed.
UPDATE actlog.recent_progress SET version = @version::integer, seq = COALESCE((SELECT min(c.seq) - 1 FROM actlog.change AS c), 0), from_day = @from_day::date,
    before_at = '9999-12-31 00:00:00+00', before_id = '', older_at = NULL;

-- name: RecentStop :exec
-- Gives up what is kept if it is not up to date up to a number of the feed.
UPDATE actlog.recent_progress SET seq = NULL WHERE seq < @up_to::bigint;

-- name: RecentMade :exec
UPDATE actlog.recent_progress SET seq = @seq::bigint;

-- name: RecentTouch :exec
-- Notes that trees have changed: they have no fold until they are idle. Those that are gone have no row. A tree that is deleted
-- meanwhile has a higher number in the feed.
WITH now AS MATERIALIZED (
    SELECT p.root_plan_id, p.part, p.began_at
    FROM (SELECT x.id FROM unnest(@root_plan_ids::text[]) AS x (id) ORDER BY x.id COLLATE "C") AS u
    CROSS JOIN LATERAL ( -- one by one, by the primary key
        SELECT x.root_plan_id, x.part, COALESCE(x.start_time, x.first_seen_at) AS began_at
        FROM actlog.plan_execution_record AS x
        WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
        OFFSET 0
    ) AS p
),
gone AS (
    DELETE FROM actlog.recent_text AS r
    WHERE r.root_plan_id = ANY (@root_plan_ids::text[]) AND NOT EXISTS (SELECT FROM now AS n WHERE n.root_plan_id = r.root_plan_id)
),
older AS (
    UPDATE actlog.recent_progress AS g SET older_at = o.at
    FROM (SELECT max(n.began_at) AS at FROM now AS n, actlog.recent_progress AS h WHERE n.part < h.from_day) AS o
    WHERE o.at > COALESCE(g.older_at, '-infinity')
)
INSERT INTO actlog.recent_text AS r (root_plan_id, part, began_at, touched_at, passed)
SELECT n.root_plan_id, n.part, n.began_at, now(), false
FROM now AS n, actlog.recent_progress AS g
WHERE n.part >= g.from_day
ON CONFLICT (root_plan_id) DO UPDATE SET
    part = excluded.part, began_at = excluded.began_at, touched_at = excluded.touched_at, passed = false, fold = NULL, slice = NULL, position = NULL;

-- name: RecentAdd :many
-- Adds the next trees that were on record before texts were kept, newest first, and returns the place of the last that was looked at, if there are more.
WITH page AS MATERIALIZED (
    SELECT p.root_plan_id, p.part, COALESCE(p.start_time, p.first_seen_at) AS began_at
    FROM actlog.plan_execution_record AS p
    WHERE p.root_plan_id = p.current_plan_id
        AND (COALESCE(p.start_time, p.first_seen_at), p.root_plan_id) < (@before_at::timestamptz, @before_id::text)
    ORDER BY COALESCE(p.start_time, p.first_seen_at) DESC, p.root_plan_id DESC
    LIMIT @most::integer
),
added AS (
    INSERT INTO actlog.recent_text (root_plan_id, part, began_at, touched_at, passed)
    SELECT n.root_plan_id, n.part, n.began_at, '-infinity', false
    FROM page AS n, actlog.recent_progress AS g
    WHERE n.part >= g.from_day
    ORDER BY n.root_plan_id
    ON CONFLICT (root_plan_id) DO NOTHING
),
looked AS (
    SELECT n.began_at, n.root_plan_id FROM page AS n ORDER BY n.began_at, n.root_plan_id LIMIT 1
)
UPDATE actlog.recent_progress AS g SET
    before_at = CASE WHEN l.n = @most::integer THEN (SELECT x.began_at FROM looked AS x) END,
    before_id = CASE WHEN l.n = @most::integer THEN (SELECT x.root_plan_id FROM looked AS x) END,
    older_at = GREATEST(g.older_at, l.older_at)
FROM (
    SELECT count(*) AS n, max(n.began_at) FILTER (WHERE n.part < h.from_day) AS older_at
    FROM actlog.recent_progress AS h
    LEFT JOIN page AS n ON true
    WHERE n.root_plan_id IS NOT NULL
) AS l
RETURNING (g.before_at IS NOT NULL)::boolean AS more;

-- name: RecentDue :many
-- Returns trees without a fold that are idle, latest ids first: those that have ended, and those that nobody has touched
-- for a minute, nor for a quarter of their age, up to an hour: so a tree that goes on is not folded again and again. They are
-- locked, so nobody deletes them before the end of the transaction. Those that others have locked have their turn later.
SELECT r.root_plan_id, p.part, p.completed AS ended
FROM actlog.recent_text AS r
CROSS JOIN LATERAL ( -- one by one, by the primary key
    SELECT x.part, x.completed
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = r.root_plan_id AND x.current_plan_id = r.root_plan_id
    OFFSET 0
) AS p
WHERE r.fold IS NULL AND NOT r.passed AND r.part >= @from_day::date
    AND (p.completed OR r.touched_at > now()
        OR r.touched_at < now() - GREATEST(LEAST((now() - r.began_at) / 4, interval '1 hour'), interval '1 minute'))
ORDER BY r.root_plan_id DESC
LIMIT @most::integer
FOR UPDATE OF r SKIP LOCKED;

-- name: RecentKeep :exec
-- Writes the words of trees.
UPDATE actlog.recent_text AS r SET fold = u.fold, ended = u.ended
FROM unnest(@root_plan_ids::text[], @folds::text[], @ended::boolean[]) AS u (root_plan_id, fold, ended)
WHERE r.root_plan_id = u.root_plan_id;

-- name: RecentLoose :one
-- Returns how many trees are due for a slice, so many at most, and how long their words are. One that goes on would leave its
-- slice when it changes, and a place there that nobody else gets. So it is due when nobody has touched it for a day.
SELECT count(*) AS trees, COALESCE(sum(octet_length(l.fold)), 0)::bigint AS bytes
FROM (
    SELECT r.fold
    FROM actlog.recent_text AS r
    WHERE r.fold IS NOT NULL AND r.slice IS NULL AND (r.ended OR r.touched_at < now() - interval '1 day')
    LIMIT @most::integer
) AS l;

-- name: RecentLooseWords :many
-- Locks trees that are due for a slice, and returns their words, until these are so many bytes, at least of one tree. Those
-- that others have locked have their turn later.
SELECT r.root_plan_id, r.fold::text AS fold
FROM actlog.recent_text AS r
WHERE r.root_plan_id = ANY (ARRAY(
    SELECT l.root_plan_id
    FROM (
        SELECT x.root_plan_id, row_number() OVER (ORDER BY x.root_plan_id) AS n,
            sum(octet_length(x.fold)) OVER (ORDER BY x.root_plan_id) AS bytes
        FROM (
            SELECT y.root_plan_id, y.fold
            FROM actlog.recent_text AS y
            WHERE y.fold IS NOT NULL AND y.slice IS NULL AND (y.ended OR y.touched_at < now() - interval '1 day')
            ORDER BY y.root_plan_id
            LIMIT @most::integer
        ) AS x
    ) AS l
    WHERE l.n = 1 OR l.bytes <= @bytes::bigint
)) AND r.fold IS NOT NULL AND r.slice IS NULL
FOR UPDATE SKIP LOCKED;

-- name: RecentSlice :exec
-- Adds a slice with trees, in the order of their positions, and with what its index has.
WITH added AS (
    UPDATE actlog.recent_progress SET slices = slices + 1 RETURNING slices
),
noted AS (
    INSERT INTO actlog.recent_slice (slice) SELECT a.slices FROM added AS a
),
members AS (
    UPDATE actlog.recent_text AS r SET slice = a.slices, position = u.n - 1
    FROM added AS a, unnest(@root_plan_ids::text[]) WITH ORDINALITY AS u (root_plan_id, n)
    WHERE r.root_plan_id = u.root_plan_id
)
INSERT INTO actlog.recent_gram (slice, gram, runs)
SELECT a.slices, u.gram, u.runs
FROM added AS a, unnest(@grams::integer[], @runs::bytea[]) AS u (gram, runs);

-- name: RecentSweep :execrows
-- Deletes slices in which no tree is left, up to a number of them.
WITH empty AS (
    DELETE FROM actlog.recent_slice
    WHERE slice = ANY (ARRAY(
        SELECT s.slice
        FROM actlog.recent_slice AS s
        WHERE (SELECT true FROM actlog.recent_text AS r WHERE r.slice = s.slice LIMIT 1) IS NULL -- one by one, by the index
        LIMIT @most::integer
    ))
    RETURNING slice
)
DELETE FROM actlog.recent_gram AS m USING empty AS e WHERE m.slice = e.slice;

-- name: RecentPass :exec
-- Passes trees over until they change.
UPDATE actlog.recent_text SET passed = true WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND fold IS NULL;

-- name: RecentRaise :exec
-- Ends that runs are kept whose part is before a day.
UPDATE actlog.recent_progress AS g SET
    from_day = @day::date,
    older_at = GREATEST(g.older_at, (SELECT max(r.began_at) FROM actlog.recent_text AS r WHERE r.part < @day::date))
WHERE g.from_day < @day::date;

-- name: RecentForget :execrows
-- Deletes rows that are not kept any more, some at a time.
DELETE FROM actlog.recent_text
WHERE root_plan_id = ANY (ARRAY(
    SELECT r.root_plan_id
    FROM actlog.recent_text AS r
    WHERE r.part < (SELECT CASE WHEN g.seq IS NULL THEN 'infinity' ELSE g.from_day END FROM actlog.recent_progress AS g)
    ORDER BY r.part
    LIMIT @most::integer
    FOR UPDATE SKIP LOCKED
));

-- name: RecentLeft :one
-- Reports whether rows are left of before a day.
SELECT EXISTS (SELECT FROM actlog.recent_text AS r WHERE r.part < @day::date)::boolean AS some;

-- name: TreeDeleteRecent :exec
DELETE FROM actlog.recent_text WHERE root_plan_id = ANY (@root_plan_ids::text[]);
