-- What failed, in a table of its own. An index over the state of rows would have every end of a row write into every
-- index of its table: Postgres leaves the indexes alone only if no column that any of them names has changed.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE TABLE actlog.failure (
    root_plan_id  text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    step_id       text COLLATE "C" NOT NULL DEFAULT '',
    seq           integer NOT NULL DEFAULT 0,
    id            text COLLATE "C" NOT NULL DEFAULT '',
    part          date NOT NULL,
    state         text NOT NULL,
    failed_at     timestamptz NOT NULL,
    PRIMARY KEY (root_plan_id, kind, step_id, seq, id)
);
CREATE INDEX failure_at ON actlog.failure (kind, failed_at) WHERE state <> 'CANCELLED';

COMMENT ON TABLE actlog.failure IS 'The plans, steps, cycles and tool calls that failed or were stopped. Triggers keep it with the rows themselves.';
COMMENT ON COLUMN actlog.failure.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN actlog.failure.kind IS 'The kind of the row: plan, agentExecution, thinkAct or actTool.';
COMMENT ON COLUMN actlog.failure.step_id IS 'The step of a row; empty for a plan.';
COMMENT ON COLUMN actlog.failure.seq IS 'The cycle of a row; 0 for a plan or a step.';
COMMENT ON COLUMN actlog.failure.id IS 'The id of a plan or a tool call; else empty.';
COMMENT ON COLUMN actlog.failure.part IS 'The part of the row.';
COMMENT ON COLUMN actlog.failure.state IS 'The state of the row: FAILED, INTERRUPTED, CANCELLED or BLOCKED.';
COMMENT ON COLUMN actlog.failure.failed_at IS 'When it ended; if that is not known, the latest time that is, else when it was first seen.';

SELECT actlog.compress_texts('actlog.failure');

-- +goose StatementBegin
CREATE FUNCTION actlog.keep_failure() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r  record := COALESCE(NEW, OLD);
    f  actlog.failure;
BEGIN
    f.root_plan_id := r.root_plan_id;
    f.kind := TG_ARGV[0];
    f.step_id := '';
    f.seq := 0;
    f.id := '';
    CASE f.kind
        WHEN 'plan' THEN
            f.id := r.current_plan_id;
            f.failed_at := COALESCE(r.end_time, r.start_time, r.first_seen_at);
        WHEN 'agentExecution' THEN
            f.step_id := r.step_id;
            f.failed_at := COALESCE(r.end_time, r.start_time, r.first_seen_at, r.part::timestamp AT TIME ZONE 'utc');
        WHEN 'thinkAct' THEN
            f.step_id := r.step_id;
            f.seq := r.seq;
            f.failed_at := COALESCE(GREATEST(r.think_end_time, r.act_end_time), r.act_start_time, r.think_start_time, r.first_seen_at, r.part::timestamp AT TIME ZONE 'utc');
        WHEN 'actTool' THEN
            f.step_id := r.step_id;
            f.seq := r.seq;
            f.id := r.tool_call_id;
            f.failed_at := COALESCE(r.end_time, r.start_time, r.first_seen_at, r.part::timestamp AT TIME ZONE 'utc');
    END CASE;

    IF TG_OP = 'DELETE' OR (r.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) IS NOT TRUE THEN
        DELETE FROM actlog.failure AS x
        WHERE x.root_plan_id = f.root_plan_id AND x.kind = f.kind AND x.step_id = f.step_id AND x.seq = f.seq AND x.id = f.id;
        RETURN NULL;
    END IF;
    INSERT INTO actlog.failure AS x (root_plan_id, kind, step_id, seq, id, part, state, failed_at)
    VALUES (f.root_plan_id, f.kind, f.step_id, f.seq, f.id, r.part, r.told_state, f.failed_at)
    ON CONFLICT (root_plan_id, kind, step_id, seq, id) DO UPDATE
    SET part = excluded.part, state = excluded.state, failed_at = excluded.failed_at;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.keep_failure() IS
    'Keeps the row of actlog.failure of a row that has failed, was stopped, or no longer is so. Its argument is the kind.';

CREATE TRIGGER failed_new AFTER INSERT ON actlog.plan_execution_record
    FOR EACH ROW WHEN (NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('plan');
CREATE TRIGGER failed_changed AFTER UPDATE ON actlog.plan_execution_record
    FOR EACH ROW WHEN ((OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED') OR NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED'))
        AND (OLD.told_state IS DISTINCT FROM NEW.told_state OR OLD.start_time IS DISTINCT FROM NEW.start_time OR OLD.end_time IS DISTINCT FROM NEW.end_time OR OLD.first_seen_at IS DISTINCT FROM NEW.first_seen_at))
    EXECUTE FUNCTION actlog.keep_failure('plan');
CREATE TRIGGER failed_gone AFTER DELETE ON actlog.plan_execution_record
    FOR EACH ROW WHEN (OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('plan');
CREATE TRIGGER failed_new AFTER INSERT ON actlog.agent_execution_record
    FOR EACH ROW WHEN (NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('agentExecution');
CREATE TRIGGER failed_changed AFTER UPDATE ON actlog.agent_execution_record
    FOR EACH ROW WHEN ((OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED') OR NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED'))
        AND (OLD.told_state IS DISTINCT FROM NEW.told_state OR OLD.start_time IS DISTINCT FROM NEW.start_time OR OLD.end_time IS DISTINCT FROM NEW.end_time OR OLD.first_seen_at IS DISTINCT FROM NEW.first_seen_at OR OLD.part IS DISTINCT FROM NEW.part))
    EXECUTE FUNCTION actlog.keep_failure('agentExecution');
CREATE TRIGGER failed_gone AFTER DELETE ON actlog.agent_execution_record
    FOR EACH ROW WHEN (OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('agentExecution');
CREATE TRIGGER failed_new AFTER INSERT ON actlog.think_act_record
    FOR EACH ROW WHEN (NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('thinkAct');
CREATE TRIGGER failed_changed AFTER UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN ((OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED') OR NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED'))
        AND (OLD.told_state IS DISTINCT FROM NEW.told_state OR OLD.think_start_time IS DISTINCT FROM NEW.think_start_time OR OLD.think_end_time IS DISTINCT FROM NEW.think_end_time OR OLD.act_start_time IS DISTINCT FROM NEW.act_start_time OR OLD.act_end_time IS DISTINCT FROM NEW.act_end_time OR OLD.first_seen_at IS DISTINCT FROM NEW.first_seen_at OR OLD.part IS DISTINCT FROM NEW.part))
    EXECUTE FUNCTION actlog.keep_failure('thinkAct');
CREATE TRIGGER failed_gone AFTER DELETE ON actlog.think_act_record
    FOR EACH ROW WHEN (OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('thinkAct');
CREATE TRIGGER failed_new AFTER INSERT ON actlog.act_tool_info
    FOR EACH ROW WHEN (NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('actTool');
CREATE TRIGGER failed_changed AFTER UPDATE ON actlog.act_tool_info
    FOR EACH ROW WHEN ((OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED') OR NEW.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED'))
        AND (OLD.told_state IS DISTINCT FROM NEW.told_state OR OLD.start_time IS DISTINCT FROM NEW.start_time OR OLD.end_time IS DISTINCT FROM NEW.end_time OR OLD.first_seen_at IS DISTINCT FROM NEW.first_seen_at OR OLD.part IS DISTINCT FROM NEW.part))
    EXECUTE FUNCTION actlog.keep_failure('actTool');
CREATE TRIGGER failed_gone AFTER DELETE ON actlog.act_tool_info
    FOR EACH ROW WHEN (OLD.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')) EXECUTE FUNCTION actlog.keep_failure('actTool');

-- When a row happened: when it began. If that is not known: when it ended, else when it was first seen. So that an index
-- by this time names no column that changes when a row ends, the end of a row without a start is kept in first_seen_at.

-- +goose StatementBegin
CREATE FUNCTION actlog.keep_first_seen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_ARGV[0]
        WHEN 'agentExecution' THEN
            UPDATE actlog.agent_execution_record AS x SET first_seen_at = NEW.end_time
            WHERE x.root_plan_id = NEW.root_plan_id AND x.step_id = NEW.step_id;
        WHEN 'thinkAct' THEN
            UPDATE actlog.think_act_record AS x SET first_seen_at = COALESCE(NEW.think_end_time, NEW.act_start_time, NEW.act_end_time)
            WHERE x.root_plan_id = NEW.root_plan_id AND x.step_id = NEW.step_id AND x.seq = NEW.seq AND x.part = NEW.part;
        WHEN 'actTool' THEN
            UPDATE actlog.act_tool_info AS x SET first_seen_at = NEW.end_time
            WHERE x.root_plan_id = NEW.root_plan_id AND x.step_id = NEW.step_id AND x.seq = NEW.seq AND x.tool_call_id = NEW.tool_call_id
                AND x.part = NEW.part;
    END CASE;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.keep_first_seen() IS
    'Keeps the end of a row without a start in its first_seen_at. Its argument is the kind.';
COMMENT ON COLUMN actlog.agent_execution_record.first_seen_at IS 'When a server first received a record of the step; of a step without a start: when it ended. Null if that was before this column existed.';
COMMENT ON COLUMN actlog.think_act_record.first_seen_at IS 'When a server first received a record of the cycle; of a cycle without a start: the earliest end that is known. Null if that was before this column existed.';
COMMENT ON COLUMN actlog.act_tool_info.first_seen_at IS 'When a server first received a record of the call; of a call without a start: when it ended. Null if that was before this column existed.';

CREATE TRIGGER began_unknown AFTER INSERT OR UPDATE ON actlog.agent_execution_record
    FOR EACH ROW WHEN (NEW.start_time IS NULL AND NEW.first_seen_at IS DISTINCT FROM COALESCE(NEW.end_time, NEW.first_seen_at)) EXECUTE FUNCTION actlog.keep_first_seen('agentExecution');
CREATE TRIGGER began_unknown AFTER INSERT OR UPDATE ON actlog.think_act_record
    FOR EACH ROW WHEN (NEW.think_start_time IS NULL AND NEW.first_seen_at IS DISTINCT FROM COALESCE(COALESCE(NEW.think_end_time, NEW.act_start_time, NEW.act_end_time), NEW.first_seen_at)) EXECUTE FUNCTION actlog.keep_first_seen('thinkAct');
CREATE TRIGGER began_unknown AFTER INSERT OR UPDATE ON actlog.act_tool_info
    FOR EACH ROW WHEN (NEW.start_time IS NULL AND NEW.first_seen_at IS DISTINCT FROM COALESCE(NEW.end_time, NEW.first_seen_at)) EXECUTE FUNCTION actlog.keep_first_seen('actTool');

-- +goose Down

DROP TRIGGER began_unknown ON actlog.agent_execution_record;
DROP TRIGGER began_unknown ON actlog.think_act_record;
DROP TRIGGER began_unknown ON actlog.act_tool_info;
DROP FUNCTION actlog.keep_first_seen();
DROP TRIGGER failed_new ON actlog.plan_execution_record;
DROP TRIGGER failed_changed ON actlog.plan_execution_record;
DROP TRIGGER failed_gone ON actlog.plan_execution_record;
DROP TRIGGER failed_new ON actlog.agent_execution_record;
DROP TRIGGER failed_changed ON actlog.agent_execution_record;
DROP TRIGGER failed_gone ON actlog.agent_execution_record;
DROP TRIGGER failed_new ON actlog.think_act_record;
DROP TRIGGER failed_changed ON actlog.think_act_record;
DROP TRIGGER failed_gone ON actlog.think_act_record;
DROP TRIGGER failed_new ON actlog.act_tool_info;
DROP TRIGGER failed_changed ON actlog.act_tool_info;
DROP TRIGGER failed_gone ON actlog.act_tool_info;
DROP FUNCTION actlog.keep_failure();
DROP TABLE actlog.failure;
COMMENT ON COLUMN actlog.agent_execution_record.first_seen_at IS 'When a server first received a record of the step; null if that was before this column existed.';
COMMENT ON COLUMN actlog.think_act_record.first_seen_at IS 'When a server first received a record of the cycle; null if that was before this column existed.';
COMMENT ON COLUMN actlog.act_tool_info.first_seen_at IS 'When a server first received a record of the call; null if that was before this column existed.';
