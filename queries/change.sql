-- name: ChangeAppend :exec
-- Tells the feed which trees a transaction touched. The arrays go in pairs.
INSERT INTO actlog.change (root_plan_id, kinds)
SELECT u.root_plan_id, string_to_array(u.kinds, ',')
FROM unnest(@root_plan_ids::text[], @kinds::text[]) AS u (root_plan_id, kinds);

-- name: ChangeHead :one
-- Where the feed stands: its highest number that is committed. Where it is empty, a
-- row of no tree tells: not every role may look at the sequence.
WITH newest AS (SELECT COALESCE(max(seq), 0)::bigint AS seq FROM actlog.change),
marked AS (
    INSERT INTO actlog.change (root_plan_id, kinds)
    SELECT '', '{}' FROM newest WHERE newest.seq = 0
    RETURNING seq
)
SELECT GREATEST(newest.seq, (SELECT marked.seq FROM marked))::bigint AS seq
FROM newest;

-- name: ChangeWriters :one
-- The transactions that may have taken numbers of the feed and are not over. Each has
-- this lock from before it takes one until after what it wrote can be seen.
SELECT COALESCE(array_agg(l.virtualtransaction), '{}')::text[] AS ids
FROM pg_locks AS l
WHERE l.locktype = 'relation' AND l.relation = 'actlog.change'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());

-- name: ChangeLook :many
-- What was committed behind a number, and of those that were missing before it.
(
    SELECT c.seq, c.root_plan_id, c.kinds, c.xmin::text::bigint AS xid,
        extract(epoch FROM clock_timestamp() - c.at)::double precision AS age_seconds
    FROM actlog.change AS c
    WHERE c.seq > @after_seq::bigint
    ORDER BY c.seq
    LIMIT @page_size::integer
)
UNION ALL
SELECT c.seq, c.root_plan_id, c.kinds, c.xmin::text::bigint AS xid,
    extract(epoch FROM clock_timestamp() - c.at)::double precision AS age_seconds
FROM actlog.change AS c
WHERE c.seq = ANY (@missing::bigint[])
ORDER BY seq;

-- name: ChangeSince :many
-- The trees that were touched after a number, and by which transactions; of one tree
-- only where one is named.
SELECT c.root_plan_id, c.kinds, c.xmin::text::bigint AS xid
FROM actlog.change AS c
WHERE c.seq > @after_seq::bigint AND c.root_plan_id <> ''
    AND (sqlc.narg('root_plan_id')::text IS NULL OR c.root_plan_id = sqlc.narg('root_plan_id')::text)
GROUP BY 1, 2, 3
LIMIT @most::integer;

-- name: ChangeOldest :one
-- The lowest number that is still there; 0: none is.
SELECT COALESCE(min(seq), 0)::bigint AS seq FROM actlog.change;

-- name: ChangeEra :one
-- Of what the numbers of the feed are: of this table of this database in this cluster,
-- as long as no other server takes over from it with less on record.
SELECT concat_ws('/', (SELECT s.system_identifier FROM pg_control_system() AS s), left(pg_walfile_name(pg_current_wal_lsn()), 8),
    (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()), 'actlog.change'::regclass::oid)::text AS era;

-- name: ChangeSweep :execrows
-- Forgets old rows of the change feed, some at a time, in the order of their numbers:
-- of what lies behind the lowest that is left, nothing was forgotten.
WITH oldest AS MATERIALIZED (
    SELECT c.seq, c.at < now() - make_interval(hours => @keep_hours::integer) AS old
    FROM actlog.change AS c
    ORDER BY c.seq
    LIMIT 5000
)
DELETE FROM actlog.change AS c
USING oldest
WHERE c.seq = oldest.seq AND oldest.old
    AND oldest.seq < COALESCE((SELECT min(o.seq) FROM oldest AS o WHERE NOT o.old), 9223372036854775807);
