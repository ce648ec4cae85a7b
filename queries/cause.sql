-- name: CauseProgress :one
-- Returns up to which number of the change feed the causes are up to date, and the highest number there.
SELECT g.seq, g.before_at, COALESCE(g.before_id, '')::text AS before_id, (SELECT COALESCE(max(c.seq), 0)::bigint FROM actlog.change AS c) AS head
FROM actlog.cause_progress AS g;

-- name: CauseMade :exec
-- Stores that the causes are up to date up to a number of the feed.
UPDATE actlog.cause_progress SET seq = @seq::bigint WHERE seq < @seq::bigint;

-- name: CauseMissing :many
-- Returns root plans whose causes are to be made again, newest first, after the last one of the page before.
SELECT p.root_plan_id, COALESCE(p.start_time, p.first_seen_at)::timestamptz AS began_at
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = p.current_plan_id
    AND (COALESCE(p.start_time, p.first_seen_at), p.root_plan_id) < (@before_at::timestamptz, @before_id::text)
ORDER BY COALESCE(p.start_time, p.first_seen_at) DESC, p.root_plan_id DESC
LIMIT @most::integer;

-- name: CauseLooked :exec
-- Stores which root plan was the last one of such a page; null: there are no more.
UPDATE actlog.cause_progress SET before_at = sqlc.narg('before_at')::timestamptz, before_id = sqlc.narg('before_id')::text;

-- name: CauseDropped :many
-- Returns trees whose detail was dropped since their causes were made.
SELECT k.root_plan_id
FROM actlog.cause AS k
JOIN actlog.dropped_detail AS d ON k.part >= d.from_day AND k.part < d.to_day
WHERE k.detail
LIMIT @most::integer;

-- name: CauseRows :many
-- Returns the root plans that are on record, with the rows from which their causes follow. It locks nothing: a tree that is
-- deleted or changed meanwhile has a higher number in the feed, so its cause is found again.
SELECT p.root_plan_id, p.part,
    (NOT EXISTS (SELECT FROM actlog.dropped_detail AS d WHERE p.part >= d.from_day AND p.part < d.to_day))::boolean AS detail,
    COALESCE(actlog.cause_evidence(p.root_plan_id, p.part), 'null')::json AS rows
FROM unnest(@root_plan_ids::text[]) AS u (id)
CROSS JOIN LATERAL ( -- one by one, by the primary key
    SELECT x.root_plan_id, x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
) AS p;

-- name: CauseKeep :exec
-- Writes the causes of some trees, and deletes those of others, which have none.
WITH gone AS (
    DELETE FROM actlog.cause WHERE root_plan_id = ANY (@gone::text[])
)
INSERT INTO actlog.cause AS k (root_plan_id, part, detail, document, level, plan_id, step_id, seq, tool_call_id, cause_kind, cause_tool, cause_text, recovered)
SELECT u.root_plan_id, u.part, u.detail, u.document, u.level, u.plan_id, u.step_id, u.seq, u.tool_call_id, u.cause_kind, u.cause_tool, u.cause_text, u.recovered
FROM json_to_recordset(@causes::json) AS u (root_plan_id text, part date, detail boolean, document json, level text, plan_id text, step_id text, seq integer,
    tool_call_id text, cause_kind text, cause_tool text, cause_text text, recovered boolean)
ON CONFLICT (root_plan_id) DO UPDATE SET
    part = excluded.part, detail = excluded.detail, document = excluded.document, level = excluded.level, plan_id = excluded.plan_id, step_id = excluded.step_id,
    seq = excluded.seq, tool_call_id = excluded.tool_call_id, cause_kind = excluded.cause_kind, cause_tool = excluded.cause_tool, cause_text = excluded.cause_text,
    recovered = excluded.recovered
WHERE k.document::text <> excluded.document::text OR k.detail <> excluded.detail;

-- name: TreeDeleteCauses :exec
DELETE FROM actlog.cause WHERE root_plan_id = ANY (@root_plan_ids::text[]);
