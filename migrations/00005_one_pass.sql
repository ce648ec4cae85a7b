-- A tree has one writer at a time, because every writer first locks the row of the root plan.
-- So the rows of a tree can be written in any order. Steps come last, and are written together
-- with their roll-ups.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

ALTER TABLE actlog.think_act_record ALTER CONSTRAINT think_act_record_root_plan_id_step_id_fkey DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE actlog.act_tool_info ALTER CONSTRAINT act_tool_info_root_plan_id_step_id_fkey DEFERRABLE INITIALLY DEFERRED;

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

-- +goose Down

ALTER TABLE actlog.think_act_record ALTER CONSTRAINT think_act_record_root_plan_id_step_id_fkey NOT DEFERRABLE;
ALTER TABLE actlog.act_tool_info ALTER CONSTRAINT act_tool_info_root_plan_id_step_id_fkey NOT DEFERRABLE;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION actlog.add_partition(parent text, from_day date, to_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    child   text := format('%s_p%s', parent, to_char(from_day, 'YYYYMMDD'));
    columns text;
BEGIN
    IF NOT has_schema_privilege('actlog', 'CREATE') THEN -- before anything is locked
        RAISE insufficient_privilege USING MESSAGE = 'permission denied to add a partition';
    END IF;
    -- Lock in the same order as writers; otherwise the foreign key of the new partition
    -- deadlocks with them. Lock before rows move; otherwise rows that a writer adds
    -- meanwhile are lost.
    LOCK TABLE actlog.agent_execution_record IN SHARE ROW EXCLUSIVE MODE;
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
    DROP TABLE moved;
END
$$;
-- +goose StatementEnd
