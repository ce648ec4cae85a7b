-- Contents of texts that are kept in parts. A transaction that adds contents, relies on them or deletes
-- them holds the root plan.

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

-- name: ContentTrees :many
-- Returns the next root plans in the order of their ids, with the part of their detail.
SELECT p.root_plan_id, p.part
FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = p.current_plan_id AND p.root_plan_id > @after::text
ORDER BY p.root_plan_id
LIMIT @most::integer;

-- name: ContentDamaged :many
-- Returns the cycles of some trees whose prompts cannot be put together as they were written, each with
-- one of the contents at fault: it is missing, or is not what its hash says.
WITH asked AS MATERIALIZED (
    SELECT u.root_plan_id, u.part FROM unnest(@root_plan_ids::text[], @parts::date[]) AS u (root_plan_id, part)
),
there AS MATERIALIZED (
    SELECT c.root_plan_id, c.hash, c.parts, c.hash = substring(sha256(CASE WHEN c.parts IS NULL THEN convert_to(c.body, 'UTF8')
        ELSE '\xff'::bytea || (SELECT string_agg(u.hash, ''::bytea ORDER BY u.place) FROM unnest(c.parts) WITH ORDINALITY AS u (hash, place)) END) FOR 16) AS is_right
    FROM asked
    JOIN actlog.content AS c ON c.root_plan_id = asked.root_plan_id AND c.part = asked.part
),
cycle AS MATERIALIZED (
    SELECT r.root_plan_id, r.step_id, r.seq, u.hash
    FROM asked
    JOIN actlog.think_act_record AS r ON r.root_plan_id = asked.root_plan_id AND r.part = asked.part
    CROSS JOIN LATERAL unnest(r.think_input_parts) AS u (hash)
    WHERE starts_with(r.think_input, 'actlog:content:')
),
named AS MATERIALIZED (
    SELECT DISTINCT cycle.root_plan_id, cycle.hash FROM cycle
),
-- What each named content needs: itself, and what it names.
needed AS MATERIALIZED (
    SELECT named.root_plan_id, named.hash, named.hash AS needs FROM named
    UNION
    SELECT named.root_plan_id, named.hash, u.hash
    FROM named
    JOIN there ON there.root_plan_id = named.root_plan_id AND there.hash = named.hash
    CROSS JOIN LATERAL unnest(there.parts) AS u (hash)
),
bad AS MATERIALIZED (
    SELECT needed.root_plan_id, needed.hash, min(encode(needed.needs, 'hex')) AS content, bool_or(there.hash IS NULL) AS is_missing
    FROM needed
    LEFT JOIN there ON there.root_plan_id = needed.root_plan_id AND there.hash = needed.needs
    WHERE there.is_right IS NOT TRUE
    GROUP BY needed.root_plan_id, needed.hash
)
SELECT cycle.root_plan_id, cycle.step_id, cycle.seq::bigint AS seq, min(bad.content)::text AS content, bool_or(bad.is_missing)::boolean AS is_missing
FROM cycle
JOIN bad ON bad.root_plan_id = cycle.root_plan_id AND bad.hash = cycle.hash
GROUP BY cycle.root_plan_id, cycle.step_id, cycle.seq
ORDER BY cycle.root_plan_id, cycle.step_id, cycle.seq;
