-- The record: plans, agent executions, think-act cycles and tool calls; the thoughts, artifacts, sources and waits of
-- plans; the feed of what changed; what models cost; and what stays when detail is dropped. docs/design.md explains
-- why it is built this way.

-- +goose Up

-- Large texts. ----------------------------------------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION actlog.compress_texts(parent regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    col record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        RETURN;
    END IF;
    FOR col IN SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE (c.oid = parent OR c.oid IN (SELECT relid FROM pg_partition_tree(parent))) AND a.attnum > 0 AND NOT a.attisdropped
            AND a.atttypid IN ('text'::regtype, 'json'::regtype, 'jsonb'::regtype) AND a.attcompression <> 'l'
    LOOP
        EXECUTE format('ALTER TABLE actlog.%I ALTER COLUMN %I SET COMPRESSION lz4', col.relname, col.attname);
    END LOOP;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.compress_texts(regclass) IS
    'Compresses the texts and JSON of a table and its partitions with lz4 if the server has it; lz4 writes three times as fast as pglz. A migration that adds such a column calls it at the end.';

-- Which value wins when a change meets a row. ---------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION actlog.takes(old anyelement, old_rev bigint, new anyelement, new_rev bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT new IS NOT NULL AND (old IS NULL OR CASE
        WHEN new_rev IS NULL THEN new <> old
        WHEN old_rev IS NULL OR new_rev > old_rev THEN true
        WHEN new_rev < old_rev THEN false
        ELSE new > old
    END)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.takes(anyelement, bigint, anyelement, bigint) IS
    'Whether a new value replaces the one on record. The higher revision wins; without a revision, the later arrival wins. At the same revision, the greater value wins.';

-- +goose StatementBegin
CREATE FUNCTION actlog.takes(old text, old_rev bigint, new text, new_rev bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT new IS NOT NULL AND (old IS NULL OR CASE
        WHEN new_rev IS NULL THEN new <> old
        WHEN old_rev IS NULL OR new_rev > old_rev THEN true
        WHEN new_rev < old_rev THEN false
        ELSE new COLLATE "C" > old COLLATE "C"
    END)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.takes(text, bigint, text, bigint) IS
    'As takes(anyelement), for texts. The order of texts is the same on every server.';

-- +goose StatementBegin
CREATE FUNCTION actlog.settles(state text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN state IN ('PENDING', 'IDLE', 'RUNNING', 'WAITING', 'PAUSED', 'AWAITING_APPROVAL') THEN 0
        WHEN state = 'UNKNOWN' THEN 1
        WHEN state = 'INTERRUPTED' THEN 2
        ELSE 3
    END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.settles(text) IS
    'How final a state is: 0 live, 1 UNKNOWN, 2 INTERRUPTED, 3 a known outcome.';

-- +goose StatementBegin
CREATE FUNCTION actlog.takes_state(old text, old_rev bigint, new text, new_rev bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT new IS NOT NULL AND (old IS NULL OR CASE sign(actlog.settles(new) - actlog.settles(old))
        WHEN 1 THEN true
        WHEN -1 THEN false
        ELSE actlog.takes(old, old_rev, new, new_rev)
    END)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.takes_state(text, bigint, text, bigint) IS
    'As takes, for states: the more final state wins.';

-- +goose StatementBegin
CREATE FUNCTION actlog.attempts(old integer, new integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sign(COALESCE(new, 1) - COALESCE(old, 1))::integer
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.attempts(integer, integer) IS
    'Compares the attempt of a change with that of the row: 1 is higher, 0 the same, -1 earlier. Null stands for the first attempt.';

-- Attempts before the current one. --------------------------------------------------------

-- They are kept as a list in the row. An entry is an object: {"attempt": 1, "state": "FAILED", "startTime": "...",
-- "revs": {"state": 5}}. Package field writes and reads the same. The rules say which fields belong to an attempt:
-- {"state": {"rule": "forward", "rev": 8, "time": false}}, where rev is the place in the revisions of the row, or 0.

-- +goose StatementBegin
CREATE FUNCTION actlog.own_attempt(told jsonb, rules jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    f     record;
    value text;
    bytes bytea;
    size  integer;
    entry jsonb := '{}';
    revs  jsonb := '{}';
BEGIN
    FOR f IN SELECT key AS name, (r.value ->> 'rev')::integer AS rev, (r.value ->> 'time')::boolean AS is_time FROM jsonb_each(rules) AS r LOOP
        value := told ->> f.name;
        CONTINUE WHEN value IS NULL;
        IF f.is_time THEN -- equal times have equal texts, which sort as the times do
            value := to_char(value::timestamptz AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
        ELSIF octet_length(value) > 2048 THEN -- cut at a character boundary
            bytes := convert_to(value, 'UTF8');
            size := 2048;
            WHILE get_byte(bytes, size) & 192 = 128 LOOP
                size := size - 1;
            END LOOP;
            value := convert_from(substr(bytes, 1, size), 'UTF8');
        END IF;
        entry := entry || jsonb_build_object(f.name, value);
        IF f.rev > 0 AND told -> 'revs' ->> (f.rev - 1) IS NOT NULL THEN
            revs := revs || jsonb_build_object(f.name, told -> 'revs' -> (f.rev - 1));
        END IF;
    END LOOP;
    IF entry = '{}' AND told ->> 'attempt' IS NULL THEN
        RETURN NULL;
    END IF;
    IF revs <> '{}' THEN
        entry := entry || jsonb_build_object('revs', revs);
    END IF;
    RETURN entry || jsonb_build_object('attempt', COALESCE((told ->> 'attempt')::integer, 1));
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.own_attempt(jsonb, jsonb) IS
    'What the columns of a row say about its own attempt, as it is kept in the list of attempts; null: nothing. Texts are cut at 2 KiB.';

-- +goose StatementBegin
CREATE FUNCTION actlog.merge_attempt(old jsonb, new jsonb, rules jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    f       record;
    takes   boolean;
    old_rev bigint;
    new_rev bigint;
    merged  jsonb := old;
    revs    jsonb := COALESCE(old -> 'revs', '{}');
BEGIN
    FOR f IN SELECT key AS name, r.value ->> 'rule' AS rule, old ->> key AS was, new ->> key AS told FROM jsonb_each(rules) AS r LOOP
        CONTINUE WHEN f.told IS NULL;
        old_rev := (old -> 'revs' ->> f.name)::bigint;
        new_rev := (new -> 'revs' ->> f.name)::bigint;
        takes := CASE f.rule
            WHEN 'least' THEN f.was IS NULL OR f.told COLLATE "C" < f.was COLLATE "C"
            WHEN 'greatest' THEN f.was IS NULL OR f.told COLLATE "C" > f.was COLLATE "C"
            WHEN 'forward' THEN actlog.takes_state(f.was, old_rev, f.told, new_rev)
            ELSE actlog.takes(f.was, old_rev, f.told, new_rev)
        END;
        IF takes THEN
            merged := merged || jsonb_build_object(f.name, f.told);
            IF new_rev IS NOT NULL THEN
                revs := revs || jsonb_build_object(f.name, new_rev);
            END IF;
        END IF;
    END LOOP;
    IF revs <> '{}' THEN
        merged := merged || jsonb_build_object('revs', revs);
    END IF;
    RETURN merged;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.merge_attempt(jsonb, jsonb, jsonb) IS
    'Merges what is told of an attempt into what is on record of it, by the rules of the fields.';

-- +goose StatementBegin
CREATE FUNCTION actlog.merge_attempts(past jsonb, own jsonb, told_past jsonb, told_own jsonb, rules jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    latest integer := GREATEST(COALESCE((own ->> 'attempt')::integer, 1), COALESCE((told_own ->> 'attempt')::integer, 1));
BEGIN
    RETURN (
        SELECT jsonb_agg(kept.entry ORDER BY kept.attempt)
        FROM (
            SELECT
                attempt,
                CASE
                    WHEN old.entry IS NULL THEN new.entry
                    WHEN new.entry IS NULL THEN old.entry
                    ELSE actlog.merge_attempt(old.entry, new.entry, rules)
                END AS entry
            FROM (
                SELECT (e.entry ->> 'attempt')::integer AS attempt, e.entry
                FROM (SELECT jsonb_array_elements(past) UNION ALL SELECT actlog.own_attempt(own, rules)) AS e (entry)
                WHERE (e.entry ->> 'attempt')::integer < latest
            ) AS old
            FULL JOIN (
                SELECT (e.entry ->> 'attempt')::integer AS attempt, e.entry
                FROM (SELECT jsonb_array_elements(told_past) UNION ALL SELECT actlog.own_attempt(told_own, rules)) AS e (entry)
                WHERE (e.entry ->> 'attempt')::integer < latest
            ) AS new USING (attempt)
            ORDER BY attempt DESC
            LIMIT 1000
        ) AS kept
    );
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.merge_attempts(jsonb, jsonb, jsonb, jsonb, jsonb) IS
    'The earlier attempts of a row after a merge: those on record and those that are told, and the own attempt of either if the other is at a later one. The 1,000 with the highest numbers are kept; null: none.';

-- The place of a step or a call in its tree follows from its first start, so that another attempt does not move it.
-- +goose StatementBegin
CREATE FUNCTION actlog.first_start(attempts jsonb) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT min((e ->> 'startTime') COLLATE "C")::timestamptz FROM jsonb_array_elements(attempts) AS e
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.first_start(jsonb) IS
    'When the first of the earlier attempts at a step or a tool call began; null: not reported.';

-- Errors that a write raises itself. ------------------------------------------------------

-- They are volatile; otherwise Postgres would call them while it plans the statement.

-- +goose StatementBegin
CREATE FUNCTION actlog.stale_guess(reason text) RETURNS date LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'actlog: %; the write is repeated without assuming it', reason
        USING ERRCODE = 'YA001', HINT = 'This costs one more round trip and is no error of the client.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.stale_guess(text) IS
    'Fails with SQLSTATE YA001: a server remembered where a plan or a cycle is on record, and it is not there any more. The server repeats the write.';

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

-- Plans. ----------------------------------------------------------------------------------

-- Postgres reads generated columns and checks again for each statement that writes, two or three times for a
-- partition. In a statement that writes little, that is a sixth of the time. So they are short: each list is one
-- constant, numbers have the type of their column, and no SQL function is called, because Postgres would inline it
-- each time.

CREATE TABLE actlog.plan_execution_record (
    id                   bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id         text COLLATE "C" NOT NULL,
    current_plan_id      text COLLATE "C" NOT NULL,
    part                 date NOT NULL,
    first_seen_at        timestamptz NOT NULL DEFAULT now(),
    parent_plan_id       text COLLATE "C",
    tool_call_id         text COLLATE "C",
    parent_step_id       text COLLATE "C",
    executor             text,
    name                 text,
    title                text,
    user_request         text,
    project              text,
    user_id              text COLLATE "C",
    tags                 text[] COLLATE "C",
    environment          text,
    release              text,
    conversation_id      text COLLATE "C",
    trace_id             text COLLATE "C",
    told_state           text,
    state                text NOT NULL GENERATED ALWAYS AS (COALESCE(told_state, 'PENDING')) STORED,
    status               text NOT NULL GENERATED ALWAYS AS (CASE WHEN told_state = ANY ('{RUNNING,WAITING,PAUSED,AWAITING_APPROVAL}') THEN 'RUNNING' WHEN told_state <> ALL ('{PENDING,IDLE}') THEN 'FINISHED' ELSE 'IDLE' END) STORED,
    completed            boolean NOT NULL GENERATED ALWAYS AS (COALESCE(told_state <> ALL ('{PENDING,IDLE,RUNNING,WAITING,PAUSED,AWAITING_APPROVAL}'), false)) STORED,
    start_time           timestamptz,
    end_time             timestamptz,
    summary              text,
    model_name           text,
    error_message        text,
    error_kind           text,
    exception            text,
    exception_at         timestamptz,
    exception_served_at  timestamptz,
    metadata             json,
    origin               text DEFAULT 'native',
    truncated            text[] COLLATE "C",
    revs                 bigint[],
    last_seen_at         timestamptz,
    beat_at              timestamptz,
    started_by           json,
    PRIMARY KEY (root_plan_id, current_plan_id),
    CONSTRAINT plan_state CHECK (told_state = ANY ('{PENDING,RUNNING,WAITING,PAUSED,COMPLETED,FAILED,CANCELLED,SKIPPED,BLOCKED,INTERRUPTED,UNKNOWN}')),
    CONSTRAINT plan_origin CHECK (origin = ANY ('{native,otlp}')),
    -- A sub-plan that is written while its tree is deleted must not outlive the tree.
    CONSTRAINT plan_root FOREIGN KEY (root_plan_id, root_plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id)
);
CREATE INDEX plan_root_seen ON actlog.plan_execution_record (first_seen_at DESC, root_plan_id DESC) WHERE root_plan_id = current_plan_id;
CREATE INDEX plan_trace ON actlog.plan_execution_record (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX plan_conversation ON actlog.plan_execution_record (conversation_id) WHERE conversation_id IS NOT NULL;
-- Heartbeats change no column of these indexes, so they stay heap-only updates, which are cheap.
CREATE INDEX plan_live ON actlog.plan_execution_record (root_plan_id, part) WHERE NOT completed;
CREATE INDEX plan_sub ON actlog.plan_execution_record (part, root_plan_id, current_plan_id) WHERE tool_call_id IS NOT NULL;
-- With the whole key: a lookup must not read the plans of other trees that have the same id. While there are no
-- statistics, Postgres may take this index instead of the primary key, also for the checks of foreign keys.
CREATE INDEX plan_current ON actlog.plan_execution_record (current_plan_id, root_plan_id);
-- The order of the list. Beside search_text_pkey, a scan of it finds runs that the index of the search does not know.
CREATE INDEX plan_root_began ON actlog.plan_execution_record ((COALESCE(start_time, first_seen_at)), root_plan_id)
    INCLUDE (start_time, first_seen_at) WHERE root_plan_id = current_plan_id;
CREATE INDEX plan_started_by ON actlog.plan_execution_record ((started_by ->> 'planId'), (COALESCE(start_time, first_seen_at)), root_plan_id)
    WHERE started_by IS NOT NULL;
-- What failed or was stopped, for actlog.cause_rows.
CREATE INDEX plan_bad_root ON actlog.plan_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');

COMMENT ON TABLE actlog.plan_execution_record IS 'One run of anything: a root plan, or a sub-plan that a tool call started.';
COMMENT ON COLUMN actlog.plan_execution_record.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.plan_execution_record.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN actlog.plan_execution_record.current_plan_id IS 'The plan''s own id.';
COMMENT ON COLUMN actlog.plan_execution_record.part IS 'First UTC day of the period in which the root plan was first seen. It selects the partition of all cycles and tool calls of the tree.';
COMMENT ON COLUMN actlog.plan_execution_record.first_seen_at IS 'When a server first received a record of the plan.';
COMMENT ON COLUMN actlog.plan_execution_record.parent_plan_id IS 'The plan whose tool call started this one; null for a root plan.';
COMMENT ON COLUMN actlog.plan_execution_record.tool_call_id IS 'The tool call that started this plan; null for a root plan. Several sub-plans may share one.';
COMMENT ON COLUMN actlog.plan_execution_record.parent_step_id IS 'The step under which the plan stands. It is set when the row of the tool call is dropped; else null.';
COMMENT ON COLUMN actlog.plan_execution_record.executor IS 'What kind of executor ran the plan.';
COMMENT ON COLUMN actlog.plan_execution_record.name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN actlog.plan_execution_record.title IS 'The title of this run.';
COMMENT ON COLUMN actlog.plan_execution_record.user_request IS 'What the user asked for, in the user''s words.';
COMMENT ON COLUMN actlog.plan_execution_record.project IS 'The project; null: the project of the root plan, else default.';
COMMENT ON COLUMN actlog.plan_execution_record.user_id IS 'The user who asked.';
COMMENT ON COLUMN actlog.plan_execution_record.tags IS 'Free labels.';
COMMENT ON COLUMN actlog.plan_execution_record.environment IS 'Where it ran: production, staging, ...';
COMMENT ON COLUMN actlog.plan_execution_record.release IS 'Which release of the agent program ran it.';
COMMENT ON COLUMN actlog.plan_execution_record.conversation_id IS 'The conversation that the run belongs to.';
COMMENT ON COLUMN actlog.plan_execution_record.trace_id IS 'The trace of the run, 32 hex digits.';
COMMENT ON COLUMN actlog.plan_execution_record.told_state IS 'The reported state; null until one is reported. Read state instead.';
COMMENT ON COLUMN actlog.plan_execution_record.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN actlog.plan_execution_record.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN actlog.plan_execution_record.completed IS 'Whether the state is terminal, successful or not.';
COMMENT ON COLUMN actlog.plan_execution_record.start_time IS 'When the run began: the earliest start that was reported.';
COMMENT ON COLUMN actlog.plan_execution_record.end_time IS 'When the run ended: the latest end that was reported.';
COMMENT ON COLUMN actlog.plan_execution_record.summary IS 'The outcome of the run.';
COMMENT ON COLUMN actlog.plan_execution_record.model_name IS 'The model of the run, if it has one.';
COMMENT ON COLUMN actlog.plan_execution_record.error_message IS 'What went wrong.';
COMMENT ON COLUMN actlog.plan_execution_record.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN actlog.plan_execution_record.exception IS 'A failure that is returned to one reader, once.';
COMMENT ON COLUMN actlog.plan_execution_record.exception_at IS 'When the exception was recorded, by the clock of the database.';
COMMENT ON COLUMN actlog.plan_execution_record.exception_served_at IS 'When the exception was returned to a reader; null: not yet.';
COMMENT ON COLUMN actlog.plan_execution_record.metadata IS 'Other data of the client, as JSON.';
COMMENT ON COLUMN actlog.plan_execution_record.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.plan_execution_record.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.plan_execution_record.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision. On a row of origin otlp, null means that only traces have written to it.';
COMMENT ON COLUMN actlog.plan_execution_record.last_seen_at IS 'Latest heartbeat of the process that runs the plan, by the clock of that process; null: it sends none.';
COMMENT ON COLUMN actlog.plan_execution_record.beat_at IS 'When last_seen_at last advanced, by the clock of the database. If this is too old, the run counts as dead.';
COMMENT ON COLUMN actlog.plan_execution_record.started_by IS 'The plan and the tool call that are said to have started this root plan: planId and toolCallId. A claim of the writer.';

-- +goose StatementBegin
CREATE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL AND p.started_by IS NULL
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.is_placeholder(actlog.plan_execution_record) IS
    'Whether nothing but the id of a plan was ever recorded: other records named it.';

-- Agent executions. -----------------------------------------------------------------------

-- A step is written again whenever something happens in it, because it has the roll-ups. Half of each new page is
-- left free, so that the next version of a step stays on its page: Postgres then writes no index, and logs only what
-- differs.
CREATE TABLE actlog.agent_execution_record (
    id                           bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id                 text COLLATE "C" NOT NULL,
    step_id                      text COLLATE "C" NOT NULL,
    part                         date NOT NULL,
    plan_id                      text COLLATE "C",
    shown_plan_id                text COLLATE "C" NOT NULL GENERATED ALWAYS AS (COALESCE(plan_id, root_plan_id)) STORED,
    step_index                   integer,
    conversation_id              text COLLATE "C",
    agent_name                   text,
    agent_version                text,
    agent_description            text,
    agent_request                text,
    max_steps                    integer,
    current_step                 integer,
    attempt                      integer,
    told_state                   text,
    state                        text NOT NULL GENERATED ALWAYS AS (COALESCE(told_state, 'IDLE')) STORED,
    status                       text NOT NULL GENERATED ALWAYS AS (CASE WHEN told_state = ANY ('{RUNNING,WAITING,PAUSED,AWAITING_APPROVAL}') THEN 'RUNNING' WHEN told_state <> ALL ('{PENDING,IDLE}') THEN 'FINISHED' ELSE 'IDLE' END) STORED,
    start_time                   timestamptz,
    end_time                     timestamptz,
    result                       text,
    error_message                text,
    error_kind                   text,
    model_name                   text,
    span_id                      text COLLATE "C",
    metadata                     json,
    cycles                       integer,
    completed_cycles             integer,
    model_calls                  integer,
    tool_calls                   integer,
    failures                     integer,
    input_tokens                 bigint,
    output_tokens                bigint,
    cache_read_input_tokens      bigint,
    cache_creation_input_tokens  bigint,
    reasoning_tokens             bigint,
    cost_usd                     numeric,
    think_ms                     bigint,
    tool_ms                      bigint,
    latest_round                 integer,
    latest_tool_name             text,
    latest_tool_args             text,
    last_seen_at                 timestamptz,
    origin                       text DEFAULT 'native',
    truncated                    text[] COLLATE "C",
    revs                         bigint[],
    attempts                     jsonb,
    first_seen_at                timestamptz DEFAULT now(),
    PRIMARY KEY (root_plan_id, step_id),
    FOREIGN KEY (root_plan_id, shown_plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id),
    CONSTRAINT agent_state CHECK (told_state = ANY ('{IDLE,PENDING,RUNNING,WAITING,PAUSED,COMPLETED,FAILED,CANCELLED,SKIPPED,BLOCKED,INTERRUPTED,UNKNOWN}')),
    CONSTRAINT agent_step_index CHECK (step_index >= 0),
    CONSTRAINT agent_attempt CHECK (attempt >= 1),
    CONSTRAINT agent_origin CHECK (origin = ANY ('{native,otlp}'))
) WITH (fillfactor = 50);
-- There is no index by plan. Without statistics the planner would use it instead of the primary key, and read every
-- step of the tree to find one.
CREATE INDEX agent_step ON actlog.agent_execution_record (step_id, root_plan_id);
CREATE INDEX agent_bad_root ON actlog.agent_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');

COMMENT ON TABLE actlog.agent_execution_record IS 'A step: one agent at work on one step of a plan. It has the roll-ups of its cycles and tool calls.';
COMMENT ON COLUMN actlog.agent_execution_record.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.agent_execution_record.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.agent_execution_record.step_id IS 'The step''s own id.';
COMMENT ON COLUMN actlog.agent_execution_record.part IS 'Selects the partition of all cycles and tool calls of the tree; the same as on the root plan.';
COMMENT ON COLUMN actlog.agent_execution_record.plan_id IS 'The plan that the step belongs to; null until it is reported.';
COMMENT ON COLUMN actlog.agent_execution_record.shown_plan_id IS 'The plan under which the step stands: plan_id, or the root plan while plan_id is null.';
COMMENT ON COLUMN actlog.agent_execution_record.step_index IS 'Position of the step in its plan, from 0.';
COMMENT ON COLUMN actlog.agent_execution_record.conversation_id IS 'The conversation that the step belongs to.';
COMMENT ON COLUMN actlog.agent_execution_record.agent_name IS 'The agent.';
COMMENT ON COLUMN actlog.agent_execution_record.agent_version IS 'The version of the agent.';
COMMENT ON COLUMN actlog.agent_execution_record.agent_description IS 'What the agent is for.';
COMMENT ON COLUMN actlog.agent_execution_record.agent_request IS 'What the agent was asked to do.';
COMMENT ON COLUMN actlog.agent_execution_record.max_steps IS 'How many cycles the agent may take.';
COMMENT ON COLUMN actlog.agent_execution_record.current_step IS 'How many cycles the agent has taken, as reported by the agent.';
COMMENT ON COLUMN actlog.agent_execution_record.attempt IS 'Which attempt at the step this is, from 1; null: the first.';
COMMENT ON COLUMN actlog.agent_execution_record.told_state IS 'The reported state; null until one is reported. Read state instead.';
COMMENT ON COLUMN actlog.agent_execution_record.state IS 'What truly happened: IDLE, PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN actlog.agent_execution_record.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN actlog.agent_execution_record.start_time IS 'When the current attempt began: the earliest start that was reported.';
COMMENT ON COLUMN actlog.agent_execution_record.end_time IS 'When the current attempt ended: the latest end that was reported.';
COMMENT ON COLUMN actlog.agent_execution_record.result IS 'What the agent answered.';
COMMENT ON COLUMN actlog.agent_execution_record.error_message IS 'What went wrong in the current attempt.';
COMMENT ON COLUMN actlog.agent_execution_record.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN actlog.agent_execution_record.model_name IS 'The model of the agent, if it has one.';
COMMENT ON COLUMN actlog.agent_execution_record.span_id IS 'The span of the step in its trace.';
COMMENT ON COLUMN actlog.agent_execution_record.metadata IS 'Other data of the client, as JSON.';
COMMENT ON COLUMN actlog.agent_execution_record.cycles IS 'Roll-up: think-act cycles; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.completed_cycles IS 'Roll-up: cycles in a terminal state; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.model_calls IS 'Roll-up: cycles whose model call is known; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.tool_calls IS 'Roll-up: tool calls; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.failures IS 'Roll-up: failed cycles and failed tool calls; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.input_tokens IS 'Roll-up: input tokens, cached ones included; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.output_tokens IS 'Roll-up: output tokens; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.cache_read_input_tokens IS 'Roll-up: input tokens read from a cache; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.cache_creation_input_tokens IS 'Roll-up: input tokens written to a cache; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.reasoning_tokens IS 'Roll-up: output tokens spent on reasoning; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.cost_usd IS 'Roll-up: cost in US dollars; null if the cost of no cycle is known.';
COMMENT ON COLUMN actlog.agent_execution_record.think_ms IS 'Roll-up: milliseconds spent thinking; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.tool_ms IS 'Roll-up: milliseconds spent in tool calls; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.latest_round IS 'Roll-up: seq + 1 of the last cycle; null is 0.';
COMMENT ON COLUMN actlog.agent_execution_record.latest_tool_name IS 'Roll-up: the tool of the last call, in the last cycle that has calls.';
COMMENT ON COLUMN actlog.agent_execution_record.latest_tool_args IS 'Roll-up: the arguments of that call, cut to 1,000 characters.';
COMMENT ON COLUMN actlog.agent_execution_record.last_seen_at IS 'Roll-up: the latest time that was reported for the current attempts of the cycles and tool calls of the step.';
COMMENT ON COLUMN actlog.agent_execution_record.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.agent_execution_record.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.agent_execution_record.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision. On a row of origin otlp, null means that only traces have written to it.';
COMMENT ON COLUMN actlog.agent_execution_record.attempts IS 'The attempts before the current one, in their order: number, state, times, error and their revisions; null: none.';
COMMENT ON COLUMN actlog.agent_execution_record.first_seen_at IS 'When a server first received a record of the step; null if that was before this column existed.';

-- The cost of model calls. ----------------------------------------------------------------

CREATE TABLE actlog.model_price (
    provider            text COLLATE "C" NOT NULL,
    model               text COLLATE "C" NOT NULL,
    from_day            date NOT NULL,
    input_usd           double precision NOT NULL,
    output_usd          double precision NOT NULL,
    cache_read_usd      double precision,
    cache_write_usd     double precision,
    source              text,
    seen                date,
    cache_write_1h_usd  double precision,
    tiers               json,
    list_date           date,
    PRIMARY KEY (provider, model, from_day),
    CONSTRAINT model_price_amounts CHECK (LEAST(input_usd, output_usd, cache_read_usd, cache_write_usd) >= 0
        AND GREATEST(input_usd, output_usd, cache_read_usd, cache_write_usd) <= 1e6),
    CONSTRAINT model_price_1h CHECK (cache_write_1h_usd BETWEEN 0 AND 1e6)
);

COMMENT ON TABLE actlog.model_price IS 'What models cost, in US dollars per million tokens, by day. Change it with actlog price set or import; servers follow within a minute.';
COMMENT ON COLUMN actlog.model_price.provider IS 'The provider of the model, as cycles name it; empty: any provider.';
COMMENT ON COLUMN actlog.model_price.model IS 'The name of the model in lower case. In prices of your own, * stands for any characters.';
COMMENT ON COLUMN actlog.model_price.from_day IS 'First UTC day of this price. It holds until the next price of the same model.';
COMMENT ON COLUMN actlog.model_price.input_usd IS 'US dollars per million input tokens without a cache.';
COMMENT ON COLUMN actlog.model_price.output_usd IS 'US dollars per million output tokens, reasoning included.';
COMMENT ON COLUMN actlog.model_price.cache_read_usd IS 'US dollars per million input tokens read from a cache; null: the price of input.';
COMMENT ON COLUMN actlog.model_price.cache_write_usd IS 'US dollars per million input tokens written to a cache; null: the price of input.';
COMMENT ON COLUMN actlog.model_price.source IS 'Where the price is published.';
COMMENT ON COLUMN actlog.model_price.seen IS 'When the price was seen there; null: a price of your own, which counts before those of the list.';
COMMENT ON COLUMN actlog.model_price.cache_write_1h_usd IS 'US dollars per million input tokens written to a cache for an hour; null: twice the price of input.';
COMMENT ON COLUMN actlog.model_price.tiers IS 'The prices of longer prompts: a list of objects with above, the number of input tokens above which they hold, and input, output, cacheRead, cacheWrite and cacheWrite1h; null: none.';
COMMENT ON COLUMN actlog.model_price.list_date IS 'The date of the price list that has the price; null: a price of your own.';

-- The price list: public list prices, one name per model, without its date, its vendor and where it runs. The comment
-- on report.model_price says what they leave out.
INSERT INTO actlog.model_price (provider, model, from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen, list_date) VALUES
    ('alibaba', 'qwen-max', '2025-09-12', 1.6, 6.4, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-07-24', '2026-11-11'),
    ('alibaba', 'qwen3-max', '2025-09-23', 1.2, 6, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-07-02', '2026-11-11'),
    ('alibaba', 'qwen3.5-plus', '2026-02-16', 0.4, 2.4, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-07-02', '2026-11-11'),
    ('alibaba', 'qwen3.6-plus', '2026-04-02', 0.5, 3, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-08-05', '2026-11-11'),
    ('alibaba', 'qwen3.8-max', '2026-08-03', 2, 6, NULL, NULL, 'https://www.alibabacloud.com/help/en/model-studio/models', '2026-08-03', '2026-11-11'),
    ('anthropic', 'claude-3-5-haiku', '2024-12-03', 0.8, 4, 0.08, 1, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-3-5-sonnet', '2024-06-20', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-3-7-sonnet', '2025-02-24', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-3-haiku', '2024-03-13', 0.25, 1.25, 0.03, 0.3, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-3-opus', '2024-03-04', 15, 75, 1.5, 18.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-02-17', '2026-11-11'),
    ('anthropic', 'claude-fable-5', '2026-06-09', 10, 50, 1, 12.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-fable-5-1', '2026-09-01', 10, 50, 0.25, 12.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24', '2026-11-11'),
    ('anthropic', 'claude-haiku-4-5', '2025-10-15', 1, 5, 0.1, 1.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-haiku-5-5', '2026-10-07', 0.1, 0.5, 0.01, 0.125, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24', '2026-11-11'),
    ('anthropic', 'claude-opus-4', '2025-05-22', 15, 75, 1.5, 18.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-opus-4-1', '2025-08-05', 15, 75, 1.5, 18.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-opus-4-5', '2025-11-24', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-opus-4-6', '2026-02-05', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-opus-4-7', '2026-04-16', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-opus-4-8', '2026-05-28', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-opus-5', '2026-07-24', 5, 25, 0.5, 6.25, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24', '2026-11-11'),
    ('anthropic', 'claude-opus-5-5', '2026-09-22', 4, 20, 0.2, 5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4', '2025-05-22', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4', '2026-05-01', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4-5', '2025-09-29', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4-5', '2026-05-01', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-sonnet-4-6', '2026-02-17', 3, 15, 0.3, 3.75, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-08-21', '2026-11-11'),
    ('anthropic', 'claude-sonnet-5', '2026-06-30', 2, 10, 0.2, 2.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24', '2026-11-11'),
    ('anthropic', 'claude-sonnet-5-5', '2026-09-28', 2, 10, 0.2, 2.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-01', '2026-11-11'),
    ('anthropic', 'claude-sonnet-5-5', '2026-10-07', 2, 10, 0.1, 2.5, 'https://platform.claude.com/docs/en/about-claude/pricing', '2026-10-24', '2026-11-11'),
    ('cohere', 'command-a-03-2025', '2025-03-13', 2.5, 10, NULL, NULL, 'https://cohere.com/pricing', '2026-08-21', '2026-11-11'),
    ('cohere', 'command-r-08-2024', '2024-08-30', 0.15, 0.6, NULL, NULL, 'https://cohere.com/pricing', '2026-11-11', '2026-11-11'),
    ('cohere', 'command-r7b-12-2024', '2024-12-13', 0.0375, 0.15, NULL, NULL, 'https://cohere.com/pricing', '2026-08-21', '2026-11-11'),
    ('deepseek', 'deepseek-chat', '2024-05-06', 0.14, 0.28, 0.014, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2025-01-13', '2026-11-11'),
    ('deepseek', 'deepseek-chat', '2025-02-08', 0.27, 1.1, 0.07, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2025-09-01', '2026-11-11'),
    ('deepseek', 'deepseek-chat', '2025-09-29', 0.28, 0.42, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-01-13', '2026-11-11'),
    ('deepseek', 'deepseek-chat', '2026-04-24', 0.14, 0.28, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23', '2026-11-11'),
    ('deepseek', 'deepseek-chat', '2026-05-12', 0.14, 0.28, 0.0028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-07-02', '2026-11-11'),
    ('deepseek', 'deepseek-flash', '2026-09-10', 0.15, 0.6, 0.003, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-10-27', '2026-11-11'),
    ('deepseek', 'deepseek-reasoner', '2025-01-20', 0.55, 2.19, 0.14, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2025-08-23', '2026-11-11'),
    ('deepseek', 'deepseek-reasoner', '2025-09-29', 0.28, 0.42, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-01-13', '2026-11-11'),
    ('deepseek', 'deepseek-reasoner', '2026-04-24', 0.14, 0.28, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23', '2026-11-11'),
    ('deepseek', 'deepseek-reasoner', '2026-05-12', 0.14, 0.28, 0.0028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-07-02', '2026-11-11'),
    ('deepseek', 'deepseek-v4-flash', '2026-04-24', 0.14, 0.28, 0.028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23', '2026-11-11'),
    ('deepseek', 'deepseek-v4-flash', '2026-05-12', 0.14, 0.28, 0.0028, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-08-13', '2026-11-11'),
    ('deepseek', 'deepseek-v4-flash', '2026-08-17', 0.22, 0.66, 0.007, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-08-15', '2026-11-11'),
    ('deepseek', 'deepseek-v4-flash', '2026-09-10', 0.15, 0.6, 0.003, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-10-27', '2026-11-11'),
    ('deepseek', 'deepseek-v4-pro', '2026-04-24', 1.74, 3.48, 0.145, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-05-23', '2026-11-11'),
    ('deepseek', 'deepseek-v4-pro', '2026-05-22', 0.435, 0.87, 0.003625, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-08-13', '2026-11-11'),
    ('deepseek', 'deepseek-v4-pro', '2026-08-17', 0.66, 1.98, 0.022, NULL, 'https://api-docs.deepseek.com/quick_start/pricing', '2026-10-27', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.0-flash', '2025-02-05', 0.1, 0.4, 0.025, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.0-flash-lite', '2025-02-25', 0.075, 0.3, NULL, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.5-flash', '2025-06-17', 0.3, 2.5, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-07-05', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.5-flash', '2025-11-07', 0.3, 2.5, 0.03, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.5-flash-lite', '2025-07-22', 0.1, 0.4, 0.025, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-07-24', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.5-flash-lite', '2025-11-07', 0.1, 0.4, 0.01, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.5-pro', '2025-06-17', 1.25, 10, 0.31, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2025-07-05', '2026-11-11'),
    ('gcp.gemini', 'gemini-2.5-pro', '2025-11-07', 1.25, 10, 0.125, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3-flash-preview', '2025-12-17', 0.5, 3, 0.05, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3-pro-preview', '2025-11-18', 2, 12, 0.2, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.1-flash-lite', '2026-05-07', 0.25, 1.5, 0.025, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.1-pro-preview', '2026-02-19', 2, 12, 0.2, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.5-flash', '2026-05-19', 1.5, 9, 0.15, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.5-flash-lite', '2026-07-21', 0.3, 2.5, 0.03, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.6-flash', '2026-07-21', 1.5, 7.5, 0.15, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-05', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.6-flash', '2026-08-13', 0.75, 3.75, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.7-flash', '2026-08-13', 0.75, 3.75, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('gcp.gemini', 'gemini-3.8-flash', '2026-09-02', 0.75, 3.75, 0.075, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-10-07', '2026-11-11'),
    ('gcp.gemini', 'gemini-4-argon', '2026-09-30', 2, 10, 0.1, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-11-11', '2026-11-11'),
    ('gcp.gemini', 'gemini-4-argon', '2026-12-01', 4, 20, 0.2, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-10-13', '2026-11-11'),
    ('gcp.gemini', 'gemini-4-carbon', '2026-11-10', 2, 10, 0.1, NULL, 'https://ai.google.dev/gemini-api/docs/pricing', '2026-11-11', '2026-11-11'),
    ('groq', 'gpt-oss-120b', '2025-08-05', 0.15, 0.75, NULL, NULL, 'https://groq.com/pricing/', '2025-09-01', '2026-11-11'),
    ('groq', 'gpt-oss-120b', '2025-11-11', 0.15, 0.6, 0.075, NULL, 'https://groq.com/pricing/', '2026-08-21', '2026-11-11'),
    ('groq', 'gpt-oss-20b', '2025-08-05', 0.1, 0.5, NULL, NULL, 'https://groq.com/pricing/', '2025-09-01', '2026-11-11'),
    ('groq', 'gpt-oss-20b', '2025-11-11', 0.075, 0.3, 0.0375, NULL, 'https://groq.com/pricing/', '2026-08-21', '2026-11-11'),
    ('groq', 'llama-3.1-8b-instant', '2024-07-23', 0.05, 0.08, NULL, NULL, 'https://groq.com/pricing/', '2026-08-21', '2026-11-11'),
    ('groq', 'llama-3.3-70b-versatile', '2024-12-06', 0.59, 0.79, NULL, NULL, 'https://groq.com/pricing/', '2026-08-21', '2026-11-11'),
    ('mistral_ai', 'codestral-2508', '2025-07-30', 0.3, 0.9, 0.03, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21', '2026-11-11'),
    ('mistral_ai', 'devstral-2512', '2026-01-29', 0.4, 2, 0.04, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21', '2026-11-11'),
    ('mistral_ai', 'mistral-large-2512', '2025-12-02', 0.5, 1.5, 0.05, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21', '2026-11-11'),
    ('mistral_ai', 'mistral-large-latest', '2024-11-18', 2, 6, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2025-09-01', '2026-11-11'),
    ('mistral_ai', 'mistral-large-latest', '2025-12-02', 0.5, 1.5, 0.05, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-02', '2026-11-11'),
    ('mistral_ai', 'mistral-medium-2505', '2025-05-07', 0.4, 2, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21', '2026-11-11'),
    ('mistral_ai', 'mistral-medium-2604', '2026-04-29', 1.5, 7.5, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-02', '2026-11-11'),
    ('mistral_ai', 'mistral-medium-latest', '2025-05-07', 0.4, 2, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2025-09-01', '2026-11-11'),
    ('mistral_ai', 'mistral-medium-latest', '2026-05-22', 1.5, 7.5, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-01', '2026-11-11'),
    ('mistral_ai', 'mistral-small-2603', '2026-03-16', 0.15, 0.6, 0.015, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-08-21', '2026-11-11'),
    ('mistral_ai', 'mistral-small-latest', '2025-01-30', 0.1, 0.3, NULL, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-02-21', '2026-11-11'),
    ('mistral_ai', 'mistral-small-latest', '2026-03-16', 0.15, 0.6, 0.015, NULL, 'https://mistral.ai/pricing#api-pricing', '2026-07-02', '2026-11-11'),
    ('moonshot', 'kimi-k2-0905-preview', '2025-09-05', 0.6, 2.5, 0.15, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21', '2026-11-11'),
    ('moonshot', 'kimi-k2-thinking', '2025-11-06', 0.6, 2.5, 0.15, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21', '2026-11-11'),
    ('moonshot', 'kimi-k2.5', '2026-01-27', 0.6, 3, 0.1, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21', '2026-11-11'),
    ('moonshot', 'kimi-k2.6', '2026-04-21', 0.95, 4, 0.16, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21', '2026-11-11'),
    ('moonshot', 'kimi-k2.7-code', '2026-06-12', 0.95, 4, 0.19, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21', '2026-11-11'),
    ('moonshot', 'kimi-k3', '2026-07-16', 3, 15, 0.3, NULL, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-08-21', '2026-11-11'),
    ('moonshot', 'kimi-k3.1-pro', '2026-10-23', 2, 10, 0.2, 2, 'https://platform.moonshot.ai/docs/pricing/chat', '2026-10-25', '2026-11-11'),
    ('openai', 'ft:gpt-3.5-turbo', '2023-08-22', 3, 6, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4.1', '2025-04-14', 3, 12, 0.75, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4.1-mini', '2025-04-14', 0.8, 3.2, 0.2, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4.1-nano', '2025-04-14', 0.2, 0.8, 0.05, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4o', '2024-08-20', 3.75, 15, 1.875, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:gpt-4o-mini', '2024-07-23', 0.3, 1.2, 0.15, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'ft:o4-mini', '2025-05-08', 4, 16, 1, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'gpt-3.5-turbo', '2024-02-16', 0.5, 1.5, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-3.5-turbo-0125', '2024-01-25', 0.5, 1.5, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-4.1', '2025-04-14', 2, 8, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-4.1-mini', '2025-04-14', 0.4, 1.6, 0.1, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-4.1-nano', '2025-04-14', 0.1, 0.4, 0.025, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'gpt-4o', '2024-05-13', 5, 15, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2024-05-14', '2026-11-11'),
    ('openai', 'gpt-4o', '2024-10-02', 2.5, 10, 1.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-4o-2024-05-13', '2024-05-13', 5, 15, NULL, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-07-24', '2026-11-11'),
    ('openai', 'gpt-4o-2024-08-06', '2024-08-06', 2.5, 10, 1.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-4o-mini', '2024-07-18', 0.15, 0.6, 0.075, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5', '2025-08-07', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5-codex', '2025-09-23', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5-mini', '2025-08-07', 0.25, 2, 0.025, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5-nano', '2025-08-07', 0.05, 0.4, 0.005, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.1', '2025-11-13', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.1-codex', '2025-11-13', 1.25, 10, 0.125, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.2', '2025-12-11', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.2-codex', '2026-01-14', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.3-codex', '2026-02-24', 1.75, 14, 0.175, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.4', '2026-03-05', 2.5, 15, 0.25, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.4-mini', '2026-03-17', 0.75, 4.5, 0.075, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.5', '2026-04-23', 5, 30, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.6-luna', '2026-07-09', 1, 6, 0.1, 1.25, 'https://developers.openai.com/api/docs/pricing', '2026-07-24', '2026-11-11'),
    ('openai', 'gpt-5.6-luna', '2026-07-30', 0.2, 1.2, 0.02, 0.25, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-5.6-sol', '2026-07-09', 5, 30, 0.5, 6.25, 'https://developers.openai.com/api/docs/pricing', '2026-08-05', '2026-11-11'),
    ('openai', 'gpt-5.6-sol', '2026-08-21', 4, 20, 0.4, 5, 'https://developers.openai.com/api/docs/pricing', '2026-09-24', '2026-11-11'),
    ('openai', 'gpt-5.6-terra', '2026-07-09', 2.5, 15, 0.25, 3.125, 'https://developers.openai.com/api/docs/pricing', '2026-07-24', '2026-11-11'),
    ('openai', 'gpt-5.6-terra', '2026-07-30', 2, 12, 0.2, 2.5, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'gpt-6-astra', '2026-09-03', 10, 50, 1, 12.5, 'https://developers.openai.com/api/docs/models/gpt-6-astra', '2026-09-07', '2026-11-11'),
    ('openai', 'gpt-6-luna', '2026-09-22', 0.1, 0.5, 0.01, 0.125, 'https://developers.openai.com/api/docs/models/gpt-6-luna', '2026-09-23', '2026-11-11'),
    ('openai', 'gpt-6-sol', '2026-09-22', 2, 10, 0.2, 2.5, 'https://developers.openai.com/api/docs/models/gpt-6-sol', '2026-09-23', '2026-11-11'),
    ('openai', 'gpt-6.1-sol', '2026-09-29', 2, 10, 0.1, 2.5, 'https://developers.openai.com/api/docs/models/gpt-6.1-sol', '2026-10-01', '2026-11-11'),
    ('openai', 'gpt-6.1-terra', '2026-10-26', 1, 5, 0.05, 1.25, 'https://developers.openai.com/api/docs/models/gpt-6.1-terra', '2026-10-27', '2026-11-11'),
    ('openai', 'o3', '2025-04-16', 10, 40, 2.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-05-07', '2026-11-11'),
    ('openai', 'o3', '2025-06-10', 2, 8, 0.5, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('openai', 'o3-mini', '2025-01-31', 1.1, 4.4, 0.55, NULL, 'https://developers.openai.com/api/docs/pricing', '2025-09-01', '2026-11-11'),
    ('openai', 'o4-mini', '2025-04-16', 1.1, 4.4, 0.275, NULL, 'https://developers.openai.com/api/docs/pricing', '2026-08-21', '2026-11-11'),
    ('perplexity', 'sonar', '2025-01-21', 1, 1, NULL, NULL, 'https://docs.perplexity.ai/guides/pricing', '2026-08-21', '2026-11-11'),
    ('perplexity', 'sonar-pro', '2025-01-21', 3, 15, NULL, NULL, 'https://docs.perplexity.ai/guides/pricing', '2026-08-21', '2026-11-11'),
    ('perplexity', 'sonar-reasoning-pro', '2025-05-08', 2, 8, NULL, NULL, 'https://docs.perplexity.ai/guides/pricing', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-3', '2025-04-09', 3, 15, 0.75, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-4', '2025-07-09', 3, 15, 0.75, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-4-0709', '2025-07-09', 3, 15, 0.75, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-4-1-fast-reasoning', '2025-11-19', 0.2, 0.5, 0.05, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-4-fast-reasoning', '2025-09-19', 0.2, 0.5, 0.05, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-4.3', '2026-05-01', 1.25, 2.5, 0.2, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11'),
    ('x_ai', 'grok-4.5', '2026-07-08', 2, 6, 0.5, NULL, 'https://docs.x.ai/docs/models', '2026-07-24', '2026-11-11'),
    ('x_ai', 'grok-4.5', '2026-08-05', 2, 6, 0.3, NULL, 'https://docs.x.ai/docs/models', '2026-08-19', '2026-11-11'),
    ('x_ai', 'grok-4.6', '2026-08-12', 2, 6, 0.5, NULL, 'https://docs.x.ai/docs/models', '2026-09-09', '2026-11-11'),
    ('x_ai', 'grok-4.7', '2026-09-21', 2, 6, 0.5, NULL, 'https://docs.x.ai/docs/models', '2026-09-29', '2026-11-11'),
    ('x_ai', 'grok-code-fast-1', '2025-08-28', 0.2, 1.5, 0.02, NULL, 'https://docs.x.ai/docs/models', '2026-08-21', '2026-11-11');
UPDATE actlog.model_price SET cache_write_1h_usd = 2 * input_usd WHERE provider = 'anthropic';
-- What longer prompts cost, by the factors of the providers: the price of input, of its cache, and of output.
UPDATE actlog.model_price AS p
SET tiers = json_build_array(json_strip_nulls(json_build_object(
    'above', t.above, 'input', p.input_usd * t.input, 'output', p.output_usd * t.output,
    'cacheRead', p.cache_read_usd * t.input, 'cacheWrite', p.cache_write_usd * t.input, 'cacheWrite1h', p.cache_write_1h_usd * t.input
)))
FROM (VALUES
    ('anthropic', '^claude-sonnet-4(-5)?$', 200000, 2, 1.5),
    ('gcp.gemini', '^gemini-2\.5-pro$|^gemini-3(\.1)?-pro-preview$', 200000, 2, 1.5),
    ('openai', '^gpt-5\.[45]$|^gpt-5\.6-|^gpt-6(\.1)?-', 272000, 2, 1.5),
    ('x_ai', '^grok-4(-0709)?$|^grok-4(-1)?-fast-reasoning$', 128000, 2, 2),
    ('x_ai', '^grok-4\.5$', 200000, 2, 2)
) AS t (provider, models, above, input, output)
WHERE p.provider = t.provider AND p.model ~ t.models
    AND (p.provider <> 'anthropic' OR p.from_day < '2026-05-01'); -- since then these models take no longer prompts

-- A cycle keeps the prices that held when its model was reported. Its cost is computed from them and its tokens, in
-- whatever order these arrive. A reported cost wins. The formula is a function because PL/pgSQL keeps it ready. As an
-- expression in the table, each statement that writes would read it again: an eighth of the time of a small one.
-- +goose StatementBegin
CREATE FUNCTION actlog.cost_usd(told numeric, input bigint, output bigint, cache_read bigint, cache_creation bigint,
    input_price double precision, output_price double precision, cache_read_price double precision, cache_write_price double precision)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF told IS NOT NULL THEN
        RETURN told;
    ELSIF COALESCE(input, output) IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN round((
        (  GREATEST(0, COALESCE(input, 0) - COALESCE(cache_read, 0) - COALESCE(cache_creation, 0)) * input_price
         + COALESCE(cache_read, 0) * cache_read_price
         + COALESCE(cache_creation, 0) * cache_write_price
         + COALESCE(output, 0) * output_price
        ) / 1000000)::numeric, 12);
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.cost_usd(numeric, bigint, bigint, bigint, bigint, double precision, double precision, double precision, double precision) IS
    'Cost of a model call in US dollars: as reported, else computed from its tokens and the prices per million tokens; null if neither is known. Input tokens include cached ones.';

-- A tariff has several prices of each kind, by the length of the prompt. Before the cost of a call is computed, those
-- of its tier are chosen. A call without a tariff does not come here.
-- +goose StatementBegin
CREATE FUNCTION actlog.price_call() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tier json;
    each json;
    written bigint := GREATEST(COALESCE(NEW.cache_creation_input_tokens, 0), 0);
    hour bigint := LEAST(COALESCE(NEW.cache_creation_1h_input_tokens, 0), written);
BEGIN
    FOR each IN SELECT e.value FROM json_array_elements(NEW.tariff) AS e LOOP -- the shortest prompts first
        EXIT WHEN tier IS NOT NULL AND COALESCE(NEW.input_tokens, 0) <= (each ->> 'above')::bigint;
        tier := each;
    END LOOP;
    NEW.input_price := (tier ->> 'input')::double precision;
    NEW.output_price := (tier ->> 'output')::double precision;
    NEW.cache_read_price := (tier ->> 'cacheRead')::double precision;
    NEW.cache_write_price := (tier ->> 'cacheWrite')::double precision;
    IF hour > 0 THEN
        NEW.cache_write_price := ((written - hour) * NEW.cache_write_price + hour * (tier ->> 'cacheWrite1h')::double precision) / written;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.price_call() IS 'Gives a model call the prices of its tier.';

-- Think-act cycles and tool calls. They hold nearly all bytes, so they are partitioned. ---

CREATE TABLE actlog.think_act_record (
    id                              bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id                    text COLLATE "C" NOT NULL,
    step_id                         text COLLATE "C" NOT NULL,
    seq                             integer NOT NULL,
    part                            date NOT NULL,
    think_start_time                timestamptz,
    think_end_time                  timestamptz,
    first_token_time                timestamptz,
    act_start_time                  timestamptz,
    act_end_time                    timestamptz,
    think_input                     text,
    think_output                    text,
    action_description              text,
    action_result                   text,
    told_state                      text,
    state                           text NOT NULL GENERATED ALWAYS AS (COALESCE(told_state, 'PENDING')) STORED,
    status                          text NOT NULL GENERATED ALWAYS AS (CASE WHEN told_state = ANY ('{RUNNING,WAITING,PAUSED,AWAITING_APPROVAL}') THEN 'RUNNING' WHEN told_state <> ALL ('{PENDING,IDLE}') THEN 'FINISHED' ELSE 'IDLE' END) STORED,
    finish_reason                   text,
    error_message                   text,
    error_kind                      text,
    told_input_char_count           bigint,
    told_output_char_count          bigint,
    think_input_chars               bigint,
    think_output_chars              bigint,
    input_char_count                bigint GENERATED ALWAYS AS (COALESCE(told_input_char_count, think_input_chars)) STORED,
    output_char_count               bigint GENERATED ALWAYS AS (COALESCE(told_output_char_count, think_output_chars)) STORED,
    provider                        text,
    model_name                      text,
    input_tokens                    bigint,
    output_tokens                   bigint,
    cache_read_input_tokens         bigint,
    cache_creation_input_tokens     bigint,
    reasoning_tokens                bigint,
    told_cost_usd                   numeric,
    attempt                         integer,
    span_id                         text COLLATE "C",
    metadata                        json,
    origin                          text DEFAULT 'native',
    truncated                       text[] COLLATE "C",
    revs                            bigint[],
    input_price                     double precision,
    output_price                    double precision,
    cache_read_price                double precision,
    cache_write_price               double precision,
    cost_usd                        numeric GENERATED ALWAYS AS (actlog.cost_usd(told_cost_usd, input_tokens, output_tokens,
        cache_read_input_tokens, cache_creation_input_tokens, input_price, output_price, cache_read_price, cache_write_price)) STORED,
    response_id                     text COLLATE "C",
    attempts                        jsonb,
    first_seen_at                   timestamptz DEFAULT now(),
    message                         json,
    think_input_parts               bytea[],
    cache_creation_1h_input_tokens  bigint,
    tariff                          json,
    PRIMARY KEY (root_plan_id, step_id, seq, part),
    FOREIGN KEY (root_plan_id, step_id) REFERENCES actlog.agent_execution_record (root_plan_id, step_id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT think_act_state CHECK (told_state = ANY ('{PENDING,RUNNING,WAITING,PAUSED,COMPLETED,FAILED,CANCELLED,SKIPPED,BLOCKED,INTERRUPTED,UNKNOWN}')),
    CONSTRAINT think_act_seq CHECK (seq >= 0),
    CONSTRAINT think_act_attempt CHECK (attempt >= 1),
    CONSTRAINT think_act_origin CHECK (origin = ANY ('{native,otlp}'))
) PARTITION BY RANGE (part);
CREATE TABLE actlog.think_act_record_default PARTITION OF actlog.think_act_record DEFAULT;
CREATE INDEX think_act_bad_root ON actlog.think_act_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
CREATE TRIGGER price_call BEFORE INSERT OR UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (NEW.tariff IS NOT NULL) EXECUTE FUNCTION actlog.price_call();

COMMENT ON TABLE actlog.think_act_record IS 'One think-act cycle of a step: one model call, then the tool calls that it asked for.';
COMMENT ON COLUMN actlog.think_act_record.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.think_act_record.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.think_act_record.step_id IS 'The step that the cycle belongs to.';
COMMENT ON COLUMN actlog.think_act_record.seq IS 'Number of the cycle within its step, from 0.';
COMMENT ON COLUMN actlog.think_act_record.part IS 'Selects the partition of all cycles and tool calls of the tree; the same as on the root plan.';
COMMENT ON COLUMN actlog.think_act_record.think_start_time IS 'When the model call of the current attempt began.';
COMMENT ON COLUMN actlog.think_act_record.think_end_time IS 'When the model had finished its answer, in the current attempt.';
COMMENT ON COLUMN actlog.think_act_record.first_token_time IS 'When the first token of the answer arrived, in the current attempt.';
COMMENT ON COLUMN actlog.think_act_record.act_start_time IS 'When the first tool call of the current attempt began.';
COMMENT ON COLUMN actlog.think_act_record.act_end_time IS 'When the last tool call of the current attempt ended.';
COMMENT ON COLUMN actlog.think_act_record.think_input IS 'The prompt. A long one is kept in parts, see think_input_parts; the view actlog.think_act_text has it whole.';
COMMENT ON COLUMN actlog.think_act_record.think_output IS 'The output of the model.';
COMMENT ON COLUMN actlog.think_act_record.action_description IS 'What the act phase was meant to do.';
COMMENT ON COLUMN actlog.think_act_record.action_result IS 'The outcome of the act phase.';
COMMENT ON COLUMN actlog.think_act_record.told_state IS 'The reported state; null until one is reported. Read state instead.';
COMMENT ON COLUMN actlog.think_act_record.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN actlog.think_act_record.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN actlog.think_act_record.finish_reason IS 'Why the model stopped.';
COMMENT ON COLUMN actlog.think_act_record.error_message IS 'What went wrong in the current attempt.';
COMMENT ON COLUMN actlog.think_act_record.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN actlog.think_act_record.told_input_char_count IS 'Characters of the input, as reported. Read input_char_count instead.';
COMMENT ON COLUMN actlog.think_act_record.told_output_char_count IS 'Characters of the output, as reported. Read output_char_count instead.';
COMMENT ON COLUMN actlog.think_act_record.think_input_chars IS 'Characters of think_input, counted before it was cut.';
COMMENT ON COLUMN actlog.think_act_record.think_output_chars IS 'Characters of think_output, counted before it was cut.';
COMMENT ON COLUMN actlog.think_act_record.input_char_count IS 'Characters of the input: as reported, else as counted.';
COMMENT ON COLUMN actlog.think_act_record.output_char_count IS 'Characters of the output: as reported, else as counted.';
COMMENT ON COLUMN actlog.think_act_record.provider IS 'The provider that served the model.';
COMMENT ON COLUMN actlog.think_act_record.model_name IS 'The model of the call.';
COMMENT ON COLUMN actlog.think_act_record.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN actlog.think_act_record.output_tokens IS 'Output tokens.';
COMMENT ON COLUMN actlog.think_act_record.cache_read_input_tokens IS 'Input tokens read from a cache.';
COMMENT ON COLUMN actlog.think_act_record.cache_creation_input_tokens IS 'Input tokens written to a cache.';
COMMENT ON COLUMN actlog.think_act_record.reasoning_tokens IS 'Output tokens spent on reasoning.';
COMMENT ON COLUMN actlog.think_act_record.told_cost_usd IS 'Cost of the model call in US dollars, as reported. Read cost_usd instead.';
COMMENT ON COLUMN actlog.think_act_record.attempt IS 'Which attempt at the cycle this is, from 1; null: the first.';
COMMENT ON COLUMN actlog.think_act_record.span_id IS 'The span of the model call in its trace.';
COMMENT ON COLUMN actlog.think_act_record.metadata IS 'Other data of the client, as JSON.';
COMMENT ON COLUMN actlog.think_act_record.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.think_act_record.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.think_act_record.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision. On a row of origin otlp, null means that only traces have written to it.';
COMMENT ON COLUMN actlog.think_act_record.input_price IS 'US dollars per million input tokens of this call, at the time when the model was reported; null: no price is known.';
COMMENT ON COLUMN actlog.think_act_record.output_price IS 'The same for output tokens.';
COMMENT ON COLUMN actlog.think_act_record.cache_read_price IS 'The same for input tokens read from a cache.';
COMMENT ON COLUMN actlog.think_act_record.cache_write_price IS 'The same for input tokens written to a cache: the average, if some are kept for an hour.';
COMMENT ON COLUMN actlog.think_act_record.cost_usd IS 'Cost of the model call in US dollars: as reported, else computed from its tokens and prices; null if neither is known.';
COMMENT ON COLUMN actlog.think_act_record.response_id IS 'The id that the provider gave the response of the model. Its support asks for this id.';
COMMENT ON COLUMN actlog.think_act_record.attempts IS 'The attempts before the current one, in their order: number, state, times, error and their revisions; null: none.';
COMMENT ON COLUMN actlog.think_act_record.first_seen_at IS 'When a server first received a record of the cycle; null if that was before this column existed.';
COMMENT ON COLUMN actlog.think_act_record.message IS 'The message of the model in the form that a runtime continues from.';
COMMENT ON COLUMN actlog.think_act_record.think_input_parts IS 'What think_input is kept in, if that is long: hashes of contents, in their order. think_input is a mark then: actlog:content: and the first 16 bytes of the SHA-256 of the text, in hex. Null: think_input is the text itself.';
COMMENT ON COLUMN actlog.think_act_record.cache_creation_1h_input_tokens IS 'Those of cache_creation_input_tokens that were written to be kept for an hour.';
COMMENT ON COLUMN actlog.think_act_record.tariff IS 'All prices of the model at that time, by the length of the prompt; null: those of the row are all. Those of the row are the ones of its tier.';
COMMENT ON TABLE actlog.think_act_record_default IS 'Receives the cycles of periods for which no partition was added in time.';

CREATE TABLE actlog.act_tool_info (
    id                bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id      text COLLATE "C" NOT NULL,
    step_id           text COLLATE "C" NOT NULL,
    seq               integer NOT NULL,
    tool_call_id      text COLLATE "C" NOT NULL,
    part              date NOT NULL,
    call_index        integer,
    provider_call_id  text COLLATE "C",
    server_name       text,
    name              text,
    parameters        text,
    result            text,
    told_state        text,
    state             text NOT NULL GENERATED ALWAYS AS (COALESCE(told_state, 'PENDING')) STORED,
    status            text NOT NULL GENERATED ALWAYS AS (CASE WHEN told_state = ANY ('{RUNNING,WAITING,PAUSED,AWAITING_APPROVAL}') THEN 'RUNNING' WHEN told_state <> ALL ('{PENDING,IDLE}') THEN 'FINISHED' ELSE 'IDLE' END) STORED,
    attempt           integer,
    error_message     text,
    error_kind        text,
    start_time        timestamptz,
    end_time          timestamptz,
    span_id           text COLLATE "C",
    inferred          boolean,
    metadata          json,
    origin            text DEFAULT 'native',
    truncated         text[] COLLATE "C",
    revs              bigint[],
    attempts          jsonb,
    first_seen_at     timestamptz DEFAULT now(),
    policy            json,
    PRIMARY KEY (root_plan_id, step_id, seq, tool_call_id, part),
    FOREIGN KEY (root_plan_id, step_id) REFERENCES actlog.agent_execution_record (root_plan_id, step_id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT act_tool_state CHECK (told_state = ANY ('{PENDING,RUNNING,WAITING,PAUSED,AWAITING_APPROVAL,COMPLETED,FAILED,CANCELLED,SKIPPED,BLOCKED,INTERRUPTED,UNKNOWN}')),
    CONSTRAINT act_tool_seq CHECK (seq >= 0),
    CONSTRAINT act_tool_call_index CHECK (call_index >= 0),
    CONSTRAINT act_tool_attempt CHECK (attempt >= 1),
    CONSTRAINT act_tool_origin CHECK (origin = ANY ('{native,otlp}'))
) PARTITION BY RANGE (part);
CREATE TABLE actlog.act_tool_info_default PARTITION OF actlog.act_tool_info DEFAULT;
-- The id of the call comes first. If the root plan came first, the planner would use this index instead of the
-- primary key, and read every call of the tree to find those of a step.
CREATE INDEX act_tool_call ON actlog.act_tool_info (tool_call_id, root_plan_id);
CREATE INDEX act_tool_bad_root ON actlog.act_tool_info (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');

COMMENT ON TABLE actlog.act_tool_info IS 'One tool call of a cycle.';
COMMENT ON COLUMN actlog.act_tool_info.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.act_tool_info.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.act_tool_info.step_id IS 'The step that made the call.';
COMMENT ON COLUMN actlog.act_tool_info.seq IS 'The cycle that asked for the call.';
COMMENT ON COLUMN actlog.act_tool_info.tool_call_id IS 'The call''s own id, unique in its root plan. Sub-plans name it.';
COMMENT ON COLUMN actlog.act_tool_info.part IS 'Selects the partition of all cycles and tool calls of the tree; the same as on the root plan.';
COMMENT ON COLUMN actlog.act_tool_info.call_index IS 'Position of the call in its cycle, from 0.';
COMMENT ON COLUMN actlog.act_tool_info.provider_call_id IS 'The id that the model gave the call.';
COMMENT ON COLUMN actlog.act_tool_info.server_name IS 'The tool server, if the tool has one.';
COMMENT ON COLUMN actlog.act_tool_info.name IS 'The tool.';
COMMENT ON COLUMN actlog.act_tool_info.parameters IS 'The arguments of the tool, as JSON text.';
COMMENT ON COLUMN actlog.act_tool_info.result IS 'The result of the tool.';
COMMENT ON COLUMN actlog.act_tool_info.told_state IS 'The reported state; null until one is reported. Read state instead.';
COMMENT ON COLUMN actlog.act_tool_info.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, AWAITING_APPROVAL, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN actlog.act_tool_info.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN actlog.act_tool_info.attempt IS 'Which attempt at the call this is, from 1; null: the first.';
COMMENT ON COLUMN actlog.act_tool_info.error_message IS 'What went wrong in the current attempt.';
COMMENT ON COLUMN actlog.act_tool_info.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN actlog.act_tool_info.start_time IS 'When the current attempt began.';
COMMENT ON COLUMN actlog.act_tool_info.end_time IS 'When the current attempt ended.';
COMMENT ON COLUMN actlog.act_tool_info.span_id IS 'The span of the call in its trace.';
COMMENT ON COLUMN actlog.act_tool_info.inferred IS 'True if the call is known only from the output of the model; null is false.';
COMMENT ON COLUMN actlog.act_tool_info.metadata IS 'Other data of the client, as JSON.';
COMMENT ON COLUMN actlog.act_tool_info.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.act_tool_info.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.act_tool_info.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision. On a row of origin otlp, null means that only traces have written to it.';
COMMENT ON COLUMN actlog.act_tool_info.attempts IS 'The attempts before the current one, in their order: number, state, times, error and their revisions; null: none.';
COMMENT ON COLUMN actlog.act_tool_info.first_seen_at IS 'When a server first received a record of the call; null if that was before this column existed.';
COMMENT ON COLUMN actlog.act_tool_info.policy IS 'What held for the call: whether a human approves it, and what follows if nobody can say how it ended.';
COMMENT ON TABLE actlog.act_tool_info_default IS 'Receives the tool calls of periods for which no partition was added in time.';

-- Long prompts are kept once: cut into pieces, which the prompts of a tree share.

CREATE TABLE actlog.content (
    root_plan_id  text COLLATE "C" NOT NULL,
    part          date NOT NULL,
    hash          bytea NOT NULL,
    parts         bytea[],
    body          text COLLATE "C",
    PRIMARY KEY (root_plan_id, hash, part),
    CHECK ((parts IS NULL) <> (body IS NULL)),
    CHECK (octet_length(hash) = 16)
) PARTITION BY RANGE (part);
CREATE TABLE actlog.content_default PARTITION OF actlog.content DEFAULT;
-- Pieces stay in their row: a look into another table for each would cost more than it saves.
ALTER TABLE actlog.content ALTER COLUMN body SET STORAGE MAIN;
ALTER TABLE actlog.content_default ALTER COLUMN body SET STORAGE MAIN;

COMMENT ON TABLE actlog.content IS 'Pieces of long texts, and lists of pieces. A tree has each of them once. Read texts by actlog.text_of, or the view actlog.think_act_text.';
COMMENT ON COLUMN actlog.content.root_plan_id IS 'The tree that it belongs to.';
COMMENT ON COLUMN actlog.content.part IS 'Selects the partition; the same as on the root plan.';
COMMENT ON COLUMN actlog.content.hash IS 'Of a piece, the first 16 bytes of the SHA-256 of its UTF-8; of a list, of the byte FF and the hashes in it.';
COMMENT ON COLUMN actlog.content.parts IS 'A list: the hashes of its pieces, in their order.';
COMMENT ON COLUMN actlog.content.body IS 'A piece: its text.';
COMMENT ON TABLE actlog.content_default IS 'Receives the contents of periods for which no partition was added in time.';

-- +goose StatementBegin
CREATE FUNCTION actlog.text_of(root text, part date, parts bytea[]) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    text text;
BEGIN
    -- Each content is looked up by its key, whatever the planner knows of the table.
    SELECT string_agg(
        COALESCE(piece.body, '[a part of this text is missing: ' || encode(COALESCE(page.hash, named.hash), 'hex') || ']'),
        '' ORDER BY named.place, page.place)
    INTO text
    FROM unnest(text_of.parts) WITH ORDINALITY AS named (hash, place)
    LEFT JOIN LATERAL (
        SELECT c.parts, c.body FROM actlog.content AS c
        WHERE c.root_plan_id = text_of.root AND c.hash = named.hash AND c.part = text_of.part
        OFFSET 0
    ) AS direct ON true
    LEFT JOIN LATERAL unnest(direct.parts) WITH ORDINALITY AS page (hash, place) ON true
    LEFT JOIN LATERAL (
        SELECT direct.body WHERE page.hash IS NULL
        UNION ALL
        SELECT c.body FROM actlog.content AS c
        WHERE c.root_plan_id = text_of.root AND c.hash = page.hash AND c.part = text_of.part AND c.parts IS NULL
        OFFSET 0
    ) AS piece ON true;
    RETURN text;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.text_of(text, date, bytea[]) IS
    'The text that is kept in parts in a tree: of root, part and think_input_parts of a cycle. A part that is missing leaves a note in its place.';

-- +goose StatementBegin
CREATE FUNCTION actlog.contents_of(root text, part date, named bytea[]) RETURNS TABLE (hash bytea, parts bytea[], body text) LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF cardinality(named) > 0 THEN
        RETURN QUERY
        SELECT c.hash, c.parts, c.body
        FROM actlog.content AS c
        WHERE c.root_plan_id = contents_of.root AND c.part = contents_of.part AND c.hash = ANY (contents_of.named || ARRAY(
            SELECT unnest(p.parts)
            FROM actlog.content AS p
            WHERE p.root_plan_id = contents_of.root AND p.part = contents_of.part AND p.hash = ANY (contents_of.named) AND p.parts IS NOT NULL
        ));
    END IF;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.contents_of(text, date, bytea[]) IS
    'The contents of a tree that are named, and those that these name, each once.';

CREATE VIEW actlog.think_act_text AS
SELECT r.root_plan_id, r.step_id, r.seq, r.part,
    CASE WHEN r.think_input_parts IS NOT NULL AND starts_with(r.think_input, 'actlog:content:')
        THEN actlog.text_of(r.root_plan_id, r.part, r.think_input_parts) ELSE r.think_input END AS think_input,
    r.think_output, r.action_description, r.action_result
FROM actlog.think_act_record AS r;
COMMENT ON VIEW actlog.think_act_text IS 'The texts of cycles, whole.';
COMMENT ON COLUMN actlog.think_act_text.root_plan_id IS 'The tree that the cycle belongs to.';
COMMENT ON COLUMN actlog.think_act_text.step_id IS 'The step of the cycle.';
COMMENT ON COLUMN actlog.think_act_text.seq IS 'The number of the cycle in its step, from 0.';
COMMENT ON COLUMN actlog.think_act_text.part IS 'First day of the period of the tree. A condition on it keeps Postgres from reading the other periods.';
COMMENT ON COLUMN actlog.think_act_text.think_input IS 'The prompt, whole.';
COMMENT ON COLUMN actlog.think_act_text.think_output IS 'The answer of the model.';
COMMENT ON COLUMN actlog.think_act_text.action_description IS 'What the cycle was about to do.';
COMMENT ON COLUMN actlog.think_act_text.action_result IS 'What came of it.';

-- Thoughts, artifacts, sources and waits. -------------------------------------------------

CREATE TABLE actlog.thought (
    id                  bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id        text COLLATE "C" NOT NULL,
    plan_id             text COLLATE "C" NOT NULL,
    thought_id          text COLLATE "C" NOT NULL,
    step_id             text COLLATE "C",
    agent_id            text COLLATE "C",
    role                text,
    iteration           integer,
    type                text,
    content             text,
    related_operations  text[] COLLATE "C",
    confidence          double precision,
    time                timestamptz,
    origin              text DEFAULT 'native',
    truncated           text[] COLLATE "C",
    revs                bigint[],
    first_seen_at       timestamptz DEFAULT now(),
    PRIMARY KEY (root_plan_id, plan_id, thought_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id),
    CONSTRAINT thought_type CHECK (type = ANY ('{analysis,decision,action,observation,conclusion,error}')),
    CONSTRAINT thought_origin CHECK (origin = ANY ('{native,otlp}'))
);

COMMENT ON TABLE actlog.thought IS 'An entry of the reasoning log of a plan.';
COMMENT ON COLUMN actlog.thought.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.thought.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.thought.plan_id IS 'The plan that the thought belongs to.';
COMMENT ON COLUMN actlog.thought.thought_id IS 'The thought''s own id.';
COMMENT ON COLUMN actlog.thought.step_id IS 'The step that the thought belongs to.';
COMMENT ON COLUMN actlog.thought.agent_id IS 'The agent whose thought it is.';
COMMENT ON COLUMN actlog.thought.role IS 'The role of that agent.';
COMMENT ON COLUMN actlog.thought.iteration IS 'The iteration of the agent; 0 before the first, -1 for a fatal error.';
COMMENT ON COLUMN actlog.thought.type IS 'analysis, decision, action, observation, conclusion or error.';
COMMENT ON COLUMN actlog.thought.content IS 'The thought.';
COMMENT ON COLUMN actlog.thought.related_operations IS 'The operations that the thought is about.';
COMMENT ON COLUMN actlog.thought.confidence IS 'How sure the agent is, 0 to 1; null if it was not reported.';
COMMENT ON COLUMN actlog.thought.time IS 'When the agent had the thought.';
COMMENT ON COLUMN actlog.thought.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.thought.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.thought.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision.';
COMMENT ON COLUMN actlog.thought.first_seen_at IS 'When a server first received a record of the thought; null if that was before this column existed.';

CREATE TABLE actlog.artifact (
    id            bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id  text COLLATE "C" NOT NULL,
    plan_id       text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    step_id       text COLLATE "C",
    tool_call_id  text COLLATE "C",
    type          text,
    value         json,
    origin        text DEFAULT 'native',
    truncated     text[] COLLATE "C",
    revs          bigint[],
    PRIMARY KEY (root_plan_id, plan_id, name),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id),
    CONSTRAINT artifact_origin CHECK (origin = ANY ('{native,otlp}'))
);

COMMENT ON TABLE actlog.artifact IS 'Something that a plan produced.';
COMMENT ON COLUMN actlog.artifact.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.artifact.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.artifact.plan_id IS 'The plan that produced it.';
COMMENT ON COLUMN actlog.artifact.name IS 'Its name, unique in its plan.';
COMMENT ON COLUMN actlog.artifact.step_id IS 'The step that produced it.';
COMMENT ON COLUMN actlog.artifact.tool_call_id IS 'The tool call that produced it.';
COMMENT ON COLUMN actlog.artifact.type IS 'What kind of thing it is.';
COMMENT ON COLUMN actlog.artifact.value IS 'The thing itself, any JSON.';
COMMENT ON COLUMN actlog.artifact.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.artifact.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.artifact.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision.';

CREATE TABLE actlog.source_reference (
    id               bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id     text COLLATE "C" NOT NULL,
    plan_id          text COLLATE "C" NOT NULL,
    source_id        text COLLATE "C" NOT NULL,
    step_id          text COLLATE "C",
    tool_call_id     text COLLATE "C",
    uri              text,
    type             text,
    line_start       integer,
    line_end         integer,
    snippet          text,
    description      text,
    relevance_score  double precision,
    metadata         json,
    origin           text DEFAULT 'native',
    truncated        text[] COLLATE "C",
    revs             bigint[],
    PRIMARY KEY (root_plan_id, plan_id, source_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id),
    CONSTRAINT source_type CHECK (type = ANY ('{FILE,URL,CLASS,COMMIT,DOCUMENTATION,SNIPPET,EMBEDDING}')),
    CONSTRAINT source_origin CHECK (origin = ANY ('{native,otlp}'))
);

COMMENT ON TABLE actlog.source_reference IS 'Something that an agent read and relied on.';
COMMENT ON COLUMN actlog.source_reference.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.source_reference.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.source_reference.plan_id IS 'The plan that relied on it.';
COMMENT ON COLUMN actlog.source_reference.source_id IS 'The reference''s own id.';
COMMENT ON COLUMN actlog.source_reference.step_id IS 'The step that read it.';
COMMENT ON COLUMN actlog.source_reference.tool_call_id IS 'The tool call that read it.';
COMMENT ON COLUMN actlog.source_reference.uri IS 'Where it is.';
COMMENT ON COLUMN actlog.source_reference.type IS 'FILE, URL, CLASS, COMMIT, DOCUMENTATION, SNIPPET or EMBEDDING.';
COMMENT ON COLUMN actlog.source_reference.line_start IS 'First line, from 1.';
COMMENT ON COLUMN actlog.source_reference.line_end IS 'Last line.';
COMMENT ON COLUMN actlog.source_reference.snippet IS 'What was read.';
COMMENT ON COLUMN actlog.source_reference.description IS 'A description of the source.';
COMMENT ON COLUMN actlog.source_reference.relevance_score IS 'How relevant the source is, 0 to 1; null if it was not reported.';
COMMENT ON COLUMN actlog.source_reference.metadata IS 'Other data of the client, as JSON.';
COMMENT ON COLUMN actlog.source_reference.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.source_reference.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.source_reference.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision.';

CREATE TABLE actlog.wait_state (
    id                bigint GENERATED BY DEFAULT AS IDENTITY,
    root_plan_id      text COLLATE "C" NOT NULL,
    plan_id           text COLLATE "C" NOT NULL,
    wait_id           text COLLATE "C" NOT NULL,
    step_id           text COLLATE "C",
    tool_call_id      text COLLATE "C",
    type              text,
    title             text,
    form_description  text,
    form_inputs       json,
    told_state        text,
    state             text NOT NULL GENERATED ALWAYS AS (COALESCE(told_state, 'WAITING')) STORED,
    decision          text,
    decided_by        text,
    start_time        timestamptz,
    end_time          timestamptz,
    expires_at        timestamptz,
    origin            text DEFAULT 'native',
    truncated         text[] COLLATE "C",
    revs              bigint[],
    first_seen_at     timestamptz DEFAULT now(),
    subject           json,
    subject_sha256    text COLLATE "C",
    decision_text     text,
    claimed_by        text,
    PRIMARY KEY (root_plan_id, plan_id, wait_id),
    FOREIGN KEY (root_plan_id, plan_id) REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id),
    CONSTRAINT wait_type CHECK (type = ANY ('{USER_INPUT,PLAN_VALIDATION,ACTION_VALIDATION}')),
    CONSTRAINT wait_state CHECK (told_state = ANY ('{WAITING,SUBMITTED,ACCEPTED,MODIFIED,APPROVED,REJECTED,TIMED_OUT,CANCELLED}')),
    CONSTRAINT wait_origin CHECK (origin = ANY ('{native,otlp}'))
);
-- Open questions are listed, oldest first, without reading those that were answered.
CREATE INDEX wait_open ON actlog.wait_state (COALESCE(start_time, first_seen_at, '0001-01-01 00:00:00+00'::timestamptz), id) WHERE state = 'WAITING';

COMMENT ON TABLE actlog.wait_state IS 'A run that waits for a human.';
COMMENT ON COLUMN actlog.wait_state.id IS 'Number of the row, for clients that need a numeric id.';
COMMENT ON COLUMN actlog.wait_state.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.wait_state.plan_id IS 'The plan that waits.';
COMMENT ON COLUMN actlog.wait_state.wait_id IS 'The wait''s own id.';
COMMENT ON COLUMN actlog.wait_state.step_id IS 'The step that waits.';
COMMENT ON COLUMN actlog.wait_state.tool_call_id IS 'The tool call that waits.';
COMMENT ON COLUMN actlog.wait_state.type IS 'USER_INPUT, PLAN_VALIDATION or ACTION_VALIDATION.';
COMMENT ON COLUMN actlog.wait_state.title IS 'What the human is asked for.';
COMMENT ON COLUMN actlog.wait_state.form_description IS 'The same, in detail.';
COMMENT ON COLUMN actlog.wait_state.form_inputs IS 'The form: a list of string maps.';
COMMENT ON COLUMN actlog.wait_state.told_state IS 'The reported state; null until one is reported. Read state instead.';
COMMENT ON COLUMN actlog.wait_state.state IS 'WAITING, then one of SUBMITTED, ACCEPTED, MODIFIED, APPROVED, REJECTED, TIMED_OUT, CANCELLED.';
COMMENT ON COLUMN actlog.wait_state.decision IS 'What the human answered.';
COMMENT ON COLUMN actlog.wait_state.decided_by IS 'Who decided, as the server or the program knows them.';
COMMENT ON COLUMN actlog.wait_state.start_time IS 'When the wait began.';
COMMENT ON COLUMN actlog.wait_state.end_time IS 'When the wait ended.';
COMMENT ON COLUMN actlog.wait_state.expires_at IS 'When the wait expires.';
COMMENT ON COLUMN actlog.wait_state.origin IS 'The interface through which the row came: native or otlp.';
COMMENT ON COLUMN actlog.wait_state.truncated IS 'Names of the fields that were cut because they were longer than their limit.';
COMMENT ON COLUMN actlog.wait_state.revs IS 'Revision of each updatable field, by its position in the table of fields; null: written without a revision.';
COMMENT ON COLUMN actlog.wait_state.first_seen_at IS 'When a server first received a record of the wait; null if that was before this column existed.';
COMMENT ON COLUMN actlog.wait_state.subject IS 'What the human decides on, such as the name and the parameters of a tool call.';
COMMENT ON COLUMN actlog.wait_state.subject_sha256 IS 'The SHA-256 of the subject, in hex digits.';
COMMENT ON COLUMN actlog.wait_state.decision_text IS 'What the human added to the decision.';
COMMENT ON COLUMN actlog.wait_state.claimed_by IS 'Who decided, as they said themselves.';

-- The change feed. ------------------------------------------------------------------------

CREATE TABLE actlog.change (
    seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT now(),
    root_plan_id  text COLLATE "C" NOT NULL,
    kinds         text[] NOT NULL
);
CREATE INDEX change_at ON actlog.change USING brin (at);

COMMENT ON TABLE actlog.change IS 'The change feed: which trees a transaction touched. Old rows are deleted.';
COMMENT ON COLUMN actlog.change.seq IS 'Grows with each row. Gaps are transactions that are still open or were rolled back.';
COMMENT ON COLUMN actlog.change.at IS 'When the transaction began.';
COMMENT ON COLUMN actlog.change.root_plan_id IS 'The tree that was touched.';
COMMENT ON COLUMN actlog.change.kinds IS 'The kinds of the records that were written; also the word deleted, if rows were deleted.';

-- Why runs are in their state. ------------------------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION actlog.error_text(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(t) <= 8192 OR char_length(t) <= 8192 THEN t ELSE left(t, 4096) || E'\n' || right(t, 4096) END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.error_text(text) IS 'The text of an error; of a long one its beginning and its end.';

-- Lists ask it for each run that they show. It is a statement of its own that is planned once for all parts: to plan
-- it within a list took 45 ms with a year of partitions. With OFFSET 0, rows are looked up one by one, by their keys:
-- else Postgres would read the tree, and join it.
-- +goose StatementBegin
CREATE FUNCTION actlog.cause_rows(root text, home date) RETURNS json
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET plan_cache_mode = force_generic_plan -- it opens the partition of the part only
SET jit = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM actlog.plan_execution_record AS q WHERE q.root_plan_id = root AND q.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED'))
        AND NOT EXISTS (SELECT FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = root AND a.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED'))
        AND NOT EXISTS (SELECT FROM actlog.think_act_record AS c WHERE c.root_plan_id = root AND c.part = home AND c.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED'))
        AND NOT EXISTS (SELECT FROM actlog.act_tool_info AS t WHERE t.root_plan_id = root AND t.part = home AND t.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED'))
        AND NOT EXISTS (SELECT FROM actlog.wait_state AS w WHERE w.root_plan_id = root AND w.state IN ('WAITING', 'TIMED_OUT'))
    THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE
        bad_plans AS MATERIALIZED (
            SELECT x.current_plan_id
            FROM actlog.plan_execution_record AS x
            WHERE x.root_plan_id = root AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        bad_steps AS MATERIALIZED (
            SELECT x.step_id
            FROM actlog.agent_execution_record AS x
            WHERE x.root_plan_id = root AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        bad_cycles AS MATERIALIZED (
            SELECT x.step_id, x.seq, x.state, x.error_kind, x.error_message, x.think_start_time, x.think_end_time, x.act_start_time, x.act_end_time
            FROM actlog.think_act_record AS x
            WHERE x.root_plan_id = root AND x.part = home AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        bad_calls AS MATERIALIZED (
            SELECT x.step_id, x.seq, x.tool_call_id, x.call_index, x.name, x.state, x.error_kind, x.error_message, x.start_time, x.end_time, x.attempts
            FROM actlog.act_tool_info AS x
            WHERE x.root_plan_id = root AND x.part = home AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        waits AS MATERIALIZED (
            SELECT x.plan_id, x.wait_id, x.step_id, x.tool_call_id, x.type, x.title, x.form_description, x.state, x.start_time, x.end_time
            FROM actlog.wait_state AS x
            WHERE x.root_plan_id = root AND x.state IN ('WAITING', 'TIMED_OUT')
        ),
        found_steps AS MATERIALIZED (
            SELECT step_id FROM bad_steps UNION SELECT step_id FROM bad_calls UNION SELECT step_id FROM bad_cycles UNION SELECT step_id FROM waits
        ),
        above (plan_id) AS ( -- the plans of these rows, and those above them
            SELECT f.plan_id
            FROM (
                SELECT root AS plan_id
                UNION
                SELECT current_plan_id FROM bad_plans
                UNION
                SELECT plan_id FROM waits
                UNION
                SELECT a.shown_plan_id
                FROM found_steps AS u
                CROSS JOIN LATERAL (SELECT x.shown_plan_id FROM actlog.agent_execution_record AS x WHERE x.root_plan_id = root AND x.step_id = u.step_id OFFSET 0) AS a
            ) AS f
            UNION
            SELECT o.plan_id
            FROM above
            CROSS JOIN LATERAL (
                SELECT x.parent_plan_id, x.parent_step_id, x.tool_call_id
                FROM actlog.plan_execution_record AS x
                WHERE x.root_plan_id = root AND x.current_plan_id = above.plan_id AND x.current_plan_id <> root
                OFFSET 0
            ) AS q
            CROSS JOIN LATERAL (
                SELECT q.parent_plan_id AS plan_id
                UNION ALL
                SELECT a.shown_plan_id
                FROM (
                    SELECT q.parent_step_id AS step_id
                    UNION ALL
                    (SELECT x.step_id FROM actlog.act_tool_info AS x WHERE x.tool_call_id = q.tool_call_id AND x.root_plan_id = root AND x.part = home OFFSET 0)
                ) AS t
                CROSS JOIN LATERAL (SELECT x.shown_plan_id FROM actlog.agent_execution_record AS x WHERE x.root_plan_id = root AND x.step_id = t.step_id OFFSET 0) AS a
            ) AS o
            WHERE o.plan_id IS NOT NULL
        ),
        plans AS MATERIALIZED (
            SELECT q.*
            FROM above
            CROSS JOIN LATERAL (
                SELECT x.current_plan_id, x.parent_plan_id, x.tool_call_id, x.parent_step_id, left(COALESCE(NULLIF(x.title, ''), NULLIF(x.user_request, ''), x.name), 300) AS name,
                    x.state, x.error_kind, actlog.error_text(x.error_message) AS error_message, x.start_time, x.end_time
                FROM actlog.plan_execution_record AS x
                WHERE x.root_plan_id = root AND x.current_plan_id = above.plan_id
                OFFSET 0
            ) AS q
        ),
        more_calls AS MATERIALIZED ( -- the calls that started these plans, and those that asked
            SELECT plans.current_plan_id, t.*
            FROM plans
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.seq, x.tool_call_id, x.call_index, x.name, x.state, x.error_kind, x.error_message, x.start_time, x.end_time, x.attempts
                FROM actlog.act_tool_info AS x
                WHERE x.tool_call_id = plans.tool_call_id AND x.root_plan_id = root AND x.part = home
                OFFSET 0
            ) AS t
            UNION ALL
            SELECT NULL, t.*
            FROM waits
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.seq, x.tool_call_id, x.call_index, x.name, x.state, x.error_kind, x.error_message, x.start_time, x.end_time, x.attempts
                FROM actlog.act_tool_info AS x
                WHERE x.tool_call_id = waits.tool_call_id AND x.root_plan_id = root AND x.part = home AND x.step_id = waits.step_id
                OFFSET 0
            ) AS t
        ),
        likely AS ( -- the steps of which one may have started a plan whose call is not known
            SELECT a.step_id
            FROM plans
            CROSS JOIN LATERAL (
                SELECT x.step_id
                FROM actlog.agent_execution_record AS x
                WHERE x.root_plan_id = root AND x.shown_plan_id = plans.parent_plan_id
                OFFSET 0
            ) AS a
            WHERE NOT EXISTS (SELECT FROM more_calls AS m WHERE m.current_plan_id = plans.current_plan_id)
                AND NOT EXISTS (SELECT FROM actlog.agent_execution_record AS x WHERE x.root_plan_id = root AND x.step_id = plans.parent_step_id)
        ),
        steps AS MATERIALIZED (
            SELECT step_id FROM found_steps UNION SELECT step_id FROM more_calls UNION SELECT parent_step_id FROM plans UNION SELECT step_id FROM likely
        ),
        last_cycles AS MATERIALIZED ( -- of each step
            SELECT c.*
            FROM steps
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.seq, x.state, x.error_kind, x.error_message, x.think_start_time, x.think_end_time, x.act_start_time, x.act_end_time
                FROM actlog.think_act_record AS x
                WHERE x.root_plan_id = root AND x.part = home AND x.step_id = steps.step_id
                ORDER BY x.seq DESC
                LIMIT 1
            ) AS c
        ),
        calling AS MATERIALIZED (SELECT step_id, seq FROM bad_calls UNION SELECT step_id, seq FROM more_calls),
        cycles AS (
            SELECT * FROM bad_cycles
            UNION ALL
            SELECT * FROM last_cycles
            UNION ALL
            SELECT c.*
            FROM (SELECT step_id, seq FROM calling EXCEPT (SELECT step_id, seq FROM last_cycles UNION ALL SELECT step_id, seq FROM bad_cycles)) AS u
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.seq, x.state, x.error_kind, x.error_message, x.think_start_time, x.think_end_time, x.act_start_time, x.act_end_time
                FROM actlog.think_act_record AS x
                WHERE x.root_plan_id = root AND x.part = home AND x.step_id = u.step_id AND x.seq = u.seq
                OFFSET 0
            ) AS c
        ),
        calls AS (
            SELECT * FROM bad_calls
            UNION ALL
            SELECT m.step_id, m.seq, m.tool_call_id, m.call_index, m.name, m.state, m.error_kind, m.error_message, m.start_time, m.end_time, m.attempts FROM more_calls AS m
            UNION ALL
            SELECT t.* -- what completed in the last cycles may be of the same tool
            FROM (SELECT step_id, seq FROM last_cycles INTERSECT SELECT step_id, seq FROM calling) AS l
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.seq, x.tool_call_id, x.call_index, x.name, x.state, x.error_kind, x.error_message, x.start_time, x.end_time, x.attempts
                FROM actlog.act_tool_info AS x
                WHERE x.root_plan_id = root AND x.part = home AND x.step_id = l.step_id AND x.seq = l.seq AND x.state = 'COMPLETED'
                OFFSET 0
            ) AS t
        )
        SELECT json_agg(r)
        FROM (
            SELECT 'plan' AS kind, current_plan_id AS plan, parent_plan_id AS parent, parent_step_id AS step, NULL::integer AS seq, tool_call_id AS call, NULL::integer AS place,
                name, NULL AS form, state, error_kind, error_message, start_time AS began, start_time, end_time
            FROM plans
            UNION ALL
            SELECT 'agentExecution', a.shown_plan_id, NULL, a.step_id, NULL, NULL, a.step_index, left(a.agent_name, 300), NULL, a.state, a.error_kind, actlog.error_text(a.error_message),
                LEAST(a.start_time, actlog.first_start(a.attempts)), a.start_time, a.end_time
            FROM steps AS u
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.shown_plan_id, x.step_index, x.agent_name, x.state, x.error_kind, x.error_message, x.start_time, x.end_time, x.attempts
                FROM actlog.agent_execution_record AS x
                WHERE x.root_plan_id = root AND x.step_id = u.step_id
                OFFSET 0
            ) AS a
            UNION ALL
            SELECT 'thinkAct', NULL, NULL, c.step_id, c.seq, NULL, NULL, NULL, NULL, c.state, c.error_kind, actlog.error_text(c.error_message),
                NULL, LEAST(c.think_start_time, c.act_start_time), GREATEST(c.think_end_time, c.act_end_time)
            FROM cycles AS c
            UNION ALL
            SELECT 'actTool', NULL, NULL, t.step_id, t.seq, t.tool_call_id, t.call_index, left(t.name, 300), NULL, t.state, t.error_kind, actlog.error_text(t.error_message),
                LEAST(t.start_time, actlog.first_start(t.attempts)), t.start_time, t.end_time
            FROM calls AS t
            UNION ALL
            SELECT 'wait', plan_id, wait_id, step_id, NULL, tool_call_id, NULL, left(title, 300), left(form_description, 300), state, type, NULL,
                NULL, start_time, end_time
            FROM waits
        ) AS r
    );
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.cause_rows(text, date) IS
    'The rows of a tree from which the cause of its state follows: what failed, was stopped or asks, what is above it, the last cycles and the calls that may have recovered it. Some come more than once. Null: there are none.';

-- Reports have it kept.

CREATE TABLE actlog.cause (
    root_plan_id  text COLLATE "C" PRIMARY KEY,
    part          date NOT NULL,
    detail        boolean NOT NULL,
    document      json NOT NULL,
    level         text,
    plan_id       text COLLATE "C",
    step_id       text COLLATE "C",
    seq           integer,
    tool_call_id  text COLLATE "C",
    cause_kind    text,
    cause_tool    text,
    cause_text    text,
    recovered     boolean
);
CREATE INDEX cause_detail ON actlog.cause (part) WHERE detail;

COMMENT ON TABLE actlog.cause IS 'Why each tree is in its state, of those in which something failed or asks. The server makes the rows again within seconds of each change.';
COMMENT ON COLUMN actlog.cause.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.cause.part IS 'The part of its detail.';
COMMENT ON COLUMN actlog.cause.detail IS 'The detail was on record when the row was made.';
COMMENT ON COLUMN actlog.cause.document IS 'What lists say of it.';
COMMENT ON COLUMN actlog.cause.level IS 'The kind of the row that is the cause, as in report.failure, or wait; null, as the following: there is none, or it is an open question.';
COMMENT ON COLUMN actlog.cause.plan_id IS 'The plan of the row.';
COMMENT ON COLUMN actlog.cause.step_id IS 'The step of the row.';
COMMENT ON COLUMN actlog.cause.seq IS 'The cycle of the row.';
COMMENT ON COLUMN actlog.cause.tool_call_id IS 'The call.';
COMMENT ON COLUMN actlog.cause.cause_kind IS 'The kind of its error, else its state in lower case.';
COMMENT ON COLUMN actlog.cause.cause_tool IS 'The tool that was called, or whose call asked.';
COMMENT ON COLUMN actlog.cause.cause_text IS 'The line of its error that says what happened.';
COMMENT ON COLUMN actlog.cause.recovered IS 'The run went on after it.';

CREATE TABLE actlog.cause_progress (
    id         smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    seq        bigint NOT NULL,
    before_at  timestamptz,
    before_id  text COLLATE "C"
);

COMMENT ON TABLE actlog.cause_progress IS 'How far the rows of actlog.cause are made. A migration that changes how they are made sets before_at, and all are made again.';
COMMENT ON COLUMN actlog.cause_progress.id IS 'There is one row.';
COMMENT ON COLUMN actlog.cause_progress.seq IS 'What the change feed has up to this number is in actlog.cause.';
COMMENT ON COLUMN actlog.cause_progress.before_at IS 'Runs that began before this are still to be looked at, the newest first; null: none are.';
COMMENT ON COLUMN actlog.cause_progress.before_id IS 'Of those that began then, the ones with ids below this.';
INSERT INTO actlog.cause_progress (seq) VALUES (0);

-- Silent runs. ----------------------------------------------------------------------------

CREATE TABLE actlog.interrupted (
    root_plan_id  text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    step_id       text COLLATE "C" NOT NULL,
    seq           integer NOT NULL,
    id            text COLLATE "C" NOT NULL,
    attempt       integer,
    told_state    text,
    error_kind    text,
    end_time      timestamptz,
    marked_end    timestamptz,
    PRIMARY KEY (root_plan_id, kind, step_id, seq, id)
);

COMMENT ON TABLE actlog.interrupted IS 'What upkeep replaced in the rows of silent runs when it marked them INTERRUPTED with the error kind not_seen. A later sign of life puts it back.';
COMMENT ON COLUMN actlog.interrupted.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.interrupted.kind IS 'The kind of the row: plan, agentExecution, thinkAct or actTool.';
COMMENT ON COLUMN actlog.interrupted.step_id IS 'The step of a row; empty for a plan.';
COMMENT ON COLUMN actlog.interrupted.seq IS 'The cycle of a row; 0 for a plan or a step.';
COMMENT ON COLUMN actlog.interrupted.id IS 'The id of a plan or a tool call; else empty.';
COMMENT ON COLUMN actlog.interrupted.attempt IS 'The attempt that was marked; null: the first.';
COMMENT ON COLUMN actlog.interrupted.told_state IS 'The state that was replaced; null: none had been written.';
COMMENT ON COLUMN actlog.interrupted.error_kind IS 'The error kind that was replaced.';
COMMENT ON COLUMN actlog.interrupted.end_time IS 'The end that was replaced.';
COMMENT ON COLUMN actlog.interrupted.marked_end IS 'The end that the mark wrote: the last heartbeat of the run.';

-- Partitions, and what stays when they are dropped. ---------------------------------------

-- +goose StatementBegin
CREATE FUNCTION actlog.add_partition(parent text, from_day date, to_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    child   text := format('%s_p%s', parent, to_char(from_day, 'YYYYMMDD'));
    columns text;
BEGIN
    IF NOT has_schema_privilege('actlog', 'CREATE') THEN -- before anything is locked
        RAISE insufficient_privilege USING MESSAGE = 'permission denied to add a partition';
    END IF;
    -- Every writer begins with the table of plans, so none deadlocks with the locks below.
    -- Lock before rows move; otherwise rows that a writer adds meanwhile are lost.
    LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE ONLY actlog.%I, actlog.%I IN ACCESS EXCLUSIVE MODE', parent, parent || '_default');
    -- Rows that were written before their partition existed move into it. Otherwise it could
    -- not be attached.
    EXECUTE format('CREATE TEMPORARY TABLE moved ON COMMIT DROP AS SELECT * FROM actlog.%I WHERE part >= %L AND part < %L',
        parent || '_default', from_day, to_day);
    EXECUTE format('DELETE FROM actlog.%I WHERE part >= %L AND part < %L', parent || '_default', from_day, to_day);
    EXECUTE format('CREATE TABLE actlog.%I PARTITION OF actlog.%I FOR VALUES FROM (%L) TO (%L)', child, parent, from_day, to_day);
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
        FROM pg_attribute
        WHERE attrelid = format('actlog.%I', parent)::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    EXECUTE format('INSERT INTO actlog.%I (%s) SELECT %s FROM moved', parent, columns, columns);
    SET CONSTRAINTS ALL IMMEDIATE; -- a table with pending checks cannot be altered
    DROP TABLE moved;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.add_partition(text, date, date) IS
    'Adds the partition of parent for the days from from_day up to, but without, to_day. Rows of these days move there from the default partition.';

CREATE TABLE actlog.dropped_detail (
    from_day    date NOT NULL PRIMARY KEY,
    to_day      date NOT NULL,
    dropped_at  timestamptz NOT NULL DEFAULT now(),
    forgotten   boolean NOT NULL DEFAULT false
);

COMMENT ON TABLE actlog.dropped_detail IS 'Periods whose cycles and tool calls were dropped. The roll-ups of the steps in such a period are final.';
COMMENT ON COLUMN actlog.dropped_detail.from_day IS 'First part of the period.';
COMMENT ON COLUMN actlog.dropped_detail.to_day IS 'First part after the period. Periods never overlap.';
COMMENT ON COLUMN actlog.dropped_detail.dropped_at IS 'When the detail was dropped.';
COMMENT ON COLUMN actlog.dropped_detail.forgotten IS 'Steps and waits have no texts of its tool calls any more.';

CREATE TABLE actlog.tool_daily (
    day          date NOT NULL,
    tool_name    text COLLATE "C" NOT NULL,
    server_name  text COLLATE "C" NOT NULL,
    project      text COLLATE "C" NOT NULL,
    calls        bigint NOT NULL,
    failures     bigint NOT NULL,
    total_ms     bigint NOT NULL,
    histogram    bigint[] NOT NULL,
    PRIMARY KEY (day, tool_name, server_name, project)
);

COMMENT ON TABLE actlog.tool_daily IS 'Figures of tool calls that were dropped, by day. Calls that are still on record are not counted here.';
COMMENT ON COLUMN actlog.tool_daily.day IS 'UTC day on which the calls began; if that is not known, ended; else were first seen.';
COMMENT ON COLUMN actlog.tool_daily.tool_name IS 'The tool; empty if it is not known.';
COMMENT ON COLUMN actlog.tool_daily.server_name IS 'The tool server; empty for tools without one.';
COMMENT ON COLUMN actlog.tool_daily.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN actlog.tool_daily.calls IS 'Tool calls.';
COMMENT ON COLUMN actlog.tool_daily.failures IS 'Tool calls that failed.';
COMMENT ON COLUMN actlog.tool_daily.total_ms IS 'Milliseconds spent in calls whose start and end are known.';
COMMENT ON COLUMN actlog.tool_daily.histogram IS 'Durations of those calls. Entry b (1 to 120) counts the calls that took at most 2^((b-1)/4) ms and longer than the bound of entry b-1; the last entry has no bound. See percentile_ms.';

-- +goose StatementBegin
CREATE FUNCTION actlog.duration_bucket(ms bigint) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN ms <= 1 THEN 1
        WHEN ms > 1 THEN LEAST(120, 1 + ceil(4 * ln(ms::double precision) / ln(2::double precision) - 1e-9))::integer
    END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.duration_bucket(bigint) IS
    'The entry of a tool_daily histogram that counts a call of this many milliseconds.';

-- +goose StatementBegin
CREATE FUNCTION actlog.histogram(buckets integer[], counts bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(
        SELECT COALESCE(sum(u.n), 0)::bigint
        FROM generate_series(1, 120) AS b
        LEFT JOIN unnest(buckets, counts) AS u (bucket, n) ON u.bucket = b
        GROUP BY b ORDER BY b)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.histogram(integer[], bigint[]) IS
    'Builds a histogram as in tool_daily from pairs of entry and count.';

-- +goose StatementBegin
CREATE FUNCTION actlog.add_histograms(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT COALESCE(u.x, 0) + COALESCE(u.y, 0) FROM unnest(a, b) WITH ORDINALITY AS u (x, y, i) ORDER BY u.i)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.add_histograms(bigint[], bigint[]) IS 'The sum of two histograms, entry by entry.';

-- +goose StatementBegin
CREATE FUNCTION actlog.percentile_ms(histogram bigint[], fraction double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT power(2, (e.b - 2 + (fraction * e.total - (e.upto - e.n)) / e.n) / 4)
    FROM (
        SELECT u.b, u.n, sum(u.n) OVER (ORDER BY u.b)::double precision AS upto, sum(u.n) OVER ()::double precision AS total
        FROM unnest(histogram) WITH ORDINALITY AS u (n, b)
    ) AS e
    WHERE e.n > 0 AND e.upto >= fraction * e.total
    ORDER BY e.b LIMIT 1
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.percentile_ms(bigint[], double precision) IS
    'The percentile (0.95 for p95) of a histogram as in tool_daily, in milliseconds. The error is at most a fifth. Null for an empty histogram.';

-- Who is logged in. -----------------------------------------------------------------------

CREATE TABLE actlog.login (
    session_sha256  bytea PRIMARY KEY,
    key_sha256      bytea NOT NULL,
    expires_at      timestamptz NOT NULL
);

COMMENT ON TABLE actlog.login IS 'Who is logged in to the web page. The browser has the secret of the session.';
COMMENT ON COLUMN actlog.login.session_sha256 IS 'SHA-256 of the secret.';
COMMENT ON COLUMN actlog.login.key_sha256 IS 'The beginning of the SHA-256 of the API key with which the session was begun. The session ends with the key.';
COMMENT ON COLUMN actlog.login.expires_at IS 'When the session ends.';

-- How texts and revisions are stored. -----------------------------------------------------

-- +goose StatementBegin
DO $$
DECLARE
    t regclass;
BEGIN
    -- lz4 writes three times as fast as pglz, but not every build of Postgres has it.
    IF NOT EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        RAISE WARNING 'this Postgres was built without lz4: large texts are compressed with pglz, which is slower to write';
    END IF;
    FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition LOOP
        PERFORM actlog.compress_texts(t);
    END LOOP;

    -- Revisions are read field by field, so they are not compressed and not stored out of line.
    FOR t IN SELECT attrelid FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND attname = 'revs'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN revs SET STORAGE PLAIN', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- Finish dropping the partitions that are already detached.
-- +goose StatementBegin
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname LIKE 'dropping\_%' LOOP
        EXECUTE format('DROP TABLE %s', name);
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP TABLE actlog.login;
DROP FUNCTION actlog.percentile_ms(bigint[], double precision), actlog.add_histograms(bigint[], bigint[]),
    actlog.histogram(integer[], bigint[]), actlog.duration_bucket(bigint);
DROP TABLE actlog.tool_daily, actlog.dropped_detail;
DROP FUNCTION actlog.add_partition(text, date, date);
DROP TABLE actlog.interrupted;
DROP TABLE actlog.cause_progress, actlog.cause;
DROP FUNCTION actlog.cause_rows(text, date), actlog.error_text(text);
DROP TABLE actlog.change;
DROP TABLE actlog.wait_state, actlog.source_reference, actlog.artifact, actlog.thought;
DROP VIEW actlog.think_act_text;
DROP FUNCTION actlog.contents_of(text, date, bytea[]), actlog.text_of(text, date, bytea[]);
DROP TABLE actlog.content, actlog.act_tool_info, actlog.think_act_record;
DROP FUNCTION actlog.price_call();
DROP FUNCTION actlog.cost_usd(numeric, bigint, bigint, bigint, bigint, double precision, double precision, double precision, double precision);
DROP TABLE actlog.model_price;
DROP TABLE actlog.agent_execution_record;
DROP FUNCTION actlog.is_placeholder(actlog.plan_execution_record);
DROP TABLE actlog.plan_execution_record;
DROP FUNCTION actlog.owned_by_runtime(text[]), actlog.stale_guess(text);
DROP FUNCTION actlog.first_start(jsonb), actlog.merge_attempts(jsonb, jsonb, jsonb, jsonb, jsonb), actlog.merge_attempt(jsonb, jsonb, jsonb),
    actlog.own_attempt(jsonb, jsonb);
DROP FUNCTION actlog.attempts(integer, integer), actlog.takes_state(text, bigint, text, bigint), actlog.settles(text),
    actlog.takes(text, bigint, text, bigint), actlog.takes(anyelement, bigint, anyelement, bigint);
DROP FUNCTION actlog.compress_texts(regclass);
