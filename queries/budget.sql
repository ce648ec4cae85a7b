-- What runs of projects spend on a day, and may spend.

-- name: BudgetTurn :exec
-- Waits until no other worker counts what was spent, to the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('actlog.project_day', 0));

-- name: BudgetCount :exec
-- Counts what was spent since that was last counted. Days that are over for a week are forgotten. The caller has the turn.
WITH gone AS (
    DELETE FROM actlog.project_day_change AS c
    RETURNING c.project, c.day, c.cost_usd
),
old AS (
    DELETE FROM actlog.project_day AS d
    WHERE d.day < (now() AT TIME ZONE 'UTC')::date - 7
)
INSERT INTO actlog.project_day AS d (project, day, cost_usd)
SELECT g.project, g.day, sum(g.cost_usd)
FROM gone AS g
WHERE g.day >= (now() AT TIME ZONE 'UTC')::date - 7
GROUP BY g.project, g.day
ON CONFLICT (project, day) DO UPDATE SET cost_usd = d.cost_usd + excluded.cost_usd;

-- name: BudgetSpent :many
-- Returns what projects with a budget have spent today, and notes the budgets. The caller has the turn.
WITH asked AS MATERIALIZED (
    SELECT u.project, u.budget_usd, COALESCE(d.cost_usd, 0) AS cost_usd, d.day, d.budget_usd IS DISTINCT FROM u.budget_usd AS is_new
    FROM unnest(@projects::text[], @budgets::float8[]) AS u (project, budget_usd)
    LEFT JOIN actlog.project_day AS d ON d.project = u.project AND d.day = (now() AT TIME ZONE 'UTC')::date
),
noted AS (
    UPDATE actlog.project_day AS d
    SET budget_usd = a.budget_usd
    FROM asked AS a
    WHERE a.is_new AND d.project = a.project AND d.day = a.day
)
SELECT a.project::text AS project, a.cost_usd::float8 AS cost_usd FROM asked AS a;
