-- Only the runtime writes to the trees that it runs. A tree beside one may claim to have been started by a
-- tool call of it.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- It is volatile; otherwise Postgres would call it while it plans the statement.
-- +goose StatementBegin
CREATE FUNCTION actlog.owned_by_runtime(plan_ids text[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'actlog: the runtime runs plans that were written to from outside'
        USING ERRCODE = 'YA004', DETAIL = to_json(plan_ids)::text,
            HINT = 'These records are refused. The others are written.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.owned_by_runtime(text[]) IS
    'Fails with SQLSTATE YA004: records name plans that the runtime runs. Its detail lists the plans.';

ALTER TABLE actlog.plan_execution_record ADD COLUMN started_by json;
COMMENT ON COLUMN actlog.plan_execution_record.started_by IS
    'The plan and the tool call that are said to have started this root plan: planId and toolCallId. A claim of the writer.';
SELECT actlog.compress_texts('actlog.plan_execution_record');
CREATE INDEX plan_started_by ON actlog.plan_execution_record ((started_by ->> 'planId'), (COALESCE(start_time, first_seen_at)), root_plan_id)
    WHERE started_by IS NOT NULL;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL AND p.started_by IS NULL
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL
$$;
-- +goose StatementEnd
DROP INDEX actlog.plan_started_by;
ALTER TABLE actlog.plan_execution_record DROP COLUMN started_by;
DROP FUNCTION actlog.owned_by_runtime(text[]);
