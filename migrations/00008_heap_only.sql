-- Nothing is indexed any more that changes when a row ends. So Postgres writes the new version of the row beside the old
-- one, and no index.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

DROP INDEX actlog.plan_bad_root;
DROP INDEX actlog.agent_bad_root;
DROP INDEX actlog.think_act_bad_root;
DROP INDEX actlog.act_tool_bad_root;
DROP INDEX actlog.plan_failed;
DROP INDEX actlog.agent_failed;
DROP INDEX actlog.think_act_failed;
DROP INDEX actlog.act_tool_failed;
DROP INDEX actlog.agent_time;
DROP INDEX actlog.think_act_time;
DROP INDEX actlog.act_tool_time;

-- The times of the views, which say the same as before: a row without a start has its end in first_seen_at.
-- +goose StatementBegin
DO $$
DECLARE
    view    text;
    before  text;
    after   text;
BEGIN
    FOREACH view IN ARRAY '{agent_execution,think_act,tool_call,usage_daily,tool_daily,unpriced_model}'::text[] LOOP
        before := pg_get_viewdef(format('report.%I', view)::regclass);
        after := regexp_replace(before, '\m((?:\w+\.)?)think_start_time, \1think_end_time, \1act_start_time, \1act_end_time, \1first_seen_at', '\1think_start_time, \1first_seen_at', 'g');
        after := regexp_replace(after, '\m((?:\w+\.)?)start_time, \1end_time, \1first_seen_at', '\1start_time, \1first_seen_at', 'g');
        IF after = before THEN
            RAISE EXCEPTION 'view report.% has no such time', view;
        END IF;
        EXECUTE format('CREATE OR REPLACE VIEW report.%I AS %s', view, after);
    END LOOP;
END
$$;
-- +goose StatementEnd

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
        'plan' AS level, y.failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS conversation_id, NULL::text AS agent_name, NULL::text AS agent_version, NULL::text AS tool_name,
        x.state, x.error_kind, x.error_message, NULL::integer AS attempt, false AS past
    FROM actlog.failure AS y
    JOIN actlog.plan_execution_record AS x ON x.root_plan_id = y.root_plan_id AND x.current_plan_id = y.id
    WHERE y.kind = 'plan' AND y.state <> 'CANCELLED' AND x.told_state = y.state
    UNION ALL
    SELECT
        'agent_execution', y.failed_at, x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.conversation_id, x.agent_name, x.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.failure AS y
    JOIN actlog.agent_execution_record AS x ON x.root_plan_id = y.root_plan_id AND x.step_id = y.step_id
    WHERE y.kind = 'agentExecution' AND y.state <> 'CANCELLED' AND x.told_state = y.state
    UNION ALL
    SELECT
        'think_act', y.failed_at,
        x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.conversation_id, a.agent_name, a.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.failure AS y
    JOIN actlog.think_act_record AS x ON x.root_plan_id = y.root_plan_id AND x.step_id = y.step_id AND x.seq = y.seq AND x.part = y.part
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE y.kind = 'thinkAct' AND y.state <> 'CANCELLED' AND x.told_state = y.state
    UNION ALL
    SELECT
        'tool_call', y.failed_at, x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.conversation_id, a.agent_name, a.agent_version, x.name, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.failure AS y
    JOIN actlog.act_tool_info AS x ON x.root_plan_id = y.root_plan_id AND x.step_id = y.step_id AND x.seq = y.seq AND x.tool_call_id = y.id AND x.part = y.part
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE y.kind = 'actTool' AND y.state <> 'CANCELLED' AND x.told_state = y.state
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

-- Servers of the version before call actlog.cause_rows, which reads the same from the rows themselves.
-- +goose StatementBegin
CREATE FUNCTION actlog.cause_evidence(root text, home date) RETURNS json
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET plan_cache_mode = force_generic_plan -- it opens the partition of the part only
SET jit = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM actlog.failure AS f WHERE f.root_plan_id = root AND f.state <> 'BLOCKED')
        AND NOT EXISTS (SELECT FROM actlog.wait_state AS w WHERE w.root_plan_id = root AND w.state IN ('WAITING', 'TIMED_OUT'))
    THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE
        bad_plans AS MATERIALIZED (
            SELECT x.current_plan_id
            FROM actlog.failure AS f
            CROSS JOIN LATERAL (
                SELECT *
                FROM actlog.plan_execution_record AS y
                WHERE y.root_plan_id = root AND y.current_plan_id = f.id
                OFFSET 0
            ) AS x
            WHERE f.root_plan_id = root AND f.kind = 'plan' AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        bad_steps AS MATERIALIZED (
            SELECT x.step_id
            FROM actlog.failure AS f
            CROSS JOIN LATERAL (
                SELECT *
                FROM actlog.agent_execution_record AS y
                WHERE y.root_plan_id = root AND y.step_id = f.step_id
                OFFSET 0
            ) AS x
            WHERE f.root_plan_id = root AND f.kind = 'agentExecution' AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        bad_cycles AS MATERIALIZED (
            SELECT x.step_id, x.seq, x.state, x.error_kind, x.error_message, x.think_start_time, x.think_end_time, x.act_start_time, x.act_end_time
            FROM actlog.failure AS f
            CROSS JOIN LATERAL (
                SELECT *
                FROM actlog.think_act_record AS y
                WHERE y.root_plan_id = root AND y.part = home AND y.step_id = f.step_id AND y.seq = f.seq
                OFFSET 0
            ) AS x
            WHERE f.root_plan_id = root AND f.kind = 'thinkAct' AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
                AND (x.told_state <> 'CANCELLED' OR x.error_kind <> '' OR x.error_message <> '')
        ),
        bad_calls AS MATERIALIZED (
            SELECT x.step_id, x.seq, x.tool_call_id, x.call_index, x.name, x.state, x.error_kind, x.error_message, x.start_time, x.end_time, x.attempts
            FROM actlog.failure AS f
            CROSS JOIN LATERAL (
                SELECT *
                FROM actlog.act_tool_info AS y
                WHERE y.root_plan_id = root AND y.part = home AND y.step_id = f.step_id AND y.seq = f.seq AND y.tool_call_id = f.id
                OFFSET 0
            ) AS x
            WHERE f.root_plan_id = root AND f.kind = 'actTool' AND x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED')
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
COMMENT ON FUNCTION actlog.cause_evidence(text, date) IS
    'The rows of a tree from which the cause of its state follows: what failed, was stopped or asks, what is above it, the last cycles and the calls that may have recovered it. Some come more than once. Null: there are none.';

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;
DROP FUNCTION actlog.cause_evidence(text, date);
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

-- +goose StatementBegin
DO $$
DECLARE
    view    text;
    before  text;
    after   text;
BEGIN
    FOREACH view IN ARRAY '{agent_execution,think_act,tool_call,usage_daily,tool_daily,unpriced_model}'::text[] LOOP
        before := pg_get_viewdef(format('report.%I', view)::regclass);
        after := regexp_replace(before, '\m((?:\w+\.)?)think_start_time, \1first_seen_at', '\1think_start_time, \1think_end_time, \1act_start_time, \1act_end_time, \1first_seen_at', 'g');
        after := regexp_replace(after, '\m((?:\w+\.)?)start_time, \1first_seen_at', '\1start_time, \1end_time, \1first_seen_at', 'g');
        IF after = before THEN
            RAISE EXCEPTION 'view report.% has no such time', view;
        END IF;
        EXECUTE format('CREATE OR REPLACE VIEW report.%I AS %s', view, after);
    END LOOP;
END
$$;
-- +goose StatementEnd

CREATE INDEX plan_bad_root ON actlog.plan_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
CREATE INDEX agent_bad_root ON actlog.agent_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
CREATE INDEX think_act_bad_root ON actlog.think_act_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
CREATE INDEX act_tool_bad_root ON actlog.act_tool_info (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED');
CREATE INDEX plan_failed ON actlog.plan_execution_record ((COALESCE(end_time, start_time, first_seen_at)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX agent_failed ON actlog.agent_execution_record ((COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX think_act_failed ON actlog.think_act_record ((COALESCE(GREATEST(think_end_time, act_end_time), act_start_time, think_start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX act_tool_failed ON actlog.act_tool_info ((COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX agent_time ON actlog.agent_execution_record USING brin (
    start_time, (COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX think_act_time ON actlog.think_act_record USING brin (
    think_start_time, (COALESCE(think_start_time, think_end_time, act_start_time, act_end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(think_start_time, think_end_time, act_start_time, act_end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX act_tool_time ON actlog.act_tool_info USING brin (
    start_time, (COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
