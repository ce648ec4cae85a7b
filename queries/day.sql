-- name: DayDue :many
-- Returns the newest day whose figures are to be made, if there is one: it has been over for three hours, and was not
-- closed yet or was opened since.
SELECT d.day::timestamptz AS day
FROM (
    SELECT generate_series(
        LEAST((SELECT min(o.day) FROM actlog.opened_day AS o),
            (SELECT date_trunc('day', min(COALESCE(p.start_time, p.first_seen_at)), 'UTC') FROM actlog.plan_execution_record AS p
                WHERE p.root_plan_id = p.current_plan_id)),
        date_trunc('day', now() - interval '27 hours', 'UTC'), interval '24 hours') AS day
) AS d
LEFT JOIN actlog.closed_day AS c ON c.day = d.day
WHERE c.day IS NULL
    OR EXISTS (SELECT FROM actlog.opened_day AS o WHERE o.day = d.day)
ORDER BY d.day DESC
LIMIT 1;

-- name: DayKeep :exec
-- Keeps the figures of days whose detail was dropped: they could not be made again.
DELETE FROM actlog.opened_day AS o
WHERE o.day < (SELECT max(x.to_day) FROM actlog.dropped_detail AS x)::timestamp AT TIME ZONE 'utc'
    AND EXISTS (SELECT FROM actlog.closed_day AS c WHERE c.day = o.day);

-- name: DayClose :exec
SELECT actlog.close_day(@day::timestamptz);
