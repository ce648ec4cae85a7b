-- The runtime: runs that are continued from their own rows, and the workers that hold them. Who may run what, and
-- whether to stop, is here and not in the record: whoever may write records may report a false state.

-- +goose Up

-- The runs refer to plans. A transaction that creates them locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

-- What runs do, and who carries them. -----------------------------------------------------

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

CREATE TABLE actlog.worker (
    worker_id    text COLLATE "C" PRIMARY KEY,
    host         text NOT NULL,
    release      text NOT NULL,
    provides     text[] COLLATE "C" NOT NULL,
    slots        integer NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    lease_until  timestamptz NOT NULL,
    stopped_at   timestamptz,
    age          double precision NOT NULL DEFAULT 0
);

COMMENT ON TABLE actlog.worker IS 'Processes that run agents.';
COMMENT ON COLUMN actlog.worker.worker_id IS 'The id of the worker. A worker that lost its lease goes on under another one.';
COMMENT ON COLUMN actlog.worker.host IS 'The host on which it runs.';
COMMENT ON COLUMN actlog.worker.release IS 'The release of the program.';
COMMENT ON COLUMN actlog.worker.provides IS 'What it has: executors, models, tools. It takes runs that need nothing else.';
COMMENT ON COLUMN actlog.worker.slots IS 'How many runs it carries at once.';
COMMENT ON COLUMN actlog.worker.started_at IS 'When it started.';
COMMENT ON COLUMN actlog.worker.lease_until IS 'Until then its runs are its own. Each heartbeat extends this.';
COMMENT ON COLUMN actlog.worker.stopped_at IS 'When it stopped, or another worker took over its runs; null: it has not.';
COMMENT ON COLUMN actlog.worker.age IS 'How long the program had run at its last heartbeat, in seconds, by a clock that nobody sets.';

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
    desired              text NOT NULL DEFAULT 'RUN',
    done                 boolean NOT NULL DEFAULT false,
    created_at           timestamptz NOT NULL DEFAULT now(),
    claimed_at           timestamptz,
    done_at              timestamptz,
    first_claimed_at     timestamptz,
    starter              text COLLATE "C" NOT NULL DEFAULT '',
    project              text COLLATE "C" NOT NULL DEFAULT 'default',
    lost                 integer NOT NULL DEFAULT 0,
    worked               double precision NOT NULL DEFAULT 0,
    clock                jsonb,
    clock_from           double precision,
    clock_ran            double precision,
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
-- Runs that have not ended are found without reading those that have.
CREATE INDEX run_open ON actlog.run (created_at, plan_id) WHERE NOT done;
CREATE UNIQUE INDEX run_request ON actlog.run (idempotency_key, starter, project) WHERE idempotency_key IS NOT NULL;

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
COMMENT ON COLUMN actlog.run.idempotency_key IS 'The key of the request that started it: the same request of the same starter again starts nothing.';
COMMENT ON COLUMN actlog.run.request_sha256 IS 'The SHA-256 of the request that started it, in hex digits.';
COMMENT ON COLUMN actlog.run.worker_id IS 'The worker that holds it; null: none does.';
COMMENT ON COLUMN actlog.run.epoch IS 'Grows with each claim. A worker whose epoch is older can write nothing.';
COMMENT ON COLUMN actlog.run.due_at IS 'When a worker should take it; null: a worker holds it, or it waits for a signal.';
COMMENT ON COLUMN actlog.run.signals IS 'How many things have happened that it might wait for.';
COMMENT ON COLUMN actlog.run.seen IS 'The signals when it was last claimed. If there are more, it does not park.';
COMMENT ON COLUMN actlog.run.takeovers IS 'How often a worker took it whose holder had lost its lease.';
COMMENT ON COLUMN actlog.run.desired IS 'What it should do: RUN, PAUSE or CANCEL.';
COMMENT ON COLUMN actlog.run.done IS 'Whether it has ended.';
COMMENT ON COLUMN actlog.run.created_at IS 'When it was started.';
COMMENT ON COLUMN actlog.run.claimed_at IS 'When it was last claimed.';
COMMENT ON COLUMN actlog.run.done_at IS 'When it ended.';
COMMENT ON COLUMN actlog.run.first_claimed_at IS 'When it was first claimed.';
COMMENT ON COLUMN actlog.run.starter IS 'Who began the tree: the name of the API key, or who the program named; empty: not known.';
COMMENT ON COLUMN actlog.run.project IS 'The project of the tree as it began.';
COMMENT ON COLUMN actlog.run.lost IS 'How many workers in a row were lost that held it, since it last put a result on record or let go by itself.';
COMMENT ON COLUMN actlog.run.worked IS 'Its clock: how long it, or a run below it, has worked, in seconds. Kept for runs with a limit of time.';
COMMENT ON COLUMN actlog.run.clock IS 'While it works: what its clock and those of the runs above it showed when it began to, by plan.';
COMMENT ON COLUMN actlog.run.clock_from IS 'The age of its worker when it began to work.';
COMMENT ON COLUMN actlog.run.clock_ran IS 'How long it worked until it was taken from its worker, in seconds; null: it was not, or it goes on.';

CREATE TABLE actlog.control_request (
    root_plan_id  text COLLATE "C" NOT NULL,
    plan_id       text COLLATE "C" NOT NULL,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    action        text NOT NULL,
    requested_by  text,
    requested_at  timestamptz NOT NULL DEFAULT now(),
    applied_at    timestamptz,
    claimed_by    text,
    PRIMARY KEY (root_plan_id, plan_id, id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.run (root_plan_id, plan_id) ON DELETE CASCADE,
    CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME}'))
);

COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause or to go on.';
COMMENT ON COLUMN actlog.control_request.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.control_request.plan_id IS 'The run. What is below it follows.';
COMMENT ON COLUMN actlog.control_request.id IS 'Number of the row.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE or RESUME.';
COMMENT ON COLUMN actlog.control_request.requested_by IS 'Who asked, as the server or the program knows them.';
COMMENT ON COLUMN actlog.control_request.requested_at IS 'When the request was made.';
COMMENT ON COLUMN actlog.control_request.applied_at IS 'When the run did so; null: not yet.';
COMMENT ON COLUMN actlog.control_request.claimed_by IS 'Who asked, as they said themselves.';

-- Errors that a worker's write raises itself. ---------------------------------------------

-- They are volatile; otherwise Postgres would call them while it plans the statement.

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

-- Conversations. --------------------------------------------------------------------------

-- The key of a conversation that belongs to somebody is a hash of its project, its starter and the id that its runs
-- name. So nobody reads or continues a conversation of somebody else by its id.
CREATE TABLE actlog.conversation (
    conversation_id  text COLLATE "C" PRIMARY KEY,
    user_id          text COLLATE "C",
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    agent_name       text,
    workflow_name    text,
    base_id          text COLLATE "C",
    starter          text COLLATE "C" NOT NULL DEFAULT '',
    project          text COLLATE "C" NOT NULL DEFAULT 'default',
    given_id         text COLLATE "C"
);
CREATE INDEX conversation_updated ON actlog.conversation (updated_at);
CREATE INDEX conversation_base ON actlog.conversation (base_id) WHERE base_id IS NOT NULL;
CREATE INDEX conversation_given ON actlog.conversation (COALESCE(given_id, conversation_id));

COMMENT ON TABLE actlog.conversation IS 'Conversations that several runs take part in.';
COMMENT ON COLUMN actlog.conversation.conversation_id IS 'The key of the row: the id of the conversation, or a hash of its project, its starter and its id.';
COMMENT ON COLUMN actlog.conversation.user_id IS 'The user of the run that began it.';
COMMENT ON COLUMN actlog.conversation.created_at IS 'When it began.';
COMMENT ON COLUMN actlog.conversation.updated_at IS 'When the last message was added.';
COMMENT ON COLUMN actlog.conversation.agent_name IS 'The agent that takes part in a session; null: it is no session of one agent.';
COMMENT ON COLUMN actlog.conversation.workflow_name IS 'The workflow whose session it is, or to which the step belongs; null: none.';
COMMENT ON COLUMN actlog.conversation.base_id IS 'The id of the session of the workflow, as in the plans, of a session that one of its steps has; null: it is no session of a step.';
COMMENT ON COLUMN actlog.conversation.starter IS 'Whose conversation it is: who began its runs; empty: not known.';
COMMENT ON COLUMN actlog.conversation.project IS 'The project of its runs.';
COMMENT ON COLUMN actlog.conversation.given_id IS 'The id of the conversation, as in the plans; null: conversation_id is that.';

CREATE TABLE actlog.conversation_message (
    conversation_id  text COLLATE "C" NOT NULL REFERENCES actlog.conversation (conversation_id) ON DELETE CASCADE,
    plan_id          text COLLATE "C" NOT NULL,
    position         integer NOT NULL,
    role             text NOT NULL,
    content          text NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    message          json,
    PRIMARY KEY (conversation_id, created_at, plan_id, position),
    CONSTRAINT conversation_role CHECK (role = ANY ('{user,assistant,tool}')),
    CONSTRAINT conversation_said_once UNIQUE (conversation_id, plan_id, position)
);

COMMENT ON TABLE actlog.conversation_message IS 'What was said in a conversation: what each run was asked, and what it answered.';
COMMENT ON COLUMN actlog.conversation_message.conversation_id IS 'The key of the conversation.';
COMMENT ON COLUMN actlog.conversation_message.plan_id IS 'The run.';
COMMENT ON COLUMN actlog.conversation_message.position IS 'The place among the messages of the run, from 0.';
COMMENT ON COLUMN actlog.conversation_message.role IS 'Who said it: user, assistant or tool.';
COMMENT ON COLUMN actlog.conversation_message.content IS 'What was said.';
COMMENT ON COLUMN actlog.conversation_message.created_at IS 'When it was written.';
COMMENT ON COLUMN actlog.conversation_message.message IS 'The message with its tool calls or their results; null: it has none.';

-- Vectors of texts. -----------------------------------------------------------------------

CREATE TABLE actlog.text_vector (
    model     text COLLATE "C" NOT NULL,
    sha256    bytea NOT NULL,
    elements  bytea NOT NULL,
    used_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, sha256)
);
ALTER TABLE actlog.text_vector ALTER COLUMN elements SET STORAGE EXTERNAL; -- they do not become smaller
CREATE INDEX text_vector_used ON actlog.text_vector (used_at);

COMMENT ON TABLE actlog.text_vector IS 'Vectors of texts, for toolset search. Those that nobody used for 30 days are deleted.';
COMMENT ON COLUMN actlog.text_vector.model IS 'The model that made it, as its provider knows it.';
COMMENT ON COLUMN actlog.text_vector.sha256 IS 'The SHA-256 of the text. The text itself is not kept.';
COMMENT ON COLUMN actlog.text_vector.elements IS 'The elements: 4 bytes each, IEEE 754, the lowest byte first. Its length is 1.';
COMMENT ON COLUMN actlog.text_vector.used_at IS 'When it was used last, to the day.';

SELECT actlog.compress_texts(t::regclass)
FROM unnest('{actlog.definition,actlog.worker,actlog.run,actlog.control_request,actlog.conversation,actlog.conversation_message,actlog.text_vector}'::text[]) AS t;

-- +goose Down

DROP TABLE actlog.text_vector;
DROP TABLE actlog.conversation_message, actlog.conversation;
DROP FUNCTION actlog.form_waits(), actlog.lease_lost();
DROP TABLE actlog.control_request, actlog.run, actlog.worker, actlog.definition;
