-- Runs that have not ended are found without reading those that have.

-- +goose Up
CREATE INDEX run_open ON actlog.run (created_at, plan_id) WHERE NOT done;
COMMENT ON COLUMN actlog.worker.stopped_at IS 'When it stopped, or another worker took over its runs; null: it has not.';

-- +goose Down
DROP INDEX actlog.run_open;
