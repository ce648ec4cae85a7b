-- Whether what steps and waits copy from the calls of a dropped period is gone, too.

-- +goose Up

ALTER TABLE actlog.dropped_detail ADD COLUMN forgotten boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN actlog.dropped_detail.forgotten IS 'Steps and waits have no texts of its tool calls any more.';

-- +goose Down

ALTER TABLE actlog.dropped_detail DROP COLUMN forgotten;
