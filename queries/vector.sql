-- name: VectorUse :many
-- Returns the vectors that are known of texts, and notes once a day that they are used.
WITH used AS (
    UPDATE actlog.text_vector AS u
    SET used_at = now()
    WHERE u.model = @model::text AND u.sha256 = ANY (ARRAY(
        SELECT x.sha256
        FROM actlog.text_vector AS x
        WHERE x.model = @model::text AND x.sha256 = ANY (@texts::bytea[]) AND x.used_at < now() - interval '1 day'
        FOR UPDATE SKIP LOCKED
    ))
)
SELECT v.sha256, v.elements
FROM actlog.text_vector AS v
WHERE v.model = @model::text AND v.sha256 = ANY (@texts::bytea[]);

-- name: VectorKeep :exec
-- Keeps vectors of texts, in place of those that were known. All who keep some do so in the same order.
INSERT INTO actlog.text_vector (model, sha256, elements)
SELECT @model::text, u.sha256, u.elements
FROM unnest(@texts::bytea[], @vectors::bytea[]) AS u (sha256, elements)
ORDER BY u.sha256
ON CONFLICT (model, sha256) DO UPDATE SET elements = excluded.elements, used_at = excluded.used_at;

-- name: VectorForget :execrows
-- Deletes vectors that were not used for some days, 1,000 at a time.
DELETE FROM actlog.text_vector AS v
USING (
    SELECT x.model, x.sha256
    FROM actlog.text_vector AS x
    WHERE x.used_at < now() - make_interval(days => @days::integer)
    ORDER BY x.used_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
) AS old
WHERE v.model = old.model AND v.sha256 = old.sha256;
