-- What people and programs say to runs while these are at work.

-- +goose Up

-- Every writer begins with the table of plans, so none deadlocks with the locks below.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

CREATE TABLE actlog.run_message (
    root_plan_id     text COLLATE "C" NOT NULL,
    message_id       text COLLATE "C" NOT NULL,
    plan_id          text COLLATE "C" NOT NULL,
    number           bigint GENERATED ALWAYS AS IDENTITY,
    to_step_id       text COLLATE "C",
    text             text NOT NULL,
    said_by          text,
    claimed_by       text,
    interrupts       boolean NOT NULL,
    state            text NOT NULL DEFAULT 'PENDING',
    created_at       timestamptz NOT NULL DEFAULT now(),
    read_at          timestamptz,
    step_id          text COLLATE "C",
    seq              integer,
    idempotency_key  text COLLATE "C",
    request_sha256   text COLLATE "C",
    PRIMARY KEY (root_plan_id, message_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.run (root_plan_id, plan_id) ON DELETE CASCADE,
    CONSTRAINT run_message_state CHECK (state = ANY ('{PENDING,READ,UNREAD}'))
);
CREATE INDEX run_message_pending ON actlog.run_message (root_plan_id, plan_id) WHERE state = 'PENDING';
CREATE INDEX run_message_run ON actlog.run_message (root_plan_id, plan_id, number);
CREATE UNIQUE INDEX run_message_request ON actlog.run_message (root_plan_id, idempotency_key, COALESCE(said_by, '')) WHERE idempotency_key IS NOT NULL;

COMMENT ON TABLE actlog.run_message IS 'What people and programs said to runs while these were at work.';
COMMENT ON COLUMN actlog.run_message.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.run_message.message_id IS 'The message.';
COMMENT ON COLUMN actlog.run_message.plan_id IS 'The run that reads it.';
COMMENT ON COLUMN actlog.run_message.number IS 'Its place among the messages: they are read in this order.';
COMMENT ON COLUMN actlog.run_message.to_step_id IS 'The step that is to read it; null: the step of the run whose model is asked next.';
COMMENT ON COLUMN actlog.run_message.text IS 'What was said.';
COMMENT ON COLUMN actlog.run_message.said_by IS 'Who said it, as the server or the program knows them.';
COMMENT ON COLUMN actlog.run_message.claimed_by IS 'Who said it, as they said themselves.';
COMMENT ON COLUMN actlog.run_message.interrupts IS 'Whether the model call under way is cancelled for it.';
COMMENT ON COLUMN actlog.run_message.state IS 'PENDING, READ, or UNREAD: the run ended before.';
COMMENT ON COLUMN actlog.run_message.created_at IS 'When it was said.';
COMMENT ON COLUMN actlog.run_message.read_at IS 'When the cycle began that reads it; null: none did.';
COMMENT ON COLUMN actlog.run_message.step_id IS 'The step of that cycle.';
COMMENT ON COLUMN actlog.run_message.seq IS 'The place of that cycle in its step.';
COMMENT ON COLUMN actlog.run_message.idempotency_key IS 'The key of the request, which says it once; null: none.';
COMMENT ON COLUMN actlog.run_message.request_sha256 IS 'The hash of the body of that request, in hex digits.';

ALTER TABLE actlog.run ADD COLUMN unread integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN actlog.run.unread IS 'How many messages to it wait to be read.';

ALTER TABLE actlog.think_act_record ADD COLUMN messages json;
COMMENT ON COLUMN actlog.think_act_record.messages IS 'What people and programs said to the run, and the model was told from this cycle on: a list of objects with messageId, text, by and createdAt; null: nothing.';

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.run_message,actlog.run,actlog.think_act_record}'::text[]) AS t;

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;
ALTER TABLE actlog.think_act_record DROP COLUMN messages;
ALTER TABLE actlog.run DROP COLUMN unread;
DROP TABLE actlog.run_message;
