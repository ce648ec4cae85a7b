-- Events that runs wait for, and the times until which they sleep.

-- +goose Up

-- The waits refer to runs. A transaction that creates them locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

CREATE TABLE actlog.event (
    event_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project          text COLLATE "C" NOT NULL,
    key              text COLLATE "C" NOT NULL,
    data             json NOT NULL,
    sent_by          text COLLATE "C" NOT NULL,
    claimed_by       text,
    idempotency_key  text COLLATE "C",
    request_sha256   text COLLATE "C",
    sent_at          timestamptz NOT NULL DEFAULT now(),
    woken            integer
);
CREATE INDEX event_key ON actlog.event (project, key, event_id);
CREATE INDEX event_sent ON actlog.event (sent_at);
CREATE INDEX event_open ON actlog.event (event_id) WHERE woken IS NULL;
CREATE UNIQUE INDEX event_request ON actlog.event (idempotency_key, sent_by, project) WHERE idempotency_key IS NOT NULL;

CREATE TABLE actlog.event_wait (
    root_plan_id  text COLLATE "C" NOT NULL,
    plan_id       text COLLATE "C" NOT NULL,
    tool_call_id  text COLLATE "C" NOT NULL,
    project       text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    since         timestamptz NOT NULL,
    until         timestamptz,
    woken         boolean NOT NULL DEFAULT false,
    PRIMARY KEY (root_plan_id, plan_id, tool_call_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.run (root_plan_id, plan_id) ON DELETE CASCADE
);
CREATE INDEX event_wait_key ON actlog.event_wait (project, key) WHERE key IS NOT NULL;

CREATE TABLE actlog.event_taken (
    root_plan_id  text COLLATE "C" NOT NULL,
    event_id      bigint NOT NULL REFERENCES actlog.event (event_id) ON DELETE CASCADE,
    plan_id       text COLLATE "C" NOT NULL,
    tool_call_id  text COLLATE "C" NOT NULL,
    attempt       integer NOT NULL,
    PRIMARY KEY (root_plan_id, event_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.run (root_plan_id, plan_id) ON DELETE CASCADE
);
CREATE INDEX event_taken_event ON actlog.event_taken (event_id);
CREATE INDEX event_taken_call ON actlog.event_taken (root_plan_id, plan_id, tool_call_id);

COMMENT ON TABLE actlog.event IS 'Events that runs wait for. They are kept for a day, and for as long as a run that waits has not taken them.';
COMMENT ON COLUMN actlog.event.event_id IS 'The event. Later ones have higher numbers.';
COMMENT ON COLUMN actlog.event.project IS 'The project whose runs may take it.';
COMMENT ON COLUMN actlog.event.key IS 'What runs wait for.';
COMMENT ON COLUMN actlog.event.data IS 'What they get.';
COMMENT ON COLUMN actlog.event.sent_by IS 'Who sent it, as the server knows them; empty: not known.';
COMMENT ON COLUMN actlog.event.claimed_by IS 'Who sent it, as they said themselves.';
COMMENT ON COLUMN actlog.event.idempotency_key IS 'The key of the request, which sends one event; null: none.';
COMMENT ON COLUMN actlog.event.request_sha256 IS 'The hash of the body of that request, in hex digits.';
COMMENT ON COLUMN actlog.event.sent_at IS 'When it was sent.';
COMMENT ON COLUMN actlog.event.woken IS 'How many runs it woke; null: those that wait were not woken yet.';
COMMENT ON TABLE actlog.event_wait IS 'Tool calls that wait for an event, or until a time. No worker holds their runs for that.';
COMMENT ON COLUMN actlog.event_wait.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.event_wait.plan_id IS 'The run that waits.';
COMMENT ON COLUMN actlog.event_wait.tool_call_id IS 'The call that waits.';
COMMENT ON COLUMN actlog.event_wait.project IS 'The project of the run.';
COMMENT ON COLUMN actlog.event_wait.key IS 'The event that it waits for; null: none.';
COMMENT ON COLUMN actlog.event_wait.since IS 'When it began to wait.';
COMMENT ON COLUMN actlog.event_wait.until IS 'Until when it waits; null: without an end.';
COMMENT ON COLUMN actlog.event_wait.woken IS 'Whether an event has woken the run for this call.';
COMMENT ON TABLE actlog.event_taken IS 'Which run has taken which event: each takes one once.';
COMMENT ON COLUMN actlog.event_taken.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.event_taken.event_id IS 'The event.';
COMMENT ON COLUMN actlog.event_taken.plan_id IS 'The run whose call took it.';
COMMENT ON COLUMN actlog.event_taken.tool_call_id IS 'The call.';
COMMENT ON COLUMN actlog.event_taken.attempt IS 'The attempt of the call.';

SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.event,actlog.event_wait,actlog.event_taken}'::text[]) AS t;

-- +goose Down

DROP TABLE actlog.event_taken, actlog.event_wait, actlog.event;
