-- name: ChangeAppend :exec
-- Appends to the feed which trees a transaction touched. The arrays go in pairs.
INSERT INTO actlog.change (root_plan_id, kinds)
SELECT u.root_plan_id, string_to_array(u.kinds, ',')
FROM unnest(@root_plan_ids::text[], @kinds::text[]) AS u (root_plan_id, kinds);

-- name: ChangeHead :one
-- Returns the highest committed number of the feed. If the feed is empty, it appends a row
-- without a tree to get a number, because not every role may read the sequence.
WITH newest AS (SELECT COALESCE(max(seq), 0)::bigint AS seq FROM actlog.change),
marked AS (
    INSERT INTO actlog.change (root_plan_id, kinds)
    SELECT '', '{}' FROM newest WHERE newest.seq = 0
    RETURNING seq
)
SELECT GREATEST(newest.seq, (SELECT marked.seq FROM marked))::bigint AS seq
FROM newest;

-- name: ChangeWriters :one
-- Returns the open transactions that may have taken numbers of the feed. Each of them holds
-- this lock from before it takes a number until after its writes are visible.
SELECT COALESCE(array_agg(l.virtualtransaction), '{}')::text[] AS ids
FROM pg_locks AS l
WHERE l.locktype = 'relation' AND l.relation = 'actlog.change'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());

-- name: ChangeLook :many
-- Returns the rows behind a number, and the rows before it that were missing so far.
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
-- Returns the trees that were touched after a number, and by which transactions. If a root
-- plan is named, only its tree.
SELECT c.root_plan_id, c.kinds, c.xmin::text::bigint AS xid
FROM actlog.change AS c
WHERE c.seq > @after_seq::bigint AND c.root_plan_id <> ''
    AND (sqlc.narg('root_plan_id')::text IS NULL OR c.root_plan_id = sqlc.narg('root_plan_id')::text)
GROUP BY 1, 2, 3
LIMIT @most::integer;

-- name: ChangedTrees :many
-- Returns the trees that changed between two numbers of the change feed, each with the number of its latest change.
SELECT c.root_plan_id, max(c.seq)::bigint AS seq
FROM actlog.change AS c
WHERE c.seq > @after_seq::bigint AND c.seq <= @up_to::bigint AND c.root_plan_id <> ''
GROUP BY 1;

-- name: ChangeOldest :one
-- Returns the lowest number that still has a row; 0 if the feed is empty.
SELECT COALESCE(min(seq), 0)::bigint AS seq FROM actlog.change;

-- name: ChangeEra :one
-- Names what the numbers of the feed belong to: the cluster, its timeline, the database and
-- the table. The timeline changes when another server takes over, perhaps with less on record.
SELECT concat_ws('/', (SELECT s.system_identifier FROM pg_control_system() AS s), left(pg_walfile_name(pg_current_wal_lsn()), 8),
    (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()), 'actlog.change'::regclass::oid)::text AS era;

-- name: ChangeSweepable :one
-- Returns the number up to which the feed may be swept: that of the last old row before the first
-- young one. So no row is missing behind the lowest number that is left. A row of the future, from
-- before the clock of the database went back, is neither: it is as old as its neighbours. 0: none.
SELECT COALESCE((
    SELECT c.seq
    FROM actlog.change AS c
    WHERE c.at < now() - make_interval(hours => @keep_hours::integer)
        AND c.seq < COALESCE((
            SELECT y.seq
            FROM actlog.change AS y
            WHERE y.at >= now() - make_interval(hours => @keep_hours::integer) AND y.at <= now()
            ORDER BY y.seq
            LIMIT 1
        ), 9223372036854775807)
    ORDER BY c.seq DESC
    LIMIT 1
), 0)::bigint AS seq;

-- name: ChangeSweep :execrows
-- Deletes the first rows of the change feed up to a number, 5,000 at a time.
DELETE FROM actlog.change
WHERE seq IN (SELECT c.seq FROM actlog.change AS c WHERE c.seq <= @up_to::bigint ORDER BY c.seq LIMIT 5000);
