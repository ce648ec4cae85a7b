-- A lookup by the whole key of a step or a plan must not read those of other trees that have the same id.
-- Postgres may take either index while it has no statistics, also for the checks of foreign keys.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

DROP INDEX actlog.agent_step;
CREATE INDEX agent_step ON actlog.agent_execution_record (step_id, root_plan_id);
DROP INDEX actlog.plan_current;
CREATE INDEX plan_current ON actlog.plan_execution_record (current_plan_id, root_plan_id);

-- +goose Down
DROP INDEX actlog.agent_step;
CREATE INDEX agent_step ON actlog.agent_execution_record (step_id);
DROP INDEX actlog.plan_current;
CREATE INDEX plan_current ON actlog.plan_execution_record (current_plan_id);
