-- Every attempt at a step, a cycle or a tool call stays on record: how the earlier ones went
-- stands in the row of the last one. docs/design.md explains how they are merged.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

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

-- It now also compresses jsonb.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.compress_texts(parent regclass) RETURNS void LANGUAGE plpgsql AS $$
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
SELECT actlog.compress_texts(t::regclass) FROM unnest('{actlog.agent_execution_record,actlog.think_act_record,actlog.act_tool_info}'::text[]) AS t;

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

-- The place of a step or a call in its tree follows from its first start, so that another
-- attempt does not move it.

-- +goose StatementBegin
CREATE FUNCTION actlog.first_start(attempts jsonb) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT min((e ->> 'startTime') COLLATE "C")::timestamptz FROM jsonb_array_elements(attempts) AS e
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.first_start(jsonb) IS 'When the first of the earlier attempts at a step or a tool call began; null: not reported.';

-- Few rows have attempts before their current one. Reports find them here.
CREATE INDEX agent_attempts ON actlog.agent_execution_record (root_plan_id) WHERE attempts IS NOT NULL;
CREATE INDEX think_act_attempts ON actlog.think_act_record (root_plan_id) WHERE attempts IS NOT NULL;
CREATE INDEX act_tool_attempts ON actlog.act_tool_info (root_plan_id) WHERE attempts IS NOT NULL;

-- +goose Down

DROP INDEX actlog.act_tool_attempts, actlog.think_act_attempts, actlog.agent_attempts;
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.compress_texts(parent regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    col record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        RETURN;
    END IF;
    FOR col IN SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE (c.oid = parent OR c.oid IN (SELECT relid FROM pg_partition_tree(parent))) AND a.attnum > 0 AND NOT a.attisdropped
            AND a.atttypid IN ('text'::regtype, 'json'::regtype) AND a.attcompression <> 'l'
    LOOP
        EXECUTE format('ALTER TABLE actlog.%I ALTER COLUMN %I SET COMPRESSION lz4', col.relname, col.attname);
    END LOOP;
END
$$;
-- +goose StatementEnd
