-- The cause of the state of each run, by one rule everywhere. Lists find it in the rows from which it follows; reports have it kept.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- The first lock is that of plans: every writer begins with them, so none holds a part while it waits for another.
DROP INDEX actlog.plan_failed_root;
CREATE INDEX plan_bad_root ON actlog.plan_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
DROP INDEX actlog.agent_failed_root;
CREATE INDEX agent_bad_root ON actlog.agent_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
DROP INDEX actlog.think_act_failed_root;
CREATE INDEX think_act_bad_root ON actlog.think_act_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
DROP INDEX actlog.act_tool_failed_root;
CREATE INDEX act_tool_bad_root ON actlog.act_tool_info (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');

-- +goose StatementBegin
CREATE FUNCTION actlog.error_text(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(t) <= 8192 OR char_length(t) <= 8192 THEN t ELSE left(t, 4096) || E'\n' || right(t, 4096) END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.error_text(text) IS 'The text of an error; of a long one its beginning and its end.';

-- A statement of its own that is planned once for all parts: to plan it within a list took 45 ms with a year of partitions.
-- With OFFSET 0, rows are looked up one by one, by their keys: else Postgres would read the tree, and join it.
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
COMMENT ON TABLE actlog.cause_progress IS 'How far the rows of actlog.cause are made.';
COMMENT ON COLUMN actlog.cause_progress.id IS 'There is one row.';
COMMENT ON COLUMN actlog.cause_progress.seq IS 'What the change feed has up to this number is in actlog.cause.';
COMMENT ON COLUMN actlog.cause_progress.before_at IS 'Runs that began before this are still to be looked at: they were on record before actlog.cause was; null: all are.';
COMMENT ON COLUMN actlog.cause_progress.before_id IS 'Of those that began then, the ones with ids below this.';
-- A transaction that is open now is behind this number, or its changes are among the runs that are looked at.
INSERT INTO actlog.cause_progress (seq, before_at, before_id)
SELECT COALESCE(max(c.seq), 0), CASE WHEN EXISTS (SELECT FROM actlog.plan_execution_record) THEN '9999-12-31 00:00:00+00'::timestamptz END, U&'\+10FFFF'
FROM actlog.change AS c;
SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.cause,actlog.cause_progress}'::text[]) AS t;

COMMENT ON FUNCTION actlog.failed_rows(text, date) IS 'Servers of the previous release ask it. Lists use actlog.cause_rows.';

CREATE OR REPLACE VIEW report.plan AS
SELECT
    p.root_plan_id, p.plan_id, p.parent_plan_id, p.tool_call_id,
    p.is_root, p.part, p.first_seen_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(p.conversation_id, r.conversation_id) AS conversation_id, COALESCE(p.trace_id, r.trace_id) AS trace_id,
    p.name, left(p.title, 200) AS title, p.executor, p.tags, p.model_name,
    p.state, p.status, p.completed, p.error_kind, p.start_time, p.end_time, p.last_seen_at,
    CASE WHEN p.start_time <= p.end_time THEN extract(epoch FROM p.end_time - p.start_time)::double precision END AS duration_seconds,
    p.steps, p.cycles, p.model_calls, p.tool_calls, p.failures, p.input_tokens, p.output_tokens, p.cache_read_input_tokens,
    p.cache_creation_input_tokens, p.reasoning_tokens, p.cost_usd, p.think_ms::double precision / 1000 AS think_seconds,
    p.tool_ms::double precision / 1000 AS tool_seconds, p.waits, p.wait_seconds, p.total_plans, p.total_steps, p.total_cycles, p.total_model_calls,
    p.total_tool_calls, p.total_failures, p.total_input_tokens, p.total_output_tokens, p.total_cache_read_input_tokens,
    p.total_cache_creation_input_tokens, p.total_reasoning_tokens, p.total_cost_usd,
    p.total_think_ms::double precision / 1000 AS total_think_seconds, p.total_tool_ms::double precision / 1000 AS total_tool_seconds, p.total_waits,
    p.total_wait_seconds, p.happened_at, p.depth,
    p.total_input_tokens + p.total_output_tokens AS total_tokens,
    (
        SELECT t.name
        FROM actlog.act_tool_info AS t
        WHERE t.tool_call_id = p.tool_call_id AND t.root_plan_id = p.root_plan_id AND t.part = p.part
        ORDER BY t.step_id, t.seq
        LIMIT 1
    ) AS tool_name,
    k.cause_kind, k.cause_tool, k.cause_text, k.recovered
FROM (
    SELECT
        p.root_plan_id, p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id, p.part, p.first_seen_at, p.project, p.environment, p.release,
        p.user_id, p.conversation_id, p.trace_id, p.name, p.title, p.executor, p.tags, p.model_name, p.state, p.status, p.completed, p.error_kind,
        p.start_time, p.end_time, p.last_seen_at, COALESCE(p.start_time, p.first_seen_at) AS happened_at, true AS is_root, 0 AS depth,
        COALESCE(f.steps, 0) AS steps, COALESCE(f.cycles, 0) AS cycles, COALESCE(f.model_calls, 0) AS model_calls,
        COALESCE(f.tool_calls, 0) AS tool_calls, COALESCE(f.failures, 0) AS failures, COALESCE(f.input_tokens, 0) AS input_tokens,
        COALESCE(f.output_tokens, 0) AS output_tokens, COALESCE(f.cache_read_input_tokens, 0) AS cache_read_input_tokens,
        COALESCE(f.cache_creation_input_tokens, 0) AS cache_creation_input_tokens, COALESCE(f.reasoning_tokens, 0) AS reasoning_tokens,
        COALESCE(f.think_ms, 0) AS think_ms, COALESCE(f.tool_ms, 0) AS tool_ms, f.cost_usd, COALESCE(f.total_steps, 0) AS total_steps,
        COALESCE(f.total_cycles, 0) AS total_cycles, COALESCE(f.total_model_calls, 0) AS total_model_calls,
        COALESCE(f.total_tool_calls, 0) AS total_tool_calls, COALESCE(f.total_failures, 0) AS total_failures,
        COALESCE(f.total_input_tokens, 0) AS total_input_tokens, COALESCE(f.total_output_tokens, 0) AS total_output_tokens,
        COALESCE(f.total_cache_read_input_tokens, 0) AS total_cache_read_input_tokens,
        COALESCE(f.total_cache_creation_input_tokens, 0) AS total_cache_creation_input_tokens,
        COALESCE(f.total_reasoning_tokens, 0) AS total_reasoning_tokens, COALESCE(f.total_think_ms, 0) AS total_think_ms,
        COALESCE(f.total_tool_ms, 0) AS total_tool_ms, f.total_cost_usd,
        COALESCE(w.waits, 0) AS waits, COALESCE(w.wait_seconds, 0)::double precision AS wait_seconds,
        COALESCE(w.total_waits, 0) AS total_waits, COALESCE(w.total_wait_seconds, 0)::double precision AS total_wait_seconds,
        (SELECT count(*) FROM actlog.plan_execution_record AS t WHERE t.root_plan_id = p.root_plan_id) AS total_plans
    FROM actlog.plan_execution_record AS p
    LEFT JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE a.shown_plan_id = a.root_plan_id) AS steps, count(*) AS total_steps,
            sum(a.cycles) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cycles, sum(a.cycles)::bigint AS total_cycles,
            sum(a.model_calls) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS model_calls, sum(a.model_calls)::bigint AS total_model_calls,
            sum(a.tool_calls) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS tool_calls, sum(a.tool_calls)::bigint AS total_tool_calls,
            sum(a.failures) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS failures, sum(a.failures)::bigint AS total_failures,
            sum(a.input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS input_tokens, sum(a.input_tokens)::bigint AS total_input_tokens,
            sum(a.output_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS output_tokens, sum(a.output_tokens)::bigint AS total_output_tokens,
            sum(a.cache_read_input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cache_read_input_tokens, sum(a.cache_read_input_tokens)::bigint AS total_cache_read_input_tokens,
            sum(a.cache_creation_input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cache_creation_input_tokens, sum(a.cache_creation_input_tokens)::bigint AS total_cache_creation_input_tokens,
            sum(a.reasoning_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS reasoning_tokens, sum(a.reasoning_tokens)::bigint AS total_reasoning_tokens,
            sum(a.think_ms) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS think_ms, sum(a.think_ms)::bigint AS total_think_ms,
            sum(a.tool_ms) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS tool_ms, sum(a.tool_ms)::bigint AS total_tool_ms,
            sum(a.cost_usd) FILTER (WHERE a.shown_plan_id = a.root_plan_id) AS cost_usd, sum(a.cost_usd) AS total_cost_usd
        FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = p.root_plan_id
    ) AS f ON true
    LEFT JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE w.plan_id = w.root_plan_id) AS waits, count(*) AS total_waits,
            sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) FILTER (WHERE w.plan_id = w.root_plan_id) AS wait_seconds,
            sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) AS total_wait_seconds
        FROM actlog.wait_state AS w
        WHERE w.root_plan_id = p.root_plan_id
    ) AS w ON true
    WHERE p.root_plan_id = p.current_plan_id
    UNION ALL
    SELECT
        t.root_plan_id, s.plan_id, s.parent_plan_id, s.tool_call_id, t.part, s.first_seen_at, s.project, s.environment, s.release, s.user_id,
        s.conversation_id, s.trace_id, s.name, s.title, s.executor, s.tags, s.model_name, s.state, s.status, s.completed, s.error_kind, s.start_time,
        s.end_time, s.last_seen_at, s.happened_at, false, (s.figures ->> 'depth')::integer,
        (s.figures ->> 'steps')::bigint, (s.figures ->> 'cycles')::bigint, (s.figures ->> 'model_calls')::bigint,
        (s.figures ->> 'tool_calls')::bigint, (s.figures ->> 'failures')::bigint, (s.figures ->> 'input_tokens')::bigint,
        (s.figures ->> 'output_tokens')::bigint, (s.figures ->> 'cache_read_input_tokens')::bigint,
        (s.figures ->> 'cache_creation_input_tokens')::bigint, (s.figures ->> 'reasoning_tokens')::bigint, (s.figures ->> 'think_ms')::bigint,
        (s.figures ->> 'tool_ms')::bigint, (s.figures ->> 'cost_usd')::numeric, (s.figures ->> 'total_steps')::bigint,
        (s.figures ->> 'total_cycles')::bigint, (s.figures ->> 'total_model_calls')::bigint, (s.figures ->> 'total_tool_calls')::bigint,
        (s.figures ->> 'total_failures')::bigint, (s.figures ->> 'total_input_tokens')::bigint, (s.figures ->> 'total_output_tokens')::bigint,
        (s.figures ->> 'total_cache_read_input_tokens')::bigint, (s.figures ->> 'total_cache_creation_input_tokens')::bigint,
        (s.figures ->> 'total_reasoning_tokens')::bigint, (s.figures ->> 'total_think_ms')::bigint, (s.figures ->> 'total_tool_ms')::bigint,
        (s.figures ->> 'total_cost_usd')::numeric, (s.figures ->> 'waits')::bigint, (s.figures ->> 'wait_seconds')::double precision,
        (s.figures ->> 'total_waits')::bigint, (s.figures ->> 'total_wait_seconds')::double precision, (s.figures ->> 'total_plans')::bigint
    FROM (SELECT DISTINCT q.part, q.root_plan_id FROM actlog.plan_execution_record AS q WHERE q.root_plan_id <> q.current_plan_id) AS t
    CROSS JOIN LATERAL (
        SELECT
            p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id, p.first_seen_at, p.project, p.environment, p.release, p.user_id,
            p.conversation_id, p.trace_id, p.name, p.title, p.executor, p.tags, p.model_name, p.state, p.status, p.completed, p.error_kind,
            p.start_time, p.end_time, p.last_seen_at, COALESCE(p.start_time, p.first_seen_at) AS happened_at,
            (SELECT actlog.sub_plan_figures(t.root_plan_id)) -> p.current_plan_id AS figures
        FROM actlog.plan_execution_record AS p
        WHERE p.root_plan_id = t.root_plan_id AND p.current_plan_id <> p.root_plan_id
        ORDER BY p.current_plan_id
    ) AS s
) AS p
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id
LEFT JOIN actlog.cause AS k ON k.root_plan_id = p.root_plan_id AND p.is_root;

CREATE OR REPLACE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error,
    COALESCE(p.user_id, r.user_id) AS user_id, COALESCE(f.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    f.agent_version, f.attempt,
    COALESCE(NOT f.past AND f.level = k.level AND f.plan_id = k.plan_id AND f.step_id IS NOT DISTINCT FROM k.step_id
        AND f.seq IS NOT DISTINCT FROM k.seq AND f.tool_call_id IS NOT DISTINCT FROM k.tool_call_id, false) AS is_cause
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS conversation_id, NULL::text AS agent_name, NULL::text AS agent_version, NULL::text AS tool_name,
        x.state, x.error_kind, x.error_message, NULL::integer AS attempt, false AS past
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.conversation_id, x.agent_name, x.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'),
        x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.conversation_id, a.agent_name, a.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.conversation_id, a.agent_name, a.agent_version, x.name, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL -- attempts before the current one
    SELECT
        t.level, COALESCE(t.end_time, t.happened_at), t.root_plan_id, t.plan_id,
        t.step_id, t.seq, t.tool_call_id, t.part, t.conversation_id, t.agent_name, t.agent_version, t.tool_name, t.state, t.error_kind, t.error, t.attempt, true
    FROM report.attempt AS t
    WHERE t.retried AND t.state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id
LEFT JOIN actlog.cause AS k ON k.root_plan_id = f.root_plan_id;

COMMENT ON VIEW report.failure IS 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED, and for each such attempt before the current one. A failure at one level often causes one at the level above: where is_cause is true, the row is the cause of its run, so each run counts once. Filter on failed_at.';

COMMENT ON COLUMN report.plan.total_tokens IS 'Input and output tokens, with those of its sub-plans.';
COMMENT ON COLUMN report.plan.tool_name IS 'The tool whose call started the sub-plan; null for a root plan, and if that call is not on record.';
COMMENT ON COLUMN report.plan.cause_kind IS 'What ended the run, or went wrong in it so far: the kind of that error, else the state of its row in lower case. Of root plans only. Null if nothing went wrong, and while the run waits for an answer. Right within 5 seconds of a change.';
COMMENT ON COLUMN report.plan.cause_tool IS 'The tool whose call is the cause, or asked the question that is.';
COMMENT ON COLUMN report.plan.cause_text IS 'The line of the error that says what happened, at most 300 characters.';
COMMENT ON COLUMN report.plan.recovered IS 'Whether the run went on after the cause, which is its first failure then; null without a cause.';
COMMENT ON COLUMN report.failure.is_cause IS 'Whether the row is the cause of its run, as report.plan has it. A run counts once where this is true.';

-- +goose Down
CREATE TEMPORARY TABLE kept_comments ON COMMIT DROP AS
SELECT a.attrelid::regclass::text AS view, a.attname AS name, col_description(a.attrelid, a.attnum) AS comment
FROM pg_attribute AS a
WHERE a.attrelid IN ('report.plan'::regclass, 'report.failure'::regclass) AND a.attnum > 0
    AND a.attname NOT IN ('total_tokens', 'tool_name', 'cause_kind', 'cause_tool', 'cause_text', 'recovered', 'is_cause')
    OR a.attrelid = 'report.failure'::regclass AND a.attname = 'tool_name';
DROP VIEW report.failure;
CREATE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error,
    COALESCE(p.user_id, r.user_id) AS user_id, COALESCE(f.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    f.agent_version, f.attempt
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS conversation_id, NULL::text AS agent_name, NULL::text AS agent_version, NULL::text AS tool_name,
        x.state, x.error_kind, x.error_message, NULL::integer AS attempt
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.conversation_id, x.agent_name, x.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'),
        x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.conversation_id, a.agent_name, a.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.conversation_id, a.agent_name, a.agent_version, x.name, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL -- attempts before the current one
    SELECT
        t.level, COALESCE(t.end_time, t.happened_at), t.root_plan_id, t.plan_id,
        t.step_id, t.seq, t.tool_call_id, t.part, t.conversation_id, t.agent_name, t.agent_version, t.tool_name, t.state, t.error_kind, t.error, t.attempt
    FROM report.attempt AS t
    WHERE t.retried AND t.state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id;
COMMENT ON VIEW report.failure IS 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED, and for each such attempt before the current one. A failure at one level often causes one at the level above. Filter on failed_at.';
DROP VIEW report.plan;
CREATE VIEW report.plan AS
SELECT
    p.root_plan_id, p.plan_id, p.parent_plan_id, p.tool_call_id,
    p.is_root, p.part, p.first_seen_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(p.conversation_id, r.conversation_id) AS conversation_id, COALESCE(p.trace_id, r.trace_id) AS trace_id,
    p.name, left(p.title, 200) AS title, p.executor, p.tags, p.model_name,
    p.state, p.status, p.completed, p.error_kind, p.start_time, p.end_time, p.last_seen_at,
    CASE WHEN p.start_time <= p.end_time THEN extract(epoch FROM p.end_time - p.start_time)::double precision END AS duration_seconds,
    p.steps, p.cycles, p.model_calls, p.tool_calls, p.failures, p.input_tokens, p.output_tokens, p.cache_read_input_tokens,
    p.cache_creation_input_tokens, p.reasoning_tokens, p.cost_usd, p.think_ms::double precision / 1000 AS think_seconds,
    p.tool_ms::double precision / 1000 AS tool_seconds, p.waits, p.wait_seconds, p.total_plans, p.total_steps, p.total_cycles, p.total_model_calls,
    p.total_tool_calls, p.total_failures, p.total_input_tokens, p.total_output_tokens, p.total_cache_read_input_tokens,
    p.total_cache_creation_input_tokens, p.total_reasoning_tokens, p.total_cost_usd,
    p.total_think_ms::double precision / 1000 AS total_think_seconds, p.total_tool_ms::double precision / 1000 AS total_tool_seconds, p.total_waits,
    p.total_wait_seconds, p.happened_at, p.depth
FROM (
    SELECT
        p.root_plan_id, p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id, p.part, p.first_seen_at, p.project, p.environment, p.release,
        p.user_id, p.conversation_id, p.trace_id, p.name, p.title, p.executor, p.tags, p.model_name, p.state, p.status, p.completed, p.error_kind,
        p.start_time, p.end_time, p.last_seen_at, COALESCE(p.start_time, p.first_seen_at) AS happened_at, true AS is_root, 0 AS depth,
        COALESCE(f.steps, 0) AS steps, COALESCE(f.cycles, 0) AS cycles, COALESCE(f.model_calls, 0) AS model_calls,
        COALESCE(f.tool_calls, 0) AS tool_calls, COALESCE(f.failures, 0) AS failures, COALESCE(f.input_tokens, 0) AS input_tokens,
        COALESCE(f.output_tokens, 0) AS output_tokens, COALESCE(f.cache_read_input_tokens, 0) AS cache_read_input_tokens,
        COALESCE(f.cache_creation_input_tokens, 0) AS cache_creation_input_tokens, COALESCE(f.reasoning_tokens, 0) AS reasoning_tokens,
        COALESCE(f.think_ms, 0) AS think_ms, COALESCE(f.tool_ms, 0) AS tool_ms, f.cost_usd, COALESCE(f.total_steps, 0) AS total_steps,
        COALESCE(f.total_cycles, 0) AS total_cycles, COALESCE(f.total_model_calls, 0) AS total_model_calls,
        COALESCE(f.total_tool_calls, 0) AS total_tool_calls, COALESCE(f.total_failures, 0) AS total_failures,
        COALESCE(f.total_input_tokens, 0) AS total_input_tokens, COALESCE(f.total_output_tokens, 0) AS total_output_tokens,
        COALESCE(f.total_cache_read_input_tokens, 0) AS total_cache_read_input_tokens,
        COALESCE(f.total_cache_creation_input_tokens, 0) AS total_cache_creation_input_tokens,
        COALESCE(f.total_reasoning_tokens, 0) AS total_reasoning_tokens, COALESCE(f.total_think_ms, 0) AS total_think_ms,
        COALESCE(f.total_tool_ms, 0) AS total_tool_ms, f.total_cost_usd,
        COALESCE(w.waits, 0) AS waits, COALESCE(w.wait_seconds, 0)::double precision AS wait_seconds,
        COALESCE(w.total_waits, 0) AS total_waits, COALESCE(w.total_wait_seconds, 0)::double precision AS total_wait_seconds,
        (SELECT count(*) FROM actlog.plan_execution_record AS t WHERE t.root_plan_id = p.root_plan_id) AS total_plans
    FROM actlog.plan_execution_record AS p
    LEFT JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE a.shown_plan_id = a.root_plan_id) AS steps, count(*) AS total_steps,
            sum(a.cycles) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cycles, sum(a.cycles)::bigint AS total_cycles,
            sum(a.model_calls) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS model_calls, sum(a.model_calls)::bigint AS total_model_calls,
            sum(a.tool_calls) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS tool_calls, sum(a.tool_calls)::bigint AS total_tool_calls,
            sum(a.failures) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS failures, sum(a.failures)::bigint AS total_failures,
            sum(a.input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS input_tokens, sum(a.input_tokens)::bigint AS total_input_tokens,
            sum(a.output_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS output_tokens, sum(a.output_tokens)::bigint AS total_output_tokens,
            sum(a.cache_read_input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cache_read_input_tokens, sum(a.cache_read_input_tokens)::bigint AS total_cache_read_input_tokens,
            sum(a.cache_creation_input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cache_creation_input_tokens, sum(a.cache_creation_input_tokens)::bigint AS total_cache_creation_input_tokens,
            sum(a.reasoning_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS reasoning_tokens, sum(a.reasoning_tokens)::bigint AS total_reasoning_tokens,
            sum(a.think_ms) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS think_ms, sum(a.think_ms)::bigint AS total_think_ms,
            sum(a.tool_ms) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS tool_ms, sum(a.tool_ms)::bigint AS total_tool_ms,
            sum(a.cost_usd) FILTER (WHERE a.shown_plan_id = a.root_plan_id) AS cost_usd, sum(a.cost_usd) AS total_cost_usd
        FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = p.root_plan_id
    ) AS f ON true
    LEFT JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE w.plan_id = w.root_plan_id) AS waits, count(*) AS total_waits,
            sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) FILTER (WHERE w.plan_id = w.root_plan_id) AS wait_seconds,
            sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) AS total_wait_seconds
        FROM actlog.wait_state AS w
        WHERE w.root_plan_id = p.root_plan_id
    ) AS w ON true
    WHERE p.root_plan_id = p.current_plan_id
    UNION ALL
    SELECT
        t.root_plan_id, s.plan_id, s.parent_plan_id, s.tool_call_id, t.part, s.first_seen_at, s.project, s.environment, s.release, s.user_id,
        s.conversation_id, s.trace_id, s.name, s.title, s.executor, s.tags, s.model_name, s.state, s.status, s.completed, s.error_kind, s.start_time,
        s.end_time, s.last_seen_at, s.happened_at, false, (s.figures ->> 'depth')::integer,
        (s.figures ->> 'steps')::bigint, (s.figures ->> 'cycles')::bigint, (s.figures ->> 'model_calls')::bigint,
        (s.figures ->> 'tool_calls')::bigint, (s.figures ->> 'failures')::bigint, (s.figures ->> 'input_tokens')::bigint,
        (s.figures ->> 'output_tokens')::bigint, (s.figures ->> 'cache_read_input_tokens')::bigint,
        (s.figures ->> 'cache_creation_input_tokens')::bigint, (s.figures ->> 'reasoning_tokens')::bigint, (s.figures ->> 'think_ms')::bigint,
        (s.figures ->> 'tool_ms')::bigint, (s.figures ->> 'cost_usd')::numeric, (s.figures ->> 'total_steps')::bigint,
        (s.figures ->> 'total_cycles')::bigint, (s.figures ->> 'total_model_calls')::bigint, (s.figures ->> 'total_tool_calls')::bigint,
        (s.figures ->> 'total_failures')::bigint, (s.figures ->> 'total_input_tokens')::bigint, (s.figures ->> 'total_output_tokens')::bigint,
        (s.figures ->> 'total_cache_read_input_tokens')::bigint, (s.figures ->> 'total_cache_creation_input_tokens')::bigint,
        (s.figures ->> 'total_reasoning_tokens')::bigint, (s.figures ->> 'total_think_ms')::bigint, (s.figures ->> 'total_tool_ms')::bigint,
        (s.figures ->> 'total_cost_usd')::numeric, (s.figures ->> 'waits')::bigint, (s.figures ->> 'wait_seconds')::double precision,
        (s.figures ->> 'total_waits')::bigint, (s.figures ->> 'total_wait_seconds')::double precision, (s.figures ->> 'total_plans')::bigint
    FROM (SELECT DISTINCT q.part, q.root_plan_id FROM actlog.plan_execution_record AS q WHERE q.root_plan_id <> q.current_plan_id) AS t
    CROSS JOIN LATERAL (
        SELECT
            p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id, p.first_seen_at, p.project, p.environment, p.release, p.user_id,
            p.conversation_id, p.trace_id, p.name, p.title, p.executor, p.tags, p.model_name, p.state, p.status, p.completed, p.error_kind,
            p.start_time, p.end_time, p.last_seen_at, COALESCE(p.start_time, p.first_seen_at) AS happened_at,
            (SELECT actlog.sub_plan_figures(t.root_plan_id)) -> p.current_plan_id AS figures
        FROM actlog.plan_execution_record AS p
        WHERE p.root_plan_id = t.root_plan_id AND p.current_plan_id <> p.root_plan_id
        ORDER BY p.current_plan_id
    ) AS s
) AS p
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id;
COMMENT ON VIEW report.plan IS 'One row per plan, root plans and sub-plans. Filter on happened_at. Figures are those of the plan itself; total_ figures include its sub-plans.';
-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT * FROM kept_comments WHERE comment IS NOT NULL LOOP
        EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', c.view, c.name, c.comment);
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP TABLE actlog.cause_progress, actlog.cause;
DROP FUNCTION actlog.cause_rows(text, date), actlog.error_text(text);

COMMENT ON FUNCTION actlog.failed_rows(text, date) IS
    'The rows of a tree that failed, the last 50 of each kind, and the plans, steps and calls above them, without long texts; null: none failed.';

DROP INDEX actlog.act_tool_bad_root, actlog.think_act_bad_root, actlog.agent_bad_root, actlog.plan_bad_root;
CREATE INDEX plan_failed_root ON actlog.plan_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
CREATE INDEX agent_failed_root ON actlog.agent_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
CREATE INDEX think_act_failed_root ON actlog.think_act_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
CREATE INDEX act_tool_failed_root ON actlog.act_tool_info (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
