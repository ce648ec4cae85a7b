-- Schedules: runs that are started again and again. Each tick of one has one outcome.

-- +goose Up

-- A transaction that locks runs locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

CREATE TABLE actlog.schedule (
    name            text COLLATE "C" PRIMARY KEY,
    source          text NOT NULL,
    cron            text NOT NULL,
    timezone        text NOT NULL,
    jitter_seconds  double precision NOT NULL,
    overlap         text NOT NULL,
    catch_up        text NOT NULL,
    window_seconds  double precision NOT NULL,
    start           json NOT NULL,
    starter         text COLLATE "C" NOT NULL,
    paused          boolean NOT NULL,
    file_paused     boolean,
    file_hash       text COLLATE "C",
    next_at         timestamptz,
    due_at          timestamptz,
    last_at         timestamptz,
    started         bigint NOT NULL DEFAULT 0,
    skipped         bigint NOT NULL DEFAULT 0,
    missed          bigint NOT NULL DEFAULT 0,
    error           text,
    version         bigint NOT NULL DEFAULT 1,
    seen_at         timestamptz NOT NULL DEFAULT now(),
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schedule_source CHECK (source = ANY ('{file,api}')),
    CONSTRAINT schedule_overlap CHECK (overlap = ANY ('{skip,queue,cancel}')),
    CONSTRAINT schedule_catch_up CHECK (catch_up = ANY ('{none,last,all}'))
);
CREATE INDEX schedule_due ON actlog.schedule (due_at) WHERE due_at IS NOT NULL;

COMMENT ON TABLE actlog.schedule IS 'Runs that are started again and again.';
COMMENT ON COLUMN actlog.schedule.name IS 'The name of the schedule.';
COMMENT ON COLUMN actlog.schedule.source IS 'Who defines it: file, a configuration file, or api, requests.';
COMMENT ON COLUMN actlog.schedule.cron IS 'When it ticks: 5 fields, or 6 with seconds first.';
COMMENT ON COLUMN actlog.schedule.timezone IS 'The time zone of cron.';
COMMENT ON COLUMN actlog.schedule.jitter_seconds IS 'By how much a tick may be late on purpose, in seconds.';
COMMENT ON COLUMN actlog.schedule.overlap IS 'What a tick does while a run of the schedule goes on: skip, queue or cancel.';
COMMENT ON COLUMN actlog.schedule.catch_up IS 'Which ticks are made up for that were missed: none, last or all.';
COMMENT ON COLUMN actlog.schedule.window_seconds IS 'For how long a tick that was missed can be made up for, in seconds.';
COMMENT ON COLUMN actlog.schedule.start IS 'What is started: executor, runName, input, conversationId, project, userId, tags, limits, priority, concurrencyKey.';
COMMENT ON COLUMN actlog.schedule.starter IS 'Who starts its runs: the name of the API key that defined it; empty: not known.';
COMMENT ON COLUMN actlog.schedule.paused IS 'Whether it does not tick.';
COMMENT ON COLUMN actlog.schedule.file_paused IS 'Whether the file says that it is paused; null: no file does.';
COMMENT ON COLUMN actlog.schedule.file_hash IS 'The hash of what the file says of it, in hex digits; null: no file does.';
COMMENT ON COLUMN actlog.schedule.next_at IS 'The next tick, before jitter; null: there is none.';
COMMENT ON COLUMN actlog.schedule.due_at IS 'When that is started; null: never.';
COMMENT ON COLUMN actlog.schedule.last_at IS 'The last tick; null: there was none.';
COMMENT ON COLUMN actlog.schedule.started IS 'How many ticks started a run.';
COMMENT ON COLUMN actlog.schedule.skipped IS 'How many ticks started none because a run of the schedule went on.';
COMMENT ON COLUMN actlog.schedule.missed IS 'How many ticks started none because it was too late.';
COMMENT ON COLUMN actlog.schedule.error IS 'Why the tick that is due could not be started; null: that is not so.';
COMMENT ON COLUMN actlog.schedule.version IS 'Grows when the schedule is changed, paused or resumed.';
COMMENT ON COLUMN actlog.schedule.seen_at IS 'When a process last had it in its file as it is here; if the API defines it, when it was last changed.';
COMMENT ON COLUMN actlog.schedule.created_at IS 'When it was first defined.';
COMMENT ON COLUMN actlog.schedule.updated_at IS 'When it was last changed, paused or resumed.';

CREATE TABLE actlog.schedule_tick (
    schedule    text COLLATE "C" NOT NULL REFERENCES actlog.schedule (name) ON DELETE CASCADE,
    tick        timestamptz NOT NULL,
    outcome     text NOT NULL,
    plan_id     text COLLATE "C",
    decided_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (schedule, tick),
    CONSTRAINT schedule_tick_outcome CHECK (outcome = ANY ('{started,skipped,missed}'))
);

COMMENT ON TABLE actlog.schedule_tick IS 'The last ticks of schedules. What is here does not tick again.';
COMMENT ON COLUMN actlog.schedule_tick.schedule IS 'The schedule.';
COMMENT ON COLUMN actlog.schedule_tick.tick IS 'The planned time, before jitter.';
COMMENT ON COLUMN actlog.schedule_tick.outcome IS 'What came of it: started, skipped or missed.';
COMMENT ON COLUMN actlog.schedule_tick.plan_id IS 'The run that it started; null: none.';
COMMENT ON COLUMN actlog.schedule_tick.decided_at IS 'When that was decided.';

ALTER TABLE actlog.run
    ADD COLUMN schedule text COLLATE "C",
    ADD COLUMN tick_at timestamptz,
    ADD COLUMN queued boolean NOT NULL DEFAULT false;
CREATE INDEX run_schedule ON actlog.run (schedule, created_at, plan_id) WHERE schedule IS NOT NULL;
CREATE INDEX run_schedule_open ON actlog.run (schedule) WHERE schedule IS NOT NULL AND NOT done;

COMMENT ON COLUMN actlog.run.schedule IS 'The schedule that started it; null: none did.';
COMMENT ON COLUMN actlog.run.tick_at IS 'The tick that started it; null: none did.';
COMMENT ON COLUMN actlog.run.queued IS 'Whether it begins only when the runs of its schedule before it have ended.';

ALTER TABLE actlog.control_request
    DROP CONSTRAINT control_action,
    ADD CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME,RETRY,AGAIN,RUN}'));
COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause, to go on, or to go on after it had ended; and who started it as another one again, or by its schedule.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE, RESUME or RETRY; AGAIN: it was started with the input of another run; RUN: it was started by its schedule, beside the ticks.';

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.schedule,actlog.schedule_tick,actlog.run}'::text[]) AS t;

CREATE VIEW report.schedule AS
SELECT
    s.name AS schedule, s.source, s.cron, s.timezone, s.paused, s.next_at AS next_tick_at, s.last_at AS last_tick_at,
    s.started, s.skipped, s.missed, f.failed, s.overlap, s.catch_up, s.error
FROM actlog.schedule AS s
LEFT JOIN LATERAL (
    SELECT count(*) AS failed
    FROM actlog.run AS r
    JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id
    WHERE r.schedule = s.name AND r.done AND p.state = 'FAILED'
) AS f ON true;
COMMENT ON VIEW report.schedule IS 'One row per schedule: when it ticks, and what came of its ticks.';
COMMENT ON COLUMN report.schedule.schedule IS 'The name of the schedule.';
COMMENT ON COLUMN report.schedule.source IS 'Who defines it: file, a configuration file, or api, requests.';
COMMENT ON COLUMN report.schedule.cron IS 'When it ticks: 5 fields, or 6 with seconds first.';
COMMENT ON COLUMN report.schedule.timezone IS 'The time zone of cron.';
COMMENT ON COLUMN report.schedule.paused IS 'Whether it does not tick.';
COMMENT ON COLUMN report.schedule.next_tick_at IS 'The next tick, before jitter; null: there is none. In the past: no process looks, or error says why it could not be started.';
COMMENT ON COLUMN report.schedule.last_tick_at IS 'The last tick; null: there was none.';
COMMENT ON COLUMN report.schedule.started IS 'How many ticks started a run.';
COMMENT ON COLUMN report.schedule.skipped IS 'How many ticks started none because a run of the schedule went on.';
COMMENT ON COLUMN report.schedule.missed IS 'How many ticks started none because it was too late.';
COMMENT ON COLUMN report.schedule.failed IS 'How many of its runs on record FAILED, those that somebody started by hand included.';
COMMENT ON COLUMN report.schedule.overlap IS 'What a tick does while a run of the schedule goes on: skip, queue or cancel.';
COMMENT ON COLUMN report.schedule.catch_up IS 'Which ticks are made up for that were missed: none, last or all.';
COMMENT ON COLUMN report.schedule.error IS 'Why the tick that is due could not be started; null: that is not so.';

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW report.run AS '
        || regexp_replace(pg_get_viewdef('report.run'::regclass), '\n   FROM ', E', x.schedule, x.tick_at\n   FROM ');
    COMMENT ON COLUMN report.run.schedule IS 'The schedule that started it; null: none did. Indexed.';
    COMMENT ON COLUMN report.run.tick_at IS 'The tick that started it, before jitter; null: none did.';
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE
    before  text := pg_get_viewdef('report.run'::regclass);
    notes   text;
BEGIN
    SELECT format('COMMENT ON VIEW report.run IS %L; ', obj_description('report.run'::regclass))
        || string_agg(format('COMMENT ON COLUMN report.run.%I IS %L', a.attname, col_description(a.attrelid, a.attnum)), '; ') INTO notes
    FROM pg_attribute AS a
    WHERE a.attrelid = 'report.run'::regclass AND a.attnum > 0 AND a.attname <> ALL ('{schedule,tick_at}');

    DROP VIEW report.run;
    EXECUTE 'CREATE VIEW report.run AS ' || regexp_replace(before, ',\s+x\.schedule,\s+x\.tick_at\M', '');
    EXECUTE notes;
END
$$;
-- +goose StatementEnd

DELETE FROM actlog.control_request AS c WHERE c.action = 'RUN';
ALTER TABLE actlog.control_request
    DROP CONSTRAINT control_action,
    ADD CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME,RETRY,AGAIN}'));
COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause, to go on, or to go on after it had ended; and who started it as another one again.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE, RESUME or RETRY; AGAIN: it was started with the input of another run.';

DROP VIEW report.schedule;
ALTER TABLE actlog.run DROP COLUMN queued, DROP COLUMN tick_at, DROP COLUMN schedule;
DROP TABLE actlog.schedule_tick, actlog.schedule;
