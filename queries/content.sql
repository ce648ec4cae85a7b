-- Contents of texts that are kept in parts. Whoever adds or relies on them holds the root plan, and so
-- does whoever deletes them.

-- name: ContentAdd :exec
-- Adds contents that are not on record. Without a part, each takes it from its root plan.
INSERT INTO actlog.content (root_plan_id, part, hash, parts, body)
SELECT u.root_plan_id,
    COALESCE(sqlc.narg('part')::date, (
        SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = u.root_plan_id AND p.current_plan_id = u.root_plan_id
    )),
    u.hash, u.parts::bytea[], u.body
FROM unnest(@root_plan_ids::text[], @hashes::bytea[], @parts::text[], @bodies::text[]) AS u (root_plan_id, hash, parts, body)
ON CONFLICT DO NOTHING;

-- name: ContentCheck :exec
-- Fails if a content is not on record that a write relies on.
SELECT actlog.stale_guess('a content is not on record') AS failed
FROM unnest(@root_plan_ids::text[], @hashes::bytea[]) AS u (root_plan_id, hash)
WHERE NOT EXISTS (
    SELECT FROM actlog.content AS c
    WHERE c.root_plan_id = u.root_plan_id AND c.hash = u.hash AND c.part = @part::date
    OFFSET 0
);

-- name: ContentCheckAnywhere :exec
-- ContentCheck, where it is not known in which part the trees lie.
SELECT actlog.stale_guess('a content is not on record') AS failed
FROM unnest(@root_plan_ids::text[], @hashes::bytea[]) AS u (root_plan_id, hash)
LEFT JOIN LATERAL (
    SELECT p.part FROM actlog.plan_execution_record AS p
    WHERE p.root_plan_id = u.root_plan_id AND p.current_plan_id = u.root_plan_id
    OFFSET 0
) AS home ON true
WHERE NOT EXISTS (
    SELECT FROM actlog.content AS c
    WHERE c.root_plan_id = u.root_plan_id AND c.hash = u.hash AND c.part = home.part
    OFFSET 0
);
