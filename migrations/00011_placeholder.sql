-- Plans of which nothing but the id is known.

-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.is_placeholder(actlog.plan_execution_record) IS
    'Whether nothing but the id of a plan was ever recorded: other records named it.';

-- +goose Down

DROP FUNCTION actlog.is_placeholder(actlog.plan_execution_record);
