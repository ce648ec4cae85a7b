-- name: ChangeAppend :exec
-- Tells the feed which trees a transaction touched. The arrays go in pairs.
INSERT INTO actlog.change (root_plan_id, kinds)
SELECT u.root_plan_id, string_to_array(u.kinds, ',')
FROM unnest(@root_plan_ids::text[], @kinds::text[]) AS u (root_plan_id, kinds);
