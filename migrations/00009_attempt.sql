-- Every attempt at a step, a cycle or a tool call stays on record: how the earlier ones went
-- stands in the row of the last one. docs/design.md explains how they are merged.

-- +goose Up

-- Without a default, the columns are added at once, and rows that were never attempted again
-- stay as small as they are.
ALTER TABLE actlog.agent_execution_record ADD COLUMN attempts jsonb;
ALTER TABLE actlog.think_act_record ADD COLUMN attempts jsonb;
ALTER TABLE actlog.act_tool_info ADD COLUMN attempts jsonb;
COMMENT ON COLUMN actlog.agent_execution_record.attempts IS 'The attempts before the current one, in their order: number, state, times, error and their revisions; null: none.';
COMMENT ON COLUMN actlog.think_act_record.attempts IS 'The attempts before the current one, in their order: number, state, times, error and their revisions; null: none.';
COMMENT ON COLUMN actlog.act_tool_info.attempts IS 'The attempts before the current one, in their order: number, state, times, error and their revisions; null: none.';

COMMENT ON COLUMN actlog.agent_execution_record.start_time IS 'When the current attempt began: the earliest start that was reported.';
COMMENT ON COLUMN actlog.agent_execution_record.last_seen_at IS 'Roll-up: the latest time that was reported for the current attempts of the cycles and tool calls of the step.';
COMMENT ON COLUMN actlog.think_act_record.think_start_time IS 'When the model call of the current attempt began.';
COMMENT ON COLUMN actlog.think_act_record.think_end_time IS 'When the model had finished its answer, in the current attempt.';
COMMENT ON COLUMN actlog.think_act_record.first_token_time IS 'When the first token of the answer arrived, in the current attempt.';
COMMENT ON COLUMN actlog.think_act_record.act_start_time IS 'When the first tool call of the current attempt began.';
COMMENT ON COLUMN actlog.think_act_record.act_end_time IS 'When the last tool call of the current attempt ended.';
COMMENT ON COLUMN actlog.act_tool_info.start_time IS 'When the current attempt began.';
COMMENT ON COLUMN actlog.act_tool_info.end_time IS 'When the current attempt ended.';

-- An attempt in the list is an object: {"attempt": 1, "state": "FAILED", "startTime": "...",
-- "revs": {"state": 5}}. internal/field writes and reads the same. The rules say what belongs to
-- an attempt: {"state": {"rule": "forward", "rev": 8, "time": false}}, where rev is the place in
-- the revisions of the row, or 0.

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
        ELSIF octet_length(value) > 16384 THEN -- cut at a character boundary
            bytes := convert_to(value, 'UTF8');
            size := 16384;
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
    'What the columns of a row say about its own attempt, as it is kept in the list of attempts; null: nothing. Texts are cut at 16 KiB.';

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

-- The place of a step or a call in its tree follows from its first start, so that another
-- attempt does not move it.

-- +goose StatementBegin
CREATE FUNCTION actlog.first_start(attempts jsonb) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT min((e ->> 'startTime') COLLATE "C")::timestamptz FROM jsonb_array_elements(attempts) AS e
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.first_start(jsonb) IS 'When the first of the earlier attempts at a step or a tool call began; null: not reported.';

-- Reports. ------------------------------------------------------------------------

-- Few rows have attempts before their current one.
CREATE INDEX agent_attempts ON actlog.agent_execution_record (root_plan_id) WHERE attempts IS NOT NULL;
CREATE INDEX think_act_attempts ON actlog.think_act_record (root_plan_id) WHERE attempts IS NOT NULL;
CREATE INDEX act_tool_attempts ON actlog.act_tool_info (root_plan_id) WHERE attempts IS NOT NULL;

CREATE VIEW report.attempt AS
SELECT
    x.level, COALESCE(x.start_time, x.end_time, p.first_seen_at) AS attempted_at,
    x.root_plan_id, x.plan_id, x.step_id, x.seq, x.tool_call_id, x.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, x.agent_name, x.tool_name, x.attempt, x.retried, x.state, x.last_state, x.error_kind,
    split_part(left(x.error_message, 500), E'\n', 1) AS error, x.start_time, x.end_time,
    CASE WHEN x.start_time <= x.end_time THEN extract(epoch FROM x.end_time - x.start_time)::double precision WHEN x.end_time < x.start_time THEN 0 END AS duration_seconds
FROM (
    SELECT
        'agent_execution' AS level, a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, NULL::integer AS seq, NULL::text AS tool_call_id,
        a.part, a.agent_name, NULL::text AS tool_name, a.state AS last_state,
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
        'think_act', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, NULL, c.part, a.agent_name, NULL, c.state,
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
        'tool_call', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, c.tool_call_id, c.part, a.agent_name, c.name, c.state,
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

CREATE OR REPLACE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error, f.attempt
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS agent_name, NULL::text AS tool_name, x.state, x.error_kind, x.error_message, NULL::integer AS attempt
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.agent_name, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.agent_name, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.agent_name, x.name, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL -- attempts before the current one
    SELECT
        t.level, COALESCE(t.end_time, t.attempted_at), t.root_plan_id, t.plan_id,
        t.step_id, t.seq, t.tool_call_id, t.part, t.agent_name, t.tool_name, t.state, t.error_kind, t.error, t.attempt
    FROM report.attempt AS t
    WHERE t.retried AND t.state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id;

-- +goose StatementBegin
DO $$
DECLARE
    v record;
    c record;
BEGIN
    FOR v IN SELECT * FROM (VALUES
        ('attempt', 'One row per attempt at each step, cycle and tool call that was attempted again. Where retried is true, state and error say why. Filter on attempted_at.'),
        ('failure', 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED, and for each such attempt before the current one. A failure at one level often causes one at the level above. Filter on failed_at.')
    ) AS x (name, comment) LOOP
        EXECUTE format('COMMENT ON VIEW report.%I IS %L', v.name, v.comment);
    END LOOP;
    FOR c IN SELECT * FROM (VALUES
        ('attempt', 'level', 'What was attempted: agent_execution, think_act or tool_call.'),
        ('attempt', 'attempted_at', 'When the attempt began; if that was not reported, when it ended, else when its plan was first seen.'),
        ('attempt', 'attempt', 'The number of the attempt, from 1.'),
        ('attempt', 'retried', 'Whether a later attempt followed.'),
        ('attempt', 'state', 'How the attempt went: as in the other views.'),
        ('attempt', 'last_state', 'How the current attempt went: COMPLETED if the retries helped.'),
        ('attempt', 'start_time', 'When the attempt began: the earliest start that was reported; of a cycle, when its thinking began.'),
        ('attempt', 'end_time', 'When the attempt ended: the latest end that was reported.'),
        ('attempt', 'duration_seconds', 'Seconds from start to end of the attempt; null until both are known.'),
        ('failure', 'attempt', 'Which attempt at the step, cycle or tool call failed, from 1; null for a plan.')
    ) AS x (view, name, comment) LOOP
        EXECUTE format('COMMENT ON COLUMN report.%I.%I IS %L', c.view, c.name, c.comment);
    END LOOP;
    -- The other columns mean what they mean in the other views.
    FOR c IN
        SELECT DISTINCT ON (a.attname) a.attname, col_description(o.attrelid, o.attnum) AS comment
        FROM pg_attribute AS a
        JOIN pg_attribute AS o ON o.attname = a.attname AND o.attrelid IN ('report.failure'::regclass, 'report.tool_call'::regclass)
        WHERE a.attrelid = 'report.attempt'::regclass AND a.attnum > 0 AND col_description(a.attrelid, a.attnum) IS NULL
        ORDER BY a.attname, o.attrelid
    LOOP
        EXECUTE format('COMMENT ON COLUMN report.attempt.%I IS %L', c.attname, c.comment);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- A view cannot lose a column, so it is made again, with its comments.
CREATE TEMPORARY TABLE said ON COMMIT DROP AS
    SELECT attname, col_description(attrelid, attnum) AS comment
    FROM pg_attribute
    WHERE attrelid = 'report.failure'::regclass AND attnum > 0 AND attname <> 'attempt';
DROP VIEW report.failure;
DROP VIEW report.attempt;
CREATE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS agent_name, NULL::text AS tool_name, x.state, x.error_kind, x.error_message
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.agent_name, NULL, x.state, x.error_kind, x.error_message
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.agent_name, NULL, x.state, x.error_kind, x.error_message
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.agent_name, x.name, x.state, x.error_kind, x.error_message
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id;
COMMENT ON VIEW report.failure IS 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED. A failure at one level often causes one at the level above. Filter on failed_at.';
-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT attname, comment FROM said LOOP
        EXECUTE format('COMMENT ON COLUMN report.failure.%I IS %L', c.attname, c.comment);
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP INDEX actlog.act_tool_attempts;
DROP INDEX actlog.think_act_attempts;
DROP INDEX actlog.agent_attempts;

COMMENT ON COLUMN actlog.agent_execution_record.start_time IS 'When the step began: the earliest start that was reported.';
COMMENT ON COLUMN actlog.agent_execution_record.last_seen_at IS 'Roll-up: the latest time that was reported for the cycles and tool calls of the step.';
COMMENT ON COLUMN actlog.think_act_record.think_start_time IS 'When the model call began.';
COMMENT ON COLUMN actlog.think_act_record.think_end_time IS 'When the model had finished its answer.';
COMMENT ON COLUMN actlog.think_act_record.first_token_time IS 'When the first token of the answer arrived.';
COMMENT ON COLUMN actlog.think_act_record.act_start_time IS 'When the first tool call began.';
COMMENT ON COLUMN actlog.think_act_record.act_end_time IS 'When the last tool call ended.';
COMMENT ON COLUMN actlog.act_tool_info.start_time IS 'When the call began.';
COMMENT ON COLUMN actlog.act_tool_info.end_time IS 'When the call ended.';
DROP FUNCTION actlog.first_start(jsonb);
DROP FUNCTION actlog.merge_attempts(jsonb, jsonb, jsonb, jsonb, jsonb);
DROP FUNCTION actlog.merge_attempt(jsonb, jsonb, jsonb);
DROP FUNCTION actlog.own_attempt(jsonb, jsonb);
ALTER TABLE actlog.act_tool_info DROP COLUMN attempts;
ALTER TABLE actlog.think_act_record DROP COLUMN attempts;
ALTER TABLE actlog.agent_execution_record DROP COLUMN attempts;
