-- How far a call has come that takes long.

-- +goose Up

-- Every writer begins with the table of plans, so none deadlocks with the lock below.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;
ALTER TABLE actlog.act_tool_info ADD COLUMN progress json;
SELECT actlog.compress_texts('actlog.act_tool_info');

COMMENT ON COLUMN actlog.act_tool_info.progress IS 'How far the call had come when it last said so: done, total and message, each null where it is not known; null: it said nothing.';

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;
ALTER TABLE actlog.act_tool_info DROP COLUMN progress;
