-- +goose Up
ALTER TABLE actlog.conversation
    ADD COLUMN agent_name text,
    ADD COLUMN workflow_name text,
    ADD COLUMN base_id text COLLATE "C";
COMMENT ON COLUMN actlog.conversation.agent_name IS 'The agent that takes part in a session; null: it is no session of one agent.';
COMMENT ON COLUMN actlog.conversation.workflow_name IS 'The workflow whose session it is, or to which the step belongs; null: none.';
COMMENT ON COLUMN actlog.conversation.base_id IS 'The session of the workflow, of a session that one of its steps has; null: it is no session of a step.';
CREATE INDEX conversation_updated ON actlog.conversation (updated_at);
CREATE INDEX conversation_base ON actlog.conversation (base_id) WHERE base_id IS NOT NULL;

ALTER TABLE actlog.conversation_message
    ADD COLUMN message json,
    DROP CONSTRAINT conversation_role,
    ADD CONSTRAINT conversation_role CHECK (role = ANY ('{user,assistant,tool}')),
    ADD CONSTRAINT conversation_said_once UNIQUE (conversation_id, plan_id, position);
COMMENT ON COLUMN actlog.conversation_message.role IS 'Who said it: user, assistant or tool.';
COMMENT ON COLUMN actlog.conversation_message.message IS 'The message with its tool calls or their results; null: it has none.';
COMMENT ON COLUMN actlog.conversation_message.created_at IS 'When it was written.';
SELECT actlog.compress_texts('actlog.conversation');
SELECT actlog.compress_texts('actlog.conversation_message');

-- +goose Down
DELETE FROM actlog.conversation_message WHERE role = 'tool';
ALTER TABLE actlog.conversation_message
    DROP CONSTRAINT conversation_said_once,
    DROP CONSTRAINT conversation_role,
    ADD CONSTRAINT conversation_role CHECK (role = ANY ('{user,assistant}')),
    DROP COLUMN message;
COMMENT ON COLUMN actlog.conversation_message.role IS 'Who said it: user or assistant.';
COMMENT ON COLUMN actlog.conversation_message.created_at IS 'When the run ended that it belongs to.';
DROP INDEX actlog.conversation_base;
DROP INDEX actlog.conversation_updated;
ALTER TABLE actlog.conversation DROP COLUMN base_id, DROP COLUMN workflow_name, DROP COLUMN agent_name;
