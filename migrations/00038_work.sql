-- How long runs work, without the time for which they wait for people, and how many workers a run has lost in a row.

-- +goose Up

ALTER TABLE actlog.run
    ADD COLUMN lost integer NOT NULL DEFAULT 0,
    ADD COLUMN worked double precision NOT NULL DEFAULT 0,
    ADD COLUMN clock jsonb,
    ADD COLUMN clock_from double precision,
    ADD COLUMN clock_ran double precision;
COMMENT ON COLUMN actlog.run.lost IS 'How many workers in a row were lost that held it, since it last put a result on record or let go by itself.';
COMMENT ON COLUMN actlog.run.worked IS 'Its clock: how long it, or a run below it, has worked, in seconds. Kept for runs with a limit of time.';
COMMENT ON COLUMN actlog.run.clock IS 'While it works: what its clock and those of the runs above it showed when it began to, by plan.';
COMMENT ON COLUMN actlog.run.clock_from IS 'The age of its worker when it began to work.';
COMMENT ON COLUMN actlog.run.clock_ran IS 'How long it worked until it was taken from its worker, in seconds; null: it was not, or it goes on.';
COMMENT ON COLUMN actlog.run.deadline IS 'When its limit of time is reached. Servers of an earlier release write it; later ones count the time for which a run works.';
SELECT actlog.compress_texts('actlog.run');

ALTER TABLE actlog.worker ADD COLUMN age double precision NOT NULL DEFAULT 0;
COMMENT ON COLUMN actlog.worker.age IS 'How long the program had run at its last heartbeat, in seconds, by a clock that nobody sets.';

COMMENT ON COLUMN report.run.deadline IS 'When its limit of time is reached, if a server of an earlier release started it.';

-- +goose Down

COMMENT ON COLUMN report.run.deadline IS 'When its limit of time is reached; null: it has none.';
ALTER TABLE actlog.worker DROP COLUMN age;
COMMENT ON COLUMN actlog.run.deadline IS 'When its limit of time is reached.';
ALTER TABLE actlog.run DROP COLUMN clock_ran, DROP COLUMN clock_from, DROP COLUMN clock, DROP COLUMN worked, DROP COLUMN lost;
