-- The figures of charts for days that are over, so that a chart of three months does not read every call. A day is closed
-- by upkeep once it has been over for three hours. Whatever is written, changed or deleted in it later opens it again, in
-- the same transaction. Until it is closed again, charts read its cycles and calls themselves.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE TABLE actlog.day_figures (
    id             bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    day            timestamptz NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    project        text COLLATE "C" NOT NULL,
    name           text COLLATE "C",
    seconds        double precision,
    count          bigint NOT NULL,
    failed         bigint NOT NULL,
    input_tokens   bigint,
    output_tokens  bigint,
    cost_usd       numeric,
    unpriced       bigint,
    PRIMARY KEY (id)
);
CREATE INDEX day_figures_of_kind ON actlog.day_figures (kind, day);
COMMENT ON TABLE actlog.day_figures IS 'Model calls and tool calls of a day that is closed, grouped by project, name and how long they took.';
COMMENT ON COLUMN actlog.day_figures.id IS 'Names the row.';
COMMENT ON COLUMN actlog.day_figures.day IS 'Start of the day, in UTC, on which the calls began; if that is not known, ended; else were first seen.';
COMMENT ON COLUMN actlog.day_figures.kind IS 'model or tool.';
COMMENT ON COLUMN actlog.day_figures.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN actlog.day_figures.name IS 'The model or the tool; null if it is not known.';
COMMENT ON COLUMN actlog.day_figures.seconds IS 'Mean duration of these calls, which differ by 5 percent at most; null if it is not known.';
COMMENT ON COLUMN actlog.day_figures.count IS 'Calls.';
COMMENT ON COLUMN actlog.day_figures.failed IS 'Calls that failed.';
COMMENT ON COLUMN actlog.day_figures.input_tokens IS 'Input tokens of model calls; null if those of none are known.';
COMMENT ON COLUMN actlog.day_figures.output_tokens IS 'Output tokens of model calls; null if those of none are known.';
COMMENT ON COLUMN actlog.day_figures.cost_usd IS 'Cost of model calls in US dollars; null if that of none is known.';
COMMENT ON COLUMN actlog.day_figures.unpriced IS 'Model calls without a cost.';

CREATE TABLE actlog.closed_day (
    day        timestamptz NOT NULL PRIMARY KEY,
    closed_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE actlog.closed_day IS 'Days whose figures are in actlog.day_figures, unless actlog.opened_day has them as well.';
COMMENT ON COLUMN actlog.closed_day.day IS 'Start of the day, in UTC.';
COMMENT ON COLUMN actlog.closed_day.closed_at IS 'When the figures were made.';

CREATE TABLE actlog.opened_day (
    id   bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day  timestamptz NOT NULL
);
CREATE INDEX opened_day_of ON actlog.opened_day (day);
COMMENT ON TABLE actlog.opened_day IS 'Days in which something was written that their figures may lack: one row for each day and transaction. No writer waits for another.';
COMMENT ON COLUMN actlog.opened_day.id IS 'Names the row.';
COMMENT ON COLUMN actlog.opened_day.day IS 'Start of the day, in UTC.';

SELECT actlog.compress_texts('actlog.day_figures');

-- +goose StatementBegin
CREATE FUNCTION actlog.open_days() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r       record := COALESCE(NEW, OLD);
    days    timestamptz[];
    one     timestamptz;
    marked  text := COALESCE(current_setting('actlog.opened_days', true), ''); -- by this transaction
BEGIN
    CASE TG_ARGV[0]
        WHEN 'thinkAct' THEN
            days := ARRAY[date_trunc('day', COALESCE(r.think_start_time, r.first_seen_at, r.part::timestamp AT TIME ZONE 'utc'), 'UTC')];
            IF TG_OP = 'UPDATE' THEN
                days := days || date_trunc('day', COALESCE(OLD.think_start_time, OLD.first_seen_at, OLD.part::timestamp AT TIME ZONE 'utc'), 'UTC');
            END IF;
        WHEN 'actTool' THEN
            days := ARRAY[date_trunc('day', COALESCE(r.start_time, r.first_seen_at, r.part::timestamp AT TIME ZONE 'utc'), 'UTC')];
            IF TG_OP = 'UPDATE' THEN
                days := days || date_trunc('day', COALESCE(OLD.start_time, OLD.first_seen_at, OLD.part::timestamp AT TIME ZONE 'utc'), 'UTC');
            END IF;
        WHEN 'agentExecution' THEN -- its model is that of cycles that name none, and its plan has the project of all
            days := ARRAY(
                SELECT date_trunc('day', COALESCE(c.think_start_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc'), 'UTC') FROM actlog.think_act_record AS c
                WHERE c.root_plan_id = r.root_plan_id AND c.step_id = r.step_id AND c.part = r.part AND COALESCE(c.think_start_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours'
                UNION
                SELECT date_trunc('day', COALESCE(t.start_time, t.first_seen_at, t.part::timestamp AT TIME ZONE 'utc'), 'UTC') FROM actlog.act_tool_info AS t
                WHERE t.root_plan_id = r.root_plan_id AND t.step_id = r.step_id AND t.part = r.part AND COALESCE(t.start_time, t.first_seen_at, t.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours');
        WHEN 'plan' THEN -- the project of all that is below it, or of the whole tree
            days := ARRAY(
                SELECT date_trunc('day', COALESCE(c.think_start_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc'), 'UTC') FROM actlog.think_act_record AS c
                WHERE c.root_plan_id = r.root_plan_id AND c.part = r.part AND COALESCE(c.think_start_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours'
                UNION
                SELECT date_trunc('day', COALESCE(t.start_time, t.first_seen_at, t.part::timestamp AT TIME ZONE 'utc'), 'UTC') FROM actlog.act_tool_info AS t
                WHERE t.root_plan_id = r.root_plan_id AND t.part = r.part AND COALESCE(t.start_time, t.first_seen_at, t.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours');
    END CASE;

    -- A mark of another transaction does not do: it may be swept before this one is committed.
    FOREACH one IN ARRAY days LOOP
        CONTINUE WHEN position(format(' %s ', extract(epoch FROM one)) IN marked) > 0;
        INSERT INTO actlog.opened_day (day) VALUES (one);
        marked := marked || format(' %s ', extract(epoch FROM one));
        PERFORM set_config('actlog.opened_days', marked, true);
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.open_days() IS
    'Opens the days of a row that is written, changed or deleted long after it happened, or whose change moves calls to another project or model. Its argument is the kind.';

CREATE TRIGGER figures_new AFTER INSERT ON actlog.think_act_record
    FOR EACH ROW WHEN (COALESCE(NEW.think_start_time, NEW.first_seen_at, NEW.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours') EXECUTE FUNCTION actlog.open_days('thinkAct');
CREATE TRIGGER figures_changed AFTER UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (COALESCE(OLD.think_start_time, OLD.first_seen_at, OLD.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours' OR COALESCE(NEW.think_start_time, NEW.first_seen_at, NEW.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours') EXECUTE FUNCTION actlog.open_days('thinkAct');
CREATE TRIGGER figures_gone AFTER DELETE ON actlog.think_act_record
    FOR EACH ROW WHEN (COALESCE(OLD.think_start_time, OLD.first_seen_at, OLD.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours') EXECUTE FUNCTION actlog.open_days('thinkAct');
CREATE TRIGGER figures_new AFTER INSERT ON actlog.act_tool_info
    FOR EACH ROW WHEN (COALESCE(NEW.start_time, NEW.first_seen_at, NEW.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours') EXECUTE FUNCTION actlog.open_days('actTool');
CREATE TRIGGER figures_changed AFTER UPDATE ON actlog.act_tool_info
    FOR EACH ROW WHEN (COALESCE(OLD.start_time, OLD.first_seen_at, OLD.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours' OR COALESCE(NEW.start_time, NEW.first_seen_at, NEW.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours') EXECUTE FUNCTION actlog.open_days('actTool');
CREATE TRIGGER figures_gone AFTER DELETE ON actlog.act_tool_info
    FOR EACH ROW WHEN (COALESCE(OLD.start_time, OLD.first_seen_at, OLD.part::timestamp AT TIME ZONE 'utc') < now() - interval '2 hours') EXECUTE FUNCTION actlog.open_days('actTool');
CREATE TRIGGER figures_changed AFTER UPDATE ON actlog.agent_execution_record
    FOR EACH ROW WHEN (OLD.model_name IS DISTINCT FROM NEW.model_name OR OLD.shown_plan_id IS DISTINCT FROM NEW.shown_plan_id)
    EXECUTE FUNCTION actlog.open_days('agentExecution');
CREATE TRIGGER figures_changed AFTER UPDATE ON actlog.plan_execution_record
    FOR EACH ROW WHEN (OLD.project IS DISTINCT FROM NEW.project)
    EXECUTE FUNCTION actlog.open_days('plan');

-- Views read the days that are closed, and the time between them.

CREATE VIEW report.closed_day AS
SELECT f.day, f.kind, f.project, f.name, f.seconds, f.count, f.failed, f.input_tokens, f.output_tokens, f.cost_usd, f.unpriced
FROM actlog.day_figures AS f
WHERE EXISTS (SELECT FROM actlog.closed_day AS c WHERE c.day = f.day)
    AND NOT EXISTS (SELECT FROM actlog.opened_day AS o WHERE o.day = f.day);
COMMENT ON VIEW report.closed_day IS 'Model calls and tool calls of days that are over and have not changed since, grouped by project, name and how long they took.';
COMMENT ON COLUMN report.closed_day.day IS 'Start of the day, in UTC, on which the calls happened.';
COMMENT ON COLUMN report.closed_day.kind IS 'model or tool.';
COMMENT ON COLUMN report.closed_day.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.closed_day.name IS 'The model or the tool; null if it is not known.';
COMMENT ON COLUMN report.closed_day.seconds IS 'Mean duration of these calls, which differ by 5 percent at most; null if it is not known.';
COMMENT ON COLUMN report.closed_day.count IS 'Calls.';
COMMENT ON COLUMN report.closed_day.failed IS 'Calls that failed.';
COMMENT ON COLUMN report.closed_day.input_tokens IS 'Input tokens of model calls.';
COMMENT ON COLUMN report.closed_day.output_tokens IS 'Output tokens of model calls.';
COMMENT ON COLUMN report.closed_day.cost_usd IS 'Cost of model calls in US dollars.';
COMMENT ON COLUMN report.closed_day.unpriced IS 'Model calls without a cost.';

CREATE VIEW report.open_time AS
SELECT p.since, p.until
FROM (
    SELECT COALESCE(lag(d.day) OVER (ORDER BY d.day) + interval '24 hours', '-infinity') AS since, d.day AS until
    FROM (
        SELECT c.day FROM actlog.closed_day AS c WHERE NOT EXISTS (SELECT FROM actlog.opened_day AS o WHERE o.day = c.day)
        UNION ALL
        SELECT 'infinity'
    ) AS d
) AS p
WHERE p.since < p.until;
COMMENT ON VIEW report.open_time IS 'The time between the days of report.closed_day: the calls of this time have to be read one by one.';
COMMENT ON COLUMN report.open_time.since IS 'Start of a period; -infinity before the first closed day.';
COMMENT ON COLUMN report.open_time.until IS 'Its end, which does not belong to it; infinity after the last closed day.';

-- One statement sees one moment: what is committed later has left a mark that it does not sweep.
-- +goose StatementBegin
CREATE FUNCTION actlog.close_day(of timestamptz) RETURNS void LANGUAGE sql AS $$
    WITH before AS (DELETE FROM actlog.day_figures AS f WHERE f.day = of),
    marks AS (DELETE FROM actlog.opened_day AS o WHERE o.day = of),
    closed AS (
        INSERT INTO actlog.closed_day AS c (day) VALUES (of) ON CONFLICT (day) DO UPDATE SET closed_at = now()
    )
    INSERT INTO actlog.day_figures (
        day, kind, project, name, seconds, count, failed, input_tokens, output_tokens, cost_usd, unpriced
    )
    SELECT of, 'model', m.project, m.model_name, avg(m.think_seconds), count(*), count(*) FILTER (WHERE m.state = 'FAILED'),
        sum(m.input_tokens), sum(m.output_tokens), sum(m.cost_usd), count(*) FILTER (WHERE m.cost_usd IS NULL)
    FROM report.think_act AS m
    WHERE m.happened_at >= of AND m.happened_at < of + interval '24 hours'
        -- A cycle of which only tool calls are on record is no call of a model.
        AND COALESCE(m.think_seconds, m.input_char_count, m.output_char_count, m.input_tokens, m.output_tokens) IS NOT NULL
    GROUP BY m.project, m.model_name, CASE WHEN m.think_seconds > 0 THEN round(20 * ln(m.think_seconds)) WHEN m.think_seconds = 0 THEN -1000 END
    UNION ALL
    SELECT of, 'tool', t.project, t.tool_name, avg(t.duration_seconds), count(*), count(*) FILTER (WHERE t.state = 'FAILED'),
        NULL, NULL, NULL, NULL
    FROM report.tool_call AS t
    WHERE t.happened_at >= of AND t.happened_at < of + interval '24 hours'
    GROUP BY t.project, t.tool_name, CASE WHEN t.duration_seconds > 0 THEN round(20 * ln(t.duration_seconds)) WHEN t.duration_seconds = 0 THEN -1000 END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.close_day(timestamptz) IS 'Makes the figures of the day that starts then, in UTC, and closes it.';

-- +goose Down

DROP FUNCTION actlog.close_day(timestamptz);
DROP VIEW report.open_time;
DROP VIEW report.closed_day;
DROP TRIGGER figures_new ON actlog.think_act_record;
DROP TRIGGER figures_changed ON actlog.think_act_record;
DROP TRIGGER figures_gone ON actlog.think_act_record;
DROP TRIGGER figures_new ON actlog.act_tool_info;
DROP TRIGGER figures_changed ON actlog.act_tool_info;
DROP TRIGGER figures_gone ON actlog.act_tool_info;
DROP TRIGGER figures_changed ON actlog.agent_execution_record;
DROP TRIGGER figures_changed ON actlog.plan_execution_record;
DROP FUNCTION actlog.open_days();
DROP TABLE actlog.opened_day;
DROP TABLE actlog.closed_day;
DROP TABLE actlog.day_figures;
