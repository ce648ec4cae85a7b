-- Runs that go on from a row of another run.

-- +goose Up

-- A transaction that locks runs locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

ALTER TABLE actlog.run
    ADD COLUMN forked_from text COLLATE "C",
    ADD COLUMN forked_at text COLLATE "C",
    ADD COLUMN ids_of text COLLATE "C",
    ADD COLUMN changes json;

COMMENT ON COLUMN actlog.run.forked_from IS 'The run that this one goes on from; null: none.';
COMMENT ON COLUMN actlog.run.forked_at IS 'The row of that run which is the first to be made anew, such as cycle:STEP/SEQ; null: none.';
COMMENT ON COLUMN actlog.run.ids_of IS 'The plan that the ids of its questions and thoughts follow from, because some are copies; null: its own.';
COMMENT ON COLUMN actlog.run.changes IS 'What is changed in the definition of an agent: agent, and patch, a JSON merge patch; null: nothing.';

ALTER TABLE actlog.control_request
    DROP CONSTRAINT control_action,
    ADD CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME,RETRY,AGAIN,RUN,FORK}'));
COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause, to go on, or to go on after it had ended; and who started it as another one again, or from a row of another one, or ran its schedule.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE, RESUME or RETRY; AGAIN: it was started with the input of another run; FORK: it was started to go on from a row of another run; RUN: it was started by its schedule, beside the ticks.';

SELECT actlog.compress_texts('actlog.run');

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW report.run AS '
        || regexp_replace(pg_get_viewdef('report.run'::regclass), '\n   FROM ', E',\n    x.forked_from,\n    x.forked_at\n   FROM ');
    COMMENT ON COLUMN report.run.forked_from IS 'The run that it goes on from; null: none.';
    COMMENT ON COLUMN report.run.forked_at IS 'The row of that run which is the first to be made anew, such as cycle:STEP/SEQ; null: none.';
END
$$;
-- +goose StatementEnd

-- Copies cost nothing.
DROP TRIGGER spend_new ON actlog.think_act_record;
DROP TRIGGER spend_more ON actlog.think_act_record;
CREATE TRIGGER spend_new AFTER INSERT ON actlog.think_act_record
    FOR EACH ROW WHEN (
        NEW.cost_usd > 0 AND NEW.first_seen_at = now() AND COALESCE(NEW.think_start_time, NEW.first_seen_at) > now() - interval '2 days'
        AND NEW.forked_from IS NULL
    )
    EXECUTE FUNCTION actlog.spend();
CREATE TRIGGER spend_more AFTER UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (
        (NEW.cost_usd IS DISTINCT FROM OLD.cost_usd OR NEW.attempt > 1 AND OLD.think_end_time IS NULL AND NEW.think_end_time IS NOT NULL)
        AND COALESCE(NEW.think_start_time, NEW.first_seen_at) > now() - interval '2 days'
        AND NEW.forked_from IS NULL
    )
    EXECUTE FUNCTION actlog.spend();

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

DROP TRIGGER spend_new ON actlog.think_act_record;
DROP TRIGGER spend_more ON actlog.think_act_record;
CREATE TRIGGER spend_new AFTER INSERT ON actlog.think_act_record
    FOR EACH ROW WHEN (NEW.cost_usd > 0 AND NEW.first_seen_at = now() AND COALESCE(NEW.think_start_time, NEW.first_seen_at) > now() - interval '2 days')
    EXECUTE FUNCTION actlog.spend();
CREATE TRIGGER spend_more AFTER UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (
        (NEW.cost_usd IS DISTINCT FROM OLD.cost_usd OR NEW.attempt > 1 AND OLD.think_end_time IS NULL AND NEW.think_end_time IS NOT NULL)
        AND COALESCE(NEW.think_start_time, NEW.first_seen_at) > now() - interval '2 days'
    )
    EXECUTE FUNCTION actlog.spend();

-- A view cannot lose columns: it is made again, with its comments.
-- +goose StatementBegin
DO $$
DECLARE
    body      text := regexp_replace(pg_get_viewdef('report.run'::regclass), ',\s+x\.forked_from,\s+x\.forked_at', '');
    comments  text;
BEGIN
    SELECT string_agg(format('COMMENT ON COLUMN report.run.%I IS %L', a.attname, d.description), '; ')
        || format('; COMMENT ON VIEW report.run IS %L', obj_description('report.run'::regclass, 'pg_class')) INTO comments
    FROM pg_attribute AS a
    JOIN pg_description AS d ON d.objoid = a.attrelid AND d.objsubid = a.attnum AND d.classoid = 'pg_class'::regclass
    WHERE a.attrelid = 'report.run'::regclass AND a.attname NOT IN ('forked_from', 'forked_at');

    DROP VIEW report.run;
    EXECUTE 'CREATE VIEW report.run AS ' || body;
    EXECUTE comments;
END
$$;
-- +goose StatementEnd

DELETE FROM actlog.control_request WHERE action = 'FORK';
ALTER TABLE actlog.control_request
    DROP CONSTRAINT control_action,
    ADD CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME,RETRY,AGAIN,RUN}'));
COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause, to go on, or to go on after it had ended; and who started it as another one again, or ran its schedule.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE, RESUME or RETRY; AGAIN: it was started with the input of another run; RUN: it was started by its schedule, beside the ticks.';

ALTER TABLE actlog.run DROP COLUMN changes, DROP COLUMN ids_of, DROP COLUMN forked_at, DROP COLUMN forked_from;
