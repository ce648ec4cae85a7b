-- name: DayDue :many
-- Returns the newest day whose figures are to be made, if there is one: a day of the last year that has been over for
-- three hours and was not closed yet, or one that was opened since.
SELECT d.day::timestamptz AS day
FROM (
    SELECT s.day
    FROM generate_series(
        GREATEST(date_trunc('day', now() - interval '366 days', 'UTC'), LEAST(
            (SELECT min(o.day) FROM actlog.opened_day AS o),
            (SELECT date_trunc('day', min(COALESCE(p.start_time, p.first_seen_at)), 'UTC') FROM actlog.plan_execution_record AS p
                WHERE p.root_plan_id = p.current_plan_id))),
        date_trunc('day', now() - interval '27 hours', 'UTC'), interval '24 hours') AS s (day)
    WHERE NOT EXISTS (SELECT FROM actlog.closed_day AS c WHERE c.day = s.day)
    UNION ALL
    SELECT c.day
    FROM actlog.closed_day AS c
    WHERE EXISTS (SELECT FROM actlog.opened_day AS o WHERE o.day = c.day)
) AS d
ORDER BY d.day DESC
LIMIT 1;

-- name: DaySweep :exec
-- Sweeps marks that open nothing: of days that were never closed and are too old for that, and of days whose detail was
-- dropped. Those keep the figures that they have, which could not be made again.
DELETE FROM actlog.opened_day AS o
WHERE CASE
    WHEN EXISTS (SELECT FROM actlog.closed_day AS c WHERE c.day = o.day)
        THEN o.day < (SELECT max(x.to_day) FROM actlog.dropped_detail AS x)::timestamp AT TIME ZONE 'utc'
    ELSE o.day < date_trunc('day', now() - interval '366 days', 'UTC')
END;

-- name: DayClose :exec
SELECT actlog.close_day(@day::timestamptz);
