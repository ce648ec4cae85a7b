-- The runtime: runs that are continued from their own rows, and the workers that hold them. Who may run
-- what, and whether to stop, stands here and not in the record: whoever may write records may report
-- a false state.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

ALTER TABLE actlog.think_act_record ADD COLUMN message json;
COMMENT ON COLUMN actlog.think_act_record.message IS 'The message of the model in the form that a runtime continues from.';
SELECT actlog.compress_texts('actlog.think_act_record');

ALTER TABLE actlog.act_tool_info ADD COLUMN policy json;
COMMENT ON COLUMN actlog.act_tool_info.policy IS 'What held for the call: whether a human approves it, and what follows if nobody can say how it ended.';
SELECT actlog.compress_texts('actlog.act_tool_info');

ALTER TABLE actlog.wait_state ADD COLUMN subject json;
ALTER TABLE actlog.wait_state ADD COLUMN subject_sha256 text COLLATE "C";
ALTER TABLE actlog.wait_state ADD COLUMN decision_text text;
COMMENT ON COLUMN actlog.wait_state.subject IS 'What the human decides on, such as the name and the parameters of a tool call.';
COMMENT ON COLUMN actlog.wait_state.subject_sha256 IS 'The SHA-256 of the subject, in hex digits.';
COMMENT ON COLUMN actlog.wait_state.decision_text IS 'What the human added to the decision.';
SELECT actlog.compress_texts('actlog.wait_state');

CREATE TABLE actlog.definition (
    definition_id  text COLLATE "C" NOT NULL,
    version        integer NOT NULL,
    kind           text NOT NULL,
    body           json NOT NULL,
    sha256         text COLLATE "C" NOT NULL,
    state          text NOT NULL DEFAULT 'PUBLISHED',
    created_by     text,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (definition_id, version),
    UNIQUE (definition_id, sha256),
    CONSTRAINT definition_state CHECK (state = ANY ('{DRAFT,PUBLISHED}')),
    CONSTRAINT definition_version CHECK (version >= 1)
);
COMMENT ON TABLE actlog.definition IS 'What runs do: agents and plans, in versions. A run keeps the version that it began with.';
COMMENT ON COLUMN actlog.definition.definition_id IS 'Its id: the kind and the name, such as agent.reader.';
COMMENT ON COLUMN actlog.definition.version IS 'Counts from 1. Another body is another version.';
COMMENT ON COLUMN actlog.definition.kind IS 'What it defines: agent, plan, orchestrator, workflow or dag.';
COMMENT ON COLUMN actlog.definition.body IS 'The definition, without secrets.';
COMMENT ON COLUMN actlog.definition.sha256 IS 'The SHA-256 of the body, in hex digits.';
COMMENT ON COLUMN actlog.definition.state IS 'DRAFT or PUBLISHED.';
COMMENT ON COLUMN actlog.definition.created_by IS 'Who made this version.';
COMMENT ON COLUMN actlog.definition.created_at IS 'When this version was first used.';
SELECT actlog.compress_texts('actlog.definition');

CREATE TABLE actlog.worker (
    worker_id    text COLLATE "C" PRIMARY KEY,
    host         text NOT NULL,
    release      text NOT NULL,
    provides     text[] COLLATE "C" NOT NULL,
    slots        integer NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    lease_until  timestamptz NOT NULL,
    stopped_at   timestamptz
);
SELECT actlog.compress_texts('actlog.worker');
COMMENT ON TABLE actlog.worker IS 'Processes that run agents.';
COMMENT ON COLUMN actlog.worker.worker_id IS 'The id of the worker. A worker that lost its lease goes on under another one.';
COMMENT ON COLUMN actlog.worker.host IS 'The host on which it runs.';
COMMENT ON COLUMN actlog.worker.release IS 'The release of the program.';
COMMENT ON COLUMN actlog.worker.provides IS 'What it has: executors, models, tools. It takes runs that need nothing else.';
COMMENT ON COLUMN actlog.worker.slots IS 'How many runs it carries at once.';
COMMENT ON COLUMN actlog.worker.started_at IS 'When it started.';
COMMENT ON COLUMN actlog.worker.lease_until IS 'Until then its runs are its own. Each heartbeat extends this.';
COMMENT ON COLUMN actlog.worker.stopped_at IS 'When it stopped; null: it has not, or it was killed.';

CREATE TABLE actlog.run (
    root_plan_id         text COLLATE "C" NOT NULL,
    plan_id              text COLLATE "C" NOT NULL,
    executor             text COLLATE "C" NOT NULL,
    name                 text COLLATE "C",
    definition_id        text COLLATE "C",
    definition_version   integer,
    needs                text[] COLLATE "C" NOT NULL,
    input                json NOT NULL,
    limits               json,
    depth                integer NOT NULL DEFAULT 0,
    parent_plan_id       text COLLATE "C",
    parent_step_id       text COLLATE "C",
    parent_seq           integer,
    parent_tool_call_id  text COLLATE "C",
    owner                text COLLATE "C" NOT NULL,
    idempotency_key      text COLLATE "C",
    request_sha256       text COLLATE "C",
    worker_id            text COLLATE "C",
    epoch                bigint NOT NULL DEFAULT 0,
    due_at               timestamptz,
    signals              bigint NOT NULL DEFAULT 0,
    seen                 bigint NOT NULL DEFAULT 0,
    takeovers            integer NOT NULL DEFAULT 0,
    deadline             timestamptz,
    desired              text NOT NULL DEFAULT 'RUN',
    done                 boolean NOT NULL DEFAULT false,
    created_at           timestamptz NOT NULL DEFAULT now(),
    claimed_at           timestamptz,
    done_at              timestamptz,
    PRIMARY KEY (root_plan_id, plan_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id) ON DELETE CASCADE,
    FOREIGN KEY (definition_id, definition_version) REFERENCES actlog.definition (definition_id, version),
    CONSTRAINT run_desired CHECK (desired = ANY ('{RUN,PAUSE,CANCEL}')),
    CONSTRAINT run_held CHECK (worker_id IS NULL OR NOT done AND due_at IS NULL)
);
CREATE INDEX run_plan ON actlog.run (plan_id);
CREATE INDEX run_parent ON actlog.run (root_plan_id, parent_plan_id) WHERE parent_plan_id IS NOT NULL;
CREATE INDEX run_due ON actlog.run (due_at) WHERE due_at IS NOT NULL AND worker_id IS NULL AND NOT done;
CREATE INDEX run_worker ON actlog.run (worker_id) WHERE worker_id IS NOT NULL;
CREATE INDEX run_created ON actlog.run (created_at, plan_id);
CREATE UNIQUE INDEX run_idempotency ON actlog.run (idempotency_key) WHERE idempotency_key IS NOT NULL;
COMMENT ON TABLE actlog.run IS 'Plans that the runtime carries: who holds each, when it goes on, and whether it is to stop.';
COMMENT ON COLUMN actlog.run.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.run.plan_id IS 'The plan that is run.';
COMMENT ON COLUMN actlog.run.executor IS 'The executor that carries it: agent, plan, orchestrator, workflow or dag.';
COMMENT ON COLUMN actlog.run.name IS 'What is run, such as the name of an agent.';
COMMENT ON COLUMN actlog.run.definition_id IS 'The definition that it keeps.';
COMMENT ON COLUMN actlog.run.definition_version IS 'The version of that.';
COMMENT ON COLUMN actlog.run.needs IS 'What a worker must provide to take it.';
COMMENT ON COLUMN actlog.run.input IS 'What the executor is given.';
COMMENT ON COLUMN actlog.run.limits IS 'The bounds of the run: rounds, toolCalls, tokens, costUsd, seconds.';
COMMENT ON COLUMN actlog.run.depth IS 'How many runs are above it.';
COMMENT ON COLUMN actlog.run.parent_plan_id IS 'The run above it; null for a root.';
COMMENT ON COLUMN actlog.run.parent_step_id IS 'The step of the tool call that started it.';
COMMENT ON COLUMN actlog.run.parent_seq IS 'The cycle of the tool call that started it.';
COMMENT ON COLUMN actlog.run.parent_tool_call_id IS 'The tool call that started it.';
COMMENT ON COLUMN actlog.run.owner IS 'For whom it runs, so that all have their turn: the user, or else the root plan.';
COMMENT ON COLUMN actlog.run.idempotency_key IS 'The key of the request that started it: the same request again starts nothing.';
COMMENT ON COLUMN actlog.run.request_sha256 IS 'The SHA-256 of the request that started it, in hex digits.';
COMMENT ON COLUMN actlog.run.worker_id IS 'The worker that holds it; null: none does.';
COMMENT ON COLUMN actlog.run.epoch IS 'Grows with each claim. A worker whose epoch is older can write nothing.';
COMMENT ON COLUMN actlog.run.due_at IS 'When a worker should take it; null: a worker holds it, or it waits for a signal.';
COMMENT ON COLUMN actlog.run.signals IS 'How many things have happened that it might wait for.';
COMMENT ON COLUMN actlog.run.seen IS 'The signals when it was last claimed. If there are more, it does not park.';
COMMENT ON COLUMN actlog.run.takeovers IS 'How often a worker took it whose holder had lost its lease.';
COMMENT ON COLUMN actlog.run.deadline IS 'When its limit of time is reached.';
COMMENT ON COLUMN actlog.run.desired IS 'What it should do: RUN, PAUSE or CANCEL.';
COMMENT ON COLUMN actlog.run.done IS 'Whether it has ended.';
COMMENT ON COLUMN actlog.run.created_at IS 'When it was started.';
COMMENT ON COLUMN actlog.run.claimed_at IS 'When it was last claimed.';
COMMENT ON COLUMN actlog.run.done_at IS 'When it ended.';
SELECT actlog.compress_texts('actlog.run');

CREATE TABLE actlog.control_request (
    root_plan_id  text COLLATE "C" NOT NULL,
    plan_id       text COLLATE "C" NOT NULL,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    action        text NOT NULL,
    requested_by  text,
    requested_at  timestamptz NOT NULL DEFAULT now(),
    applied_at    timestamptz,
    PRIMARY KEY (root_plan_id, plan_id, id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.run (root_plan_id, plan_id) ON DELETE CASCADE,
    CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME}'))
);
SELECT actlog.compress_texts('actlog.control_request');
COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause or to go on.';
COMMENT ON COLUMN actlog.control_request.id IS 'Number of the row.';
COMMENT ON COLUMN actlog.control_request.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.control_request.plan_id IS 'The run. What is below it follows.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE or RESUME.';
COMMENT ON COLUMN actlog.control_request.requested_by IS 'Who asked.';
COMMENT ON COLUMN actlog.control_request.requested_at IS 'When the request was made.';
COMMENT ON COLUMN actlog.control_request.applied_at IS 'When the run did so; null: not yet.';

CREATE TABLE actlog.conversation (
    conversation_id  text COLLATE "C" PRIMARY KEY,
    user_id          text COLLATE "C",
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now()
);
SELECT actlog.compress_texts('actlog.conversation');
COMMENT ON TABLE actlog.conversation IS 'Conversations that several runs take part in.';
COMMENT ON COLUMN actlog.conversation.conversation_id IS 'The id of the conversation, as in the plans.';
COMMENT ON COLUMN actlog.conversation.user_id IS 'Whose conversation it is.';
COMMENT ON COLUMN actlog.conversation.created_at IS 'When it began.';
COMMENT ON COLUMN actlog.conversation.updated_at IS 'When the last message was added.';

CREATE TABLE actlog.conversation_message (
    conversation_id  text COLLATE "C" NOT NULL REFERENCES actlog.conversation (conversation_id) ON DELETE CASCADE,
    plan_id          text COLLATE "C" NOT NULL,
    position         integer NOT NULL,
    role             text NOT NULL,
    content          text NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, created_at, plan_id, position),
    CONSTRAINT conversation_role CHECK (role = ANY ('{user,assistant}'))
);
COMMENT ON TABLE actlog.conversation_message IS 'What was said in a conversation: what each run was asked, and what it answered.';
COMMENT ON COLUMN actlog.conversation_message.conversation_id IS 'The conversation.';
COMMENT ON COLUMN actlog.conversation_message.plan_id IS 'The run.';
COMMENT ON COLUMN actlog.conversation_message.position IS 'The place among the messages of the run, from 0.';
COMMENT ON COLUMN actlog.conversation_message.role IS 'Who said it: user or assistant.';
COMMENT ON COLUMN actlog.conversation_message.content IS 'What was said.';
COMMENT ON COLUMN actlog.conversation_message.created_at IS 'When the run ended that it belongs to.';
SELECT actlog.compress_texts('actlog.conversation_message');

-- +goose StatementBegin
CREATE FUNCTION actlog.lease_lost() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'actlog: the run has ended, or another worker holds it'
        USING ERRCODE = 'YA002', HINT = 'The worker that asked was away for too long. What it did is not written.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.lease_lost() IS
    'Fails with SQLSTATE YA002: a worker wants to write to a run that it does not hold any more.';

-- +goose StatementBegin
CREATE FUNCTION actlog.form_waits() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'actlog: another form of the tree waits for a human'
        USING ERRCODE = 'YA003', HINT = 'The form is shown when the other one is answered.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.form_waits() IS
    'Fails with SQLSTATE YA003: a run wants to show a form while another form of its tree waits.';

-- +goose Down

DROP FUNCTION actlog.form_waits();
DROP FUNCTION actlog.lease_lost();
DROP TABLE actlog.conversation_message;
DROP TABLE actlog.conversation;
DROP TABLE actlog.control_request;
DROP TABLE actlog.run;
DROP TABLE actlog.worker;
DROP TABLE actlog.definition;
ALTER TABLE actlog.wait_state DROP COLUMN decision_text;
ALTER TABLE actlog.wait_state DROP COLUMN subject_sha256;
ALTER TABLE actlog.wait_state DROP COLUMN subject;
ALTER TABLE actlog.act_tool_info DROP COLUMN policy;
ALTER TABLE actlog.think_act_record DROP COLUMN message;
