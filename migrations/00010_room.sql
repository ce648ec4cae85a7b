-- Cycles have room to grow on their page: a cycle is written when it begins, and twice more. Pages that are full already
-- stay so.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    partition regclass;
BEGIN
    FOR partition IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'actlog.think_act_record'::regclass LOOP
        EXECUTE format('ALTER TABLE %s SET (fillfactor = 75)', partition);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- A partition is stored as the default partition is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.add_partition(parent text, from_day date, to_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    child   text := format('%s_p%s', parent, to_char(from_day, 'YYYYMMDD'));
    columns text;
    options text;
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
    SELECT 'WITH (' || array_to_string(reloptions, ', ') || ')' INTO options
        FROM pg_class WHERE oid = format('actlog.%I', parent || '_default')::regclass;
    EXECUTE format('CREATE TABLE actlog.%I PARTITION OF actlog.%I FOR VALUES FROM (%L) TO (%L) %s', child, parent, from_day, to_day, options);
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
    'Adds the partition of parent for the days from from_day up to, but without, to_day. Rows of these days move there from the default partition, whose options it has.';

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.add_partition(parent text, from_day date, to_day date) RETURNS void LANGUAGE plpgsql AS $$
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

-- +goose StatementBegin
DO $$
DECLARE
    partition regclass;
BEGIN
    FOR partition IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'actlog.think_act_record'::regclass LOOP
        EXECUTE format('ALTER TABLE %s RESET (fillfactor)', partition);
    END LOOP;
END
$$;
-- +goose StatementEnd
