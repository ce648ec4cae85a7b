-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- A step is written again whenever something happens in it, because it has the roll-ups. Half of each
-- new page is left free, so that the next version of a step stays on its page: Postgres then writes no
-- index, and logs only what differs.
ALTER TABLE actlog.agent_execution_record SET (fillfactor = 50);

-- +goose Down
ALTER TABLE actlog.agent_execution_record RESET (fillfactor);
