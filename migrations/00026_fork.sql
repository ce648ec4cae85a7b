-- Runs that go on from a row of another run: what was before that row is copied, and counts in no figure.

-- +goose Up

-- Every writer begins with the table of plans, so none deadlocks with the locks below.
LOCK TABLE actlog.plan_execution_record IN ACCESS EXCLUSIVE MODE;

ALTER TABLE actlog.plan_execution_record ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.agent_execution_record ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.think_act_record ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.act_tool_info ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.wait_state ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.thought ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.artifact ADD COLUMN forked_from text COLLATE "C";
ALTER TABLE actlog.source_reference ADD COLUMN forked_from text COLLATE "C";

COMMENT ON COLUMN actlog.plan_execution_record.forked_from IS 'The plan of another run that this one is a copy of, as plan:PLAN; null: none. Copied sub-plans count in no figure.';
COMMENT ON COLUMN actlog.agent_execution_record.forked_from IS 'The step of another run that this one is a copy of, as step:STEP, and counts in no figure; null: none.';
COMMENT ON COLUMN actlog.think_act_record.forked_from IS 'The cycle of another run that this one is a copy of, as cycle:STEP/SEQ, and counts in no figure; null: none.';
COMMENT ON COLUMN actlog.act_tool_info.forked_from IS 'The tool call of another run that this one is a copy of, as call:STEP/SEQ/CALL, and counts in no figure; null: none.';
COMMENT ON COLUMN actlog.wait_state.forked_from IS 'The wait of another run that this one is a copy of, as wait:WAIT, and counts in no figure; null: none.';
COMMENT ON COLUMN actlog.thought.forked_from IS 'The thought of another run that this one is a copy of, as thought:THOUGHT, and counts in no figure; null: none.';
COMMENT ON COLUMN actlog.artifact.forked_from IS 'The artifact of another run that this one is a copy of, as artifact:NAME, and counts in no figure; null: none.';
COMMENT ON COLUMN actlog.source_reference.forked_from IS 'The source of another run that this one is a copy of, as source:SOURCE, and counts in no figure; null: none.';

SELECT actlog.compress_texts(t::regclass)
FROM unnest('{actlog.plan_execution_record,actlog.agent_execution_record,actlog.think_act_record,actlog.act_tool_info,actlog.wait_state,actlog.thought,actlog.artifact,actlog.source_reference}'::text[]) AS t;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL AND p.started_by IS NULL AND p.attempt IS NULL
        AND p.forked_from IS NULL
$$;
-- +goose StatementEnd

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL AND p.started_by IS NULL AND p.attempt IS NULL
$$;
-- +goose StatementEnd

ALTER TABLE actlog.source_reference DROP COLUMN forked_from;
ALTER TABLE actlog.artifact DROP COLUMN forked_from;
ALTER TABLE actlog.thought DROP COLUMN forked_from;
ALTER TABLE actlog.wait_state DROP COLUMN forked_from;
ALTER TABLE actlog.act_tool_info DROP COLUMN forked_from;
ALTER TABLE actlog.think_act_record DROP COLUMN forked_from;
ALTER TABLE actlog.agent_execution_record DROP COLUMN forked_from;
ALTER TABLE actlog.plan_execution_record DROP COLUMN forked_from;
