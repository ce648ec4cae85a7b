-- Open questions are listed, oldest first, without reading those that were answered.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE INDEX wait_open ON actlog.wait_state (COALESCE(start_time, first_seen_at, '0001-01-01 00:00:00+00'::timestamptz), id) WHERE state = 'WAITING';

-- +goose Down
DROP INDEX actlog.wait_open;
