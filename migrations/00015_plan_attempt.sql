-- Runs that go on after they have ended: how they ended before stays on record, as with steps.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN ACCESS EXCLUSIVE MODE;

ALTER TABLE actlog.plan_execution_record
    ADD COLUMN attempt integer,
    ADD COLUMN attempts jsonb,
    ADD CONSTRAINT plan_attempt CHECK (attempt >= 1);

COMMENT ON COLUMN actlog.plan_execution_record.attempt IS 'Which attempt at the run this is, from 1; null: the first.';
COMMENT ON COLUMN actlog.plan_execution_record.attempts IS 'The attempts before the current one, in their order: number, state, end, error and their revisions; null: none.';
SELECT actlog.compress_texts('actlog.plan_execution_record');

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL AND p.started_by IS NULL AND p.attempt IS NULL
$$;
-- +goose StatementEnd

CREATE INDEX plan_attempts ON actlog.plan_execution_record (root_plan_id) WHERE attempts IS NOT NULL;

CREATE OR REPLACE VIEW report.attempt AS
SELECT
    x.level, COALESCE(x.start_time, x.end_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    x.root_plan_id, x.plan_id, x.step_id, x.seq, x.tool_call_id, x.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, x.agent_name, x.tool_name, x.attempt, x.retried, x.state, x.last_state, x.error_kind,
    split_part(left(x.error_message, 500), E'\n', 1) AS error, x.start_time, x.end_time,
    CASE WHEN x.start_time <= x.end_time THEN extract(epoch FROM x.end_time - x.start_time)::double precision END AS duration_seconds,
    COALESCE(x.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id, x.agent_version
FROM (
    SELECT
        'plan' AS level, t.root_plan_id, t.current_plan_id AS plan_id, NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id,
        t.part, t.first_seen_at, t.conversation_id, NULL::text AS agent_name, NULL::text AS agent_version, NULL::text AS tool_name, t.state AS last_state,
        y.attempt, y.retried, y.state, CASE WHEN y.attempt = 1 THEN t.start_time END AS start_time, y.end_time, y.error_message, y.error_kind
    FROM actlog.plan_execution_record AS t
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            (e.entry ->> 'endTime')::timestamptz AS end_time, e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(t.attempts) AS e (entry)
        UNION ALL
        SELECT t.attempt, false, t.state, t.end_time, t.error_message, t.error_kind
    ) AS y
    WHERE t.attempts IS NOT NULL
    UNION ALL
    SELECT
        'agent_execution' AS level, a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, NULL::integer AS seq, NULL::text AS tool_call_id,
        a.part, a.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, NULL::text AS tool_name, a.state AS last_state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.agent_execution_record AS a
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'IDLE') AS state,
            (e.entry ->> 'startTime')::timestamptz AS start_time, (e.entry ->> 'endTime')::timestamptz AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(a.attempts) AS e (entry)
        UNION ALL
        SELECT a.attempt, false, a.state, a.start_time, a.end_time, a.error_message, a.error_kind
    ) AS t
    WHERE a.attempts IS NOT NULL
    UNION ALL
    SELECT
        'think_act', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, NULL, c.part, c.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, NULL, c.state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.think_act_record AS c
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            COALESCE(e.entry ->> 'thinkStartTime', e.entry ->> 'actStartTime')::timestamptz AS start_time,
            GREATEST((e.entry ->> 'thinkEndTime')::timestamptz, (e.entry ->> 'actEndTime')::timestamptz) AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(c.attempts) AS e (entry)
        UNION ALL
        SELECT c.attempt, false, c.state, COALESCE(c.think_start_time, c.act_start_time), GREATEST(c.think_end_time, c.act_end_time), c.error_message, c.error_kind
    ) AS t
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    WHERE c.attempts IS NOT NULL
    UNION ALL
    SELECT
        'tool_call', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, c.tool_call_id, c.part, c.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, c.name, c.state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.act_tool_info AS c
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            (e.entry ->> 'startTime')::timestamptz AS start_time, (e.entry ->> 'endTime')::timestamptz AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(c.attempts) AS e (entry)
        UNION ALL
        SELECT c.attempt, false, c.state, c.start_time, c.end_time, c.error_message, c.error_kind
    ) AS t
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    WHERE c.attempts IS NOT NULL
) AS x
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id;
COMMENT ON VIEW report.attempt IS 'One row per attempt at each plan, step, cycle and tool call that was attempted again. Where retried is true, state and error say why. Filter on happened_at.';
COMMENT ON COLUMN report.attempt.level IS 'What was attempted: plan, agent_execution, think_act or tool_call.';
COMMENT ON COLUMN report.attempt.start_time IS 'When the attempt began: the earliest start that was reported; of a cycle, when its thinking began; of a plan, only of its first attempt.';

-- +goose Down

CREATE OR REPLACE VIEW report.attempt AS
SELECT
    x.level, COALESCE(x.start_time, x.end_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    x.root_plan_id, x.plan_id, x.step_id, x.seq, x.tool_call_id, x.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, x.agent_name, x.tool_name, x.attempt, x.retried, x.state, x.last_state, x.error_kind,
    split_part(left(x.error_message, 500), E'\n', 1) AS error, x.start_time, x.end_time,
    CASE WHEN x.start_time <= x.end_time THEN extract(epoch FROM x.end_time - x.start_time)::double precision END AS duration_seconds,
    COALESCE(x.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id, x.agent_version
FROM (
    SELECT
        'agent_execution' AS level, a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, NULL::integer AS seq, NULL::text AS tool_call_id,
        a.part, a.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, NULL::text AS tool_name, a.state AS last_state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.agent_execution_record AS a
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'IDLE') AS state,
            (e.entry ->> 'startTime')::timestamptz AS start_time, (e.entry ->> 'endTime')::timestamptz AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(a.attempts) AS e (entry)
        UNION ALL
        SELECT a.attempt, false, a.state, a.start_time, a.end_time, a.error_message, a.error_kind
    ) AS t
    WHERE a.attempts IS NOT NULL
    UNION ALL
    SELECT
        'think_act', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, NULL, c.part, c.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, NULL, c.state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.think_act_record AS c
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            COALESCE(e.entry ->> 'thinkStartTime', e.entry ->> 'actStartTime')::timestamptz AS start_time,
            GREATEST((e.entry ->> 'thinkEndTime')::timestamptz, (e.entry ->> 'actEndTime')::timestamptz) AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(c.attempts) AS e (entry)
        UNION ALL
        SELECT c.attempt, false, c.state, COALESCE(c.think_start_time, c.act_start_time), GREATEST(c.think_end_time, c.act_end_time), c.error_message, c.error_kind
    ) AS t
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    WHERE c.attempts IS NOT NULL
    UNION ALL
    SELECT
        'tool_call', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, c.tool_call_id, c.part, c.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, c.name, c.state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.act_tool_info AS c
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            (e.entry ->> 'startTime')::timestamptz AS start_time, (e.entry ->> 'endTime')::timestamptz AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(c.attempts) AS e (entry)
        UNION ALL
        SELECT c.attempt, false, c.state, c.start_time, c.end_time, c.error_message, c.error_kind
    ) AS t
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    WHERE c.attempts IS NOT NULL
) AS x
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id;
COMMENT ON VIEW report.attempt IS 'One row per attempt at each step, cycle and tool call that was attempted again. Where retried is true, state and error say why. Filter on happened_at.';
COMMENT ON COLUMN report.attempt.level IS 'What was attempted: agent_execution, think_act or tool_call.';
COMMENT ON COLUMN report.attempt.start_time IS 'When the attempt began: the earliest start that was reported; of a cycle, when its thinking began.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.is_placeholder(p actlog.plan_execution_record) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p.told_state IS NULL AND p.start_time IS NULL AND p.title IS NULL AND p.name IS NULL AND p.parent_plan_id IS NULL
        AND p.tool_call_id IS NULL AND p.executor IS NULL AND p.user_request IS NULL AND p.project IS NULL AND p.user_id IS NULL
        AND p.tags IS NULL AND p.environment IS NULL AND p.release IS NULL AND p.conversation_id IS NULL AND p.trace_id IS NULL
        AND p.end_time IS NULL AND p.summary IS NULL AND p.model_name IS NULL AND p.error_message IS NULL AND p.error_kind IS NULL
        AND p.exception IS NULL AND p.metadata IS NULL AND p.last_seen_at IS NULL AND p.started_by IS NULL
$$;
-- +goose StatementEnd

ALTER TABLE actlog.plan_execution_record DROP COLUMN attempts, DROP COLUMN attempt;
