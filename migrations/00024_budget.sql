-- Budgets: what runs of a project spend on a day, so that new ones wait once that is as much as the project may spend.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE TABLE actlog.project_day (
    project     text COLLATE "C",
    day         date,
    cost_usd    numeric NOT NULL,
    budget_usd  double precision,
    PRIMARY KEY (project, day)
);
COMMENT ON TABLE actlog.project_day IS 'What the runs of each project spent on models, today and on the days before. Workers add actlog.project_day_change to it about once a second.';
COMMENT ON COLUMN actlog.project_day.project IS 'The project of the root run.';
COMMENT ON COLUMN actlog.project_day.day IS 'The day, in UTC, on which the model calls began.';
COMMENT ON COLUMN actlog.project_day.cost_usd IS 'US dollars. Calls whose cost is not known count nothing.';
COMMENT ON COLUMN actlog.project_day.budget_usd IS 'What the project may spend on the day, as the worker knew it that looked last; null: none of them has a budget for it.';

-- No writer waits for another: each adds rows.
CREATE TABLE actlog.project_day_change (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project   text COLLATE "C" NOT NULL,
    day       date NOT NULL,
    cost_usd  numeric NOT NULL
);
COMMENT ON TABLE actlog.project_day_change IS 'What runs spent and is not in actlog.project_day yet.';
COMMENT ON COLUMN actlog.project_day_change.id IS 'Names the row.';
COMMENT ON COLUMN actlog.project_day_change.project IS 'As in actlog.project_day.';
COMMENT ON COLUMN actlog.project_day_change.day IS 'As in actlog.project_day.';
COMMENT ON COLUMN actlog.project_day_change.cost_usd IS 'US dollars; negative if less was spent than was known before.';

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.project_day,actlog.project_day_change}'::text[]) AS t;

-- +goose StatementBegin
CREATE FUNCTION actlog.spend() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    cost  numeric := COALESCE(NEW.cost_usd, 0);
BEGIN
    -- The row has the cost of the attempt before until the answer of a later one comes, which counts as a whole.
    IF TG_OP = 'UPDATE' AND NOT (COALESCE(NEW.attempt, 1) > 1 AND OLD.think_end_time IS NULL AND NEW.think_end_time IS NOT NULL
        AND NEW.state <> ALL ('{FAILED,CANCELLED,INTERRUPTED}')) THEN
        cost := cost - COALESCE(OLD.cost_usd, 0);
    END IF;
    IF cost <> 0 THEN
        INSERT INTO actlog.project_day_change (project, day, cost_usd)
        SELECT r.project, (COALESCE(NEW.think_start_time, NEW.first_seen_at) AT TIME ZONE 'UTC')::date, cost
        FROM actlog.run AS r
        WHERE r.root_plan_id = NEW.root_plan_id AND r.plan_id = NEW.root_plan_id;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.spend() IS
    'Adds the cost of a model call of a run to that of its project. An earlier attempt stays spent, and so does what is deleted.';

-- A row that is moved to another partition is inserted there, and is not new. What is older than two days is of no interest.
CREATE TRIGGER spend_new AFTER INSERT ON actlog.think_act_record
    FOR EACH ROW WHEN (NEW.cost_usd > 0 AND NEW.first_seen_at = now() AND COALESCE(NEW.think_start_time, NEW.first_seen_at) > now() - interval '2 days')
    EXECUTE FUNCTION actlog.spend();
CREATE TRIGGER spend_more AFTER UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (
        (NEW.cost_usd IS DISTINCT FROM OLD.cost_usd OR NEW.attempt > 1 AND OLD.think_end_time IS NULL AND NEW.think_end_time IS NOT NULL)
        AND COALESCE(NEW.think_start_time, NEW.first_seen_at) > now() - interval '2 days'
    )
    EXECUTE FUNCTION actlog.spend();

-- What was spent today before.
INSERT INTO actlog.project_day (project, day, cost_usd)
SELECT r.project, (now() AT TIME ZONE 'UTC')::date, sum(c.cost_usd)
FROM actlog.run AS r
JOIN actlog.think_act_record AS c ON c.root_plan_id = r.root_plan_id
WHERE r.plan_id = r.root_plan_id AND (NOT r.done OR r.done_at >= date_trunc('day', now(), 'UTC'))
    AND COALESCE(c.think_start_time, c.first_seen_at) >= date_trunc('day', now(), 'UTC') AND c.cost_usd > 0
GROUP BY r.project;

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

DROP TRIGGER spend_new ON actlog.think_act_record;
DROP TRIGGER spend_more ON actlog.think_act_record;
DROP FUNCTION actlog.spend();
UPDATE actlog.run SET due_at = now(), blocked = NULL WHERE left(blocked, 7) = 'budget:' AND due_at IS NULL AND worker_id IS NULL AND NOT done;
DROP TABLE actlog.project_day_change, actlog.project_day;
