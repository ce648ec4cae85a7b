-- Code that changed. A run whose code does other things than are on record does nothing, and waits for a worker with
-- the release on which it last went on.

-- +goose Up

-- A transaction that locks runs locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

ALTER TABLE actlog.run
    ADD COLUMN release text COLLATE "C",
    ADD COLUMN mismatch text,
    ADD COLUMN mismatch_at text COLLATE "C";

COMMENT ON COLUMN actlog.run.release IS 'The release of the worker that last went on with it; null: nobody has begun, or that was not noted.';
COMMENT ON COLUMN actlog.run.mismatch IS 'What the code of the last worker did otherwise than is on record; null: nothing. The run goes on when other code takes it.';
COMMENT ON COLUMN actlog.run.mismatch_at IS 'The row of the record at which that was found: step:STEP, cycle:STEP/SEQ, call:STEP/SEQ/CALL or wait:WAIT.';

SELECT actlog.compress_texts('actlog.run'::regclass);

-- +goose Down

ALTER TABLE actlog.run DROP COLUMN release, DROP COLUMN mismatch, DROP COLUMN mismatch_at;
