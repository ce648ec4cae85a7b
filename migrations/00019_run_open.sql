-- Runs that have not ended are found without reading those that have.

-- +goose Up
CREATE INDEX run_open ON actlog.run (created_at, plan_id) WHERE NOT done;

-- +goose Down
DROP INDEX actlog.run_open;
