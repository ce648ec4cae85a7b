-- Runs that begin later, and those that nobody began in time.

-- +goose Up

-- A transaction that locks runs locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

ALTER TABLE actlog.run
    ADD COLUMN start_at timestamptz,
    ADD COLUMN expires_at timestamptz;
CREATE INDEX run_expires ON actlog.run (expires_at) WHERE expires_at IS NOT NULL AND first_claimed_at IS NULL AND NOT done;

COMMENT ON COLUMN actlog.run.start_at IS 'When it may begin; null: at once.';
COMMENT ON COLUMN actlog.run.expires_at IS 'When it ends if nobody has begun it; null: never.';
COMMENT ON COLUMN actlog.run.first_claimed_at IS 'When a worker first took it to run it, rather than to pause or to stop it; null: nobody has begun it.';

SELECT actlog.compress_texts('actlog.run'::regclass);

-- +goose StatementBegin
DO $$
DECLARE
    before  text := pg_get_viewdef('report.run'::regclass);
    after   text;
BEGIN
    after := replace(before, 'x.first_claimed_at - x.created_at', 'x.first_claimed_at - GREATEST(x.created_at, x.start_at)');
    IF after = before THEN
        RAISE EXCEPTION 'view report.run has no such time';
    END IF;
    EXECUTE 'CREATE OR REPLACE VIEW report.run AS ' || regexp_replace(after, '\n   FROM ', E', x.start_at, x.expires_at\n   FROM ');
    COMMENT ON COLUMN report.run.start_at IS 'When it may begin; null: at once.';
    COMMENT ON COLUMN report.run.expires_at IS 'When it ends if nobody has begun it; null: never.';
END
$$;
-- +goose StatementEnd

COMMENT ON COLUMN report.run.first_claimed_at IS 'When a worker first took it to run it; null: none did.';
COMMENT ON COLUMN report.run.claim_seconds IS 'Seconds until a worker first took it, from its start or, if that is later, from start_at; null until then.';

-- +goose Down

-- A view loses columns only when it is made again, and its comments with them.
-- +goose StatementBegin
DO $$
DECLARE
    before  text := pg_get_viewdef('report.run'::regclass);
    notes   text;
BEGIN
    before := replace(before, 'x.first_claimed_at - GREATEST(x.created_at, x.start_at)', 'x.first_claimed_at - x.created_at');
    SELECT format('COMMENT ON VIEW report.run IS %L; ', obj_description('report.run'::regclass))
        || string_agg(format('COMMENT ON COLUMN report.run.%I IS %L', a.attname, col_description(a.attrelid, a.attnum)), '; ') INTO notes
    FROM pg_attribute AS a
    WHERE a.attrelid = 'report.run'::regclass AND a.attnum > 0 AND a.attname <> ALL ('{start_at,expires_at}');

    DROP VIEW report.run;
    EXECUTE 'CREATE VIEW report.run AS ' || regexp_replace(before, ',\s+x\.start_at,\s+x\.expires_at\M', '');
    EXECUTE notes;
END
$$;
-- +goose StatementEnd

COMMENT ON COLUMN report.run.first_claimed_at IS 'When a worker first took it; null: none did.';
COMMENT ON COLUMN report.run.claim_seconds IS 'Seconds from its start until a worker first took it; null until then.';
COMMENT ON COLUMN actlog.run.first_claimed_at IS 'When it was first claimed.';

ALTER TABLE actlog.run DROP COLUMN expires_at, DROP COLUMN start_at;
