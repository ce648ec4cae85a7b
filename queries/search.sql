-- name: SearchAppend :one
-- Adds texts of trees that are not in the index yet. Those that should be known are only added if
-- trees were deleted since a number of deletions. It returns that number as it is now. The root plans
-- have to be locked, so nobody can delete these trees from here on.
WITH now AS MATERIALIZED (
    SELECT COALESCE(max(d.deletions), 0)::bigint AS deletions FROM actlog.search_deletion AS d
),
added AS (
    INSERT INTO actlog.search_fresh (root_plan_id, text)
    SELECT u.root_plan_id, u.text
    FROM now
    CROSS JOIN unnest(@root_plan_ids::text[], @texts::text[], @known::boolean[]) AS u (root_plan_id, text, known)
    WHERE NOT u.known OR now.deletions <> @deletions::bigint
)
SELECT now.deletions FROM now;

-- name: SearchFresh :many
-- Returns the trees with fresh texts that match, newest first, behind a cursor.
SELECT p.root_plan_id, p.began_at
FROM (
    SELECT root_plan_id, string_agg(text, E'\n') AS text
    FROM actlog.search_fresh
    GROUP BY root_plan_id
) AS f
CROSS JOIN LATERAL (
    SELECT f.text || E'\n' || COALESCE((SELECT t.text FROM actlog.search_text AS t WHERE t.root_plan_id = f.root_plan_id), '') COLLATE "C" AS text
    OFFSET 0
) AS whole
CROSS JOIN LATERAL (
    SELECT x.root_plan_id, COALESCE(x.start_time, x.first_seen_at)::timestamptz AS began_at
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = f.root_plan_id AND x.current_plan_id = f.root_plan_id
    OFFSET 0
) AS p
WHERE whole.text LIKE ALL (@patterns::text[]) AND whole.text ~ ALL (@expressions::text[])
    AND (p.began_at, p.root_plan_id) < (@before_time::timestamptz, @before_id::text)
ORDER BY p.began_at DESC, p.root_plan_id DESC;

-- name: SearchSlices :many
-- Returns slices with trees behind a cursor, newest first, each with the trees that have all grams;
-- null: none has.
SELECT s.slice, s.newest_at, s.newest_id, g.trees
FROM (
    SELECT x.slice, x.newest_at, x.newest_id
    FROM actlog.search_slice AS x
    WHERE (x.oldest_at, x.oldest_id) < (@before_time::timestamptz, @before_id::text)
        AND (x.newest_at, x.newest_id, x.slice) < (@after_time::timestamptz, @after_id::text, @after_slice::integer)
    ORDER BY x.newest_at DESC, x.newest_id DESC, x.slice DESC
    LIMIT @most::integer
) AS s
CROSS JOIN LATERAL (
    SELECT CASE WHEN count(*) = cardinality(@grams::bigint[]) THEN bit_and(y.trees::bit(4096))::bit varying END AS trees
    FROM actlog.search_gram AS y
    WHERE y.slice = s.slice AND y.gram = ANY (@grams::bigint[])
) AS g
ORDER BY s.newest_at DESC, s.newest_id DESC, s.slice DESC;

-- name: SearchMatches :many
-- Returns trees of slices, and whether their texts match and they stand between two cursors, in the order in
-- which they are asked for.
SELECT m.root_plan_id, m.began_at, ((m.began_at, m.root_plan_id) < (@before_time::timestamptz, @before_id::text)
    AND (m.began_at, m.root_plan_id) > (@after_time::timestamptz, @after_id::text)
    AND COALESCE((
        SELECT t.text LIKE ALL (@patterns::text[]) AND t.text ~ ALL (@expressions::text[])
        FROM actlog.search_text AS t
        WHERE t.root_plan_id = m.root_plan_id
    ), false))::boolean AS matches
FROM unnest(@slices::integer[], @positions::integer[]) WITH ORDINALITY AS u (slice, position, n)
CROSS JOIN LATERAL ( -- one by one, by the primary key
    SELECT x.root_plan_id, x.began_at
    FROM actlog.search_member AS x
    WHERE x.slice = u.slice AND x.position = u.position
    OFFSET 0
) AS m
ORDER BY u.n;

-- name: SearchIncomplete :one
-- Reports whether runs that were on record before the index was made may be missing in it.
SELECT EXISTS (SELECT FROM actlog.search_backfill);

-- name: SearchFreshDue :one
-- Reports whether there are so many rows of fresh texts, or so many bytes.
SELECT (count(*) >= @most::integer OR COALESCE(sum(octet_length(f.text)), 0) >= @bytes::bigint)::boolean AS due
FROM (SELECT x.text FROM actlog.search_fresh AS x LIMIT @most::integer) AS f;

-- name: SearchFreshFirst :many
-- Returns fresh texts, tree by tree, until there are so many, or so many bytes with what the index
-- has of the trees; at least one. Ids of trees usually grow with time, so these are the oldest.
SELECT f.root_plan_id, f.id, f.said_at, f.text
FROM (
    SELECT x.*, sum(octet_length(x.text) + COALESCE(t.bytes, 0)) OVER (ORDER BY x.root_plan_id, x.id) AS bytes
    FROM (
        SELECT y.*, row_number() OVER (ORDER BY y.root_plan_id, y.id) AS n, lag(y.root_plan_id) OVER (ORDER BY y.root_plan_id, y.id) AS before
        FROM (SELECT w.* FROM actlog.search_fresh AS w ORDER BY w.root_plan_id, w.id LIMIT @most::integer) AS y
    ) AS x
    LEFT JOIN LATERAL ( -- one by one, by the primary key
        SELECT octet_length(z.text) AS bytes
        FROM actlog.search_text AS z
        WHERE z.root_plan_id = x.root_plan_id AND x.before IS DISTINCT FROM x.root_plan_id
        OFFSET 0
    ) AS t ON true
) AS f
WHERE f.n = 1 OR f.bytes <= @bytes::bigint
ORDER BY f.root_plan_id, f.id;

-- name: SearchFreshDelete :exec
DELETE FROM actlog.search_fresh
WHERE root_plan_id = ANY (@root_plan_ids::text[]) AND id = ANY (@ids::bigint[]);

-- name: SearchHold :many
-- Returns the root plans that are on record with their indexed texts, and when they began as far as the index
-- knows. Nobody can delete them before
-- the end of the transaction; writers go on. They are locked in the order in which they are asked for.
SELECT p.root_plan_id, p.first_seen_at, p.began_at, COALESCE(t.text, '') AS text, (t.root_plan_id IS NOT NULL)::boolean AS indexed, t.began_at AS indexed_at
FROM unnest(@root_plan_ids::text[]) AS u (id)
CROSS JOIN LATERAL ( -- one by one, by the primary key
    SELECT x.root_plan_id, x.first_seen_at, COALESCE(x.start_time, x.first_seen_at)::timestamptz AS began_at
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR KEY SHARE
) AS p
LEFT JOIN LATERAL (
    SELECT x.root_plan_id, x.text, x.began_at
    FROM actlog.search_text AS x
    WHERE x.root_plan_id = p.root_plan_id
    OFFSET 0
) AS t ON true;

-- name: SearchTextKeep :exec
INSERT INTO actlog.search_text (root_plan_id, text, began_at)
SELECT u.root_plan_id, u.text, u.began_at
FROM unnest(@root_plan_ids::text[], @texts::text[], @began_at::timestamptz[]) AS u (root_plan_id, text, began_at)
ON CONFLICT (root_plan_id) DO UPDATE SET text = excluded.text, began_at = excluded.began_at;

-- name: SearchSliceAdd :one
INSERT INTO actlog.search_slice (newest_at, newest_id, oldest_at, oldest_id)
VALUES (@newest_at::timestamptz, @newest_id::text, @oldest_at::timestamptz, @oldest_id::text)
RETURNING slice;

-- name: SearchMissing :many
-- Returns root plans behind a cursor, oldest first, that the search does not know: those without
-- texts, and those that began at another time than the index knows. While runs from before are added, those that only have fresh texts from later than their
-- beginning are among them; else they wait until these are moved.
SELECT p.root_plan_id, COALESCE(p.start_time, p.first_seen_at)::timestamptz AS began_at
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = p.current_plan_id
    AND (COALESCE(p.start_time, p.first_seen_at), p.root_plan_id) > (@after_time::timestamptz, @after_id::text)
    AND NOT EXISTS (
        SELECT FROM actlog.search_text AS t
        WHERE t.root_plan_id = p.root_plan_id AND t.began_at = COALESCE(p.start_time, p.first_seen_at)
    )
    AND NOT EXISTS (
        SELECT FROM actlog.search_fresh AS f
        WHERE f.root_plan_id = p.root_plan_id
            AND (f.said_at = p.first_seen_at OR NOT EXISTS (SELECT FROM actlog.search_backfill))
    )
ORDER BY COALESCE(p.start_time, p.first_seen_at), p.root_plan_id
LIMIT @most::integer;

-- name: SearchBackfilled :exec
DELETE FROM actlog.search_backfill;

-- name: SearchSliceSweep :one
-- Deletes slices whose trees were all deleted, of those behind a number, in their order. It returns
-- the number of the last that was looked at; 0: there are no others.
WITH looked AS MATERIALIZED (
    SELECT s.slice, ( -- one by one, by the primary keys, until one is there
        SELECT true
        FROM actlog.search_member AS m
        CROSS JOIN LATERAL (
            SELECT FROM actlog.plan_execution_record AS p
            WHERE p.root_plan_id = m.root_plan_id AND p.current_plan_id = m.root_plan_id
            OFFSET 0
        ) AS p
        WHERE m.slice = s.slice
        LIMIT 1
    ) AS alive
    FROM (SELECT x.slice FROM actlog.search_slice AS x WHERE x.slice > @after::integer ORDER BY x.slice LIMIT @most::integer) AS s
),
slices AS (
    DELETE FROM actlog.search_slice WHERE slice = ANY (ARRAY(SELECT l.slice FROM looked AS l WHERE l.alive IS NULL))
),
members AS (
    DELETE FROM actlog.search_member WHERE slice = ANY (ARRAY(SELECT l.slice FROM looked AS l WHERE l.alive IS NULL))
),
grams AS (
    DELETE FROM actlog.search_gram WHERE slice = ANY (ARRAY(SELECT l.slice FROM looked AS l WHERE l.alive IS NULL))
)
SELECT COALESCE(max(l.slice), 0)::integer AS last FROM looked AS l;

-- The next statements come when root plans were deleted.

-- name: TreeDeleteSearchFresh :exec
DELETE FROM actlog.search_fresh AS f
WHERE f.root_plan_id = ANY (@root_plan_ids::text[])
    AND NOT EXISTS (SELECT FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.root_plan_id);

-- name: TreeDeleteSearchText :exec
DELETE FROM actlog.search_text AS t
WHERE t.root_plan_id = ANY (@root_plan_ids::text[])
    AND NOT EXISTS (SELECT FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = t.root_plan_id AND p.current_plan_id = t.root_plan_id);

-- name: TreeDeleteSearchKnown :exec
-- Makes all writers forget which texts are known of which trees.
INSERT INTO actlog.search_deletion AS d (deletions)
VALUES (1)
ON CONFLICT (id) DO UPDATE SET deletions = d.deletions + 1;

-- name: SearchForget :exec
-- Makes the search forget the trees whose errors are among the calls of a table in some parts, and all writers what they
-- know of them: these calls are being dropped. What the trees still have is indexed again.
WITH trees AS MATERIALIZED (
    SELECT DISTINCT c.root_plan_id
    FROM actlog.act_tool_info AS c
    WHERE c.part >= sqlc.arg(from_day)::date AND c.part < sqlc.arg(to_day)::date
        AND (c.error_message IS NOT NULL OR c.error_kind IS NOT NULL)
),
texts AS (
    DELETE FROM actlog.search_text AS t USING trees AS x WHERE t.root_plan_id = x.root_plan_id
),
fresh AS (
    DELETE FROM actlog.search_fresh AS f USING trees AS x WHERE f.root_plan_id = x.root_plan_id
)
INSERT INTO actlog.search_deletion AS d (deletions)
SELECT 1 WHERE EXISTS (SELECT FROM trees)
ON CONFLICT (id) DO UPDATE SET deletions = d.deletions + 1;

-- name: OthersAtWork :one
-- Reports whether Postgres works for another client of this database.
SELECT EXISTS (
    SELECT FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.state = 'active' AND a.pid <> pg_backend_pid()
);

-- name: TextSearchRuns :many
-- Returns root plans from a place on, newest first by when they began, in which texts are searched. Those whose part is in one
-- of some periods are only returned if they are among some roots. Postgres has to plan it for the given filters.
SELECT x.root_plan_id, COALESCE(x.start_time, x.first_seen_at)::timestamptz AS began_at, x.part, x.title, x.name, x.project, x.state
FROM actlog.plan_execution_record AS x
WHERE x.root_plan_id = x.current_plan_id
    AND (COALESCE(x.start_time, x.first_seen_at), x.root_plan_id) <= (@from_time::timestamptz, @from_id::text)
    AND (COALESCE(x.start_time, x.first_seen_at), x.root_plan_id) < (@before_time::timestamptz, @before_id::text)
    AND (COALESCE(x.start_time, x.first_seen_at), x.root_plan_id) > (@after_time::timestamptz, @after_id::text)
    AND (sqlc.narg('state')::text IS NULL OR x.state = sqlc.narg('state')::text AND NOT actlog.is_placeholder(x))
    AND (sqlc.narg('project')::text IS NULL OR COALESCE(x.project, 'default') = sqlc.narg('project')::text)
    AND (sqlc.narg('name')::text IS NULL OR x.name = sqlc.narg('name')::text)
    AND (sqlc.narg('user_id')::text IS NULL OR x.user_id = sqlc.narg('user_id')::text)
    AND (sqlc.narg('conversation_id')::text IS NULL OR x.conversation_id = sqlc.narg('conversation_id')::text)
    AND (sqlc.narg('tag')::text IS NULL OR x.tags @> ARRAY[sqlc.narg('tag')::text])
    AND (sqlc.narg('environment')::text IS NULL OR x.environment = sqlc.narg('environment')::text)
    AND (sqlc.narg('agent')::text IS NULL OR EXISTS (
        SELECT FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = x.root_plan_id AND a.agent_name = sqlc.narg('agent')::text
    ))
    AND (sqlc.narg('among')::text[] IS NULL OR x.root_plan_id = ANY (sqlc.narg('among')::text[]) OR NOT EXISTS (
        SELECT FROM unnest(@known_from::date[], @known_to::date[]) AS k (from_day, to_day) WHERE x.part >= k.from_day AND x.part < k.to_day
    ))
ORDER BY COALESCE(x.start_time, x.first_seen_at) DESC, x.root_plan_id DESC
LIMIT @most::integer;

-- name: TextSearchListed :many
-- Returns those of some root plans that are on record, as TextSearchRuns does, all of them.
SELECT l.root_plan_id, l.began_at, l.part, l.title, l.name, l.project, l.state
FROM unnest(@roots::text[]) AS u (id)
CROSS JOIN LATERAL ( -- one by one, by the primary key
    SELECT x.root_plan_id, COALESCE(x.start_time, x.first_seen_at)::timestamptz AS began_at, x.part, x.title, x.name, x.project, x.state
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
        AND (COALESCE(x.start_time, x.first_seen_at), x.root_plan_id) <= (@from_time::timestamptz, @from_id::text)
        AND (COALESCE(x.start_time, x.first_seen_at), x.root_plan_id) < (@before_time::timestamptz, @before_id::text)
        AND (COALESCE(x.start_time, x.first_seen_at), x.root_plan_id) > (@after_time::timestamptz, @after_id::text)
        AND (sqlc.narg('state')::text IS NULL OR x.state = sqlc.narg('state')::text AND NOT actlog.is_placeholder(x))
        AND (sqlc.narg('project')::text IS NULL OR COALESCE(x.project, 'default') = sqlc.narg('project')::text)
        AND (sqlc.narg('name')::text IS NULL OR x.name = sqlc.narg('name')::text)
        AND (sqlc.narg('user_id')::text IS NULL OR x.user_id = sqlc.narg('user_id')::text)
        AND (sqlc.narg('conversation_id')::text IS NULL OR x.conversation_id = sqlc.narg('conversation_id')::text)
        AND (sqlc.narg('tag')::text IS NULL OR x.tags @> ARRAY[sqlc.narg('tag')::text])
        AND (sqlc.narg('environment')::text IS NULL OR x.environment = sqlc.narg('environment')::text)
        AND (sqlc.narg('agent')::text IS NULL OR EXISTS (
            SELECT FROM actlog.agent_execution_record AS a
            WHERE a.root_plan_id = x.root_plan_id AND a.agent_name = sqlc.narg('agent')::text
        ))
    OFFSET 0
) AS l
ORDER BY l.began_at DESC, l.root_plan_id DESC;

-- name: TextSearchPeriods :many
-- Returns the periods of which all tables have a complete index, named as the partition and a suffix, newest first, with the
-- partitions in the order of the tables.
SELECT b.bounds[1]::date AS from_day, b.bounds[2]::date AS to_day, array_agg(c.relname::text ORDER BY p.relname)::text[] AS partitions
FROM pg_inherits AS i
JOIN pg_class AS p ON p.oid = i.inhparent
JOIN pg_class AS c ON c.oid = i.inhrelid
CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([0-9-]+)''\) TO \(''([0-9-]+)''\)') AS b (bounds)
WHERE p.relnamespace = 'actlog'::regnamespace AND p.relname = ANY (@tables::text[]) AND b.bounds IS NOT NULL
    AND EXISTS (
        SELECT FROM pg_index AS x JOIN pg_class AS n ON n.oid = x.indexrelid
        WHERE x.indrelid = c.oid AND n.relname = c.relname || @suffix::text AND x.indisvalid
    )
GROUP BY 1, 2
HAVING count(*) = cardinality(@tables::text[])
ORDER BY 1 DESC;

-- name: TextIndexes :many
-- Returns the indexes for the search in texts on the partitions of some tables: whether each is complete.
SELECT n.relname::text AS name, c.relname::text AS partition, x.indisvalid AS complete
FROM pg_inherits AS i
JOIN pg_class AS p ON p.oid = i.inhparent
JOIN pg_class AS c ON c.oid = i.inhrelid
JOIN pg_index AS x ON x.indrelid = c.oid
JOIN pg_class AS n ON n.oid = x.indexrelid
WHERE p.relnamespace = 'actlog'::regnamespace AND p.relname = ANY (@tables::text[]) AND starts_with(n.relname, c.relname || '_search');

-- name: TextIndexing :one
-- Reports whether an index is being made in this database.
SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE datname = current_database())::boolean AS busy;

-- name: TrigramClass :one
-- Returns the schema of pg_trgm; empty: it is not installed.
SELECT COALESCE((SELECT o.opcnamespace::regnamespace::text FROM pg_opclass AS o WHERE o.opcname = 'gin_trgm_ops' LIMIT 1), '')::text AS schema;
