-- +goose NO TRANSACTION

-- Failures that are already on record are copied into their table. The indexes by time that reports use are built again,
-- on columns that stay as they are when a row ends. One partition at a time is locked, while its index is built. Nothing
-- here runs in one transaction, so each statement may run again.

-- +goose Up

INSERT INTO actlog.failure (root_plan_id, kind, id, part, state, failed_at)
SELECT x.root_plan_id, 'plan', x.current_plan_id, x.part, x.told_state, COALESCE(x.end_time, x.start_time, x.first_seen_at)
FROM actlog.plan_execution_record AS x
WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')
ON CONFLICT DO NOTHING;

INSERT INTO actlog.failure (root_plan_id, kind, step_id, part, state, failed_at)
SELECT x.root_plan_id, 'agentExecution', x.step_id, x.part, x.told_state,
    COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc')
FROM actlog.agent_execution_record AS x
WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')
ON CONFLICT DO NOTHING;

INSERT INTO actlog.failure (root_plan_id, kind, step_id, seq, part, state, failed_at)
SELECT x.root_plan_id, 'thinkAct', x.step_id, x.seq, x.part, x.told_state,
    COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc')
FROM actlog.think_act_record AS x
WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')
ON CONFLICT DO NOTHING;

INSERT INTO actlog.failure (root_plan_id, kind, step_id, seq, id, part, state, failed_at)
SELECT x.root_plan_id, 'actTool', x.step_id, x.seq, x.tool_call_id, x.part, x.told_state,
    COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc')
FROM actlog.act_tool_info AS x
WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'CANCELLED', 'BLOCKED')
ON CONFLICT DO NOTHING;

-- Their triggers do the rest: see actlog.keep_first_seen.
UPDATE actlog.agent_execution_record SET first_seen_at = end_time
WHERE start_time IS NULL AND first_seen_at IS DISTINCT FROM COALESCE(end_time, first_seen_at);
UPDATE actlog.think_act_record SET first_seen_at = COALESCE(think_end_time, act_start_time, act_end_time)
WHERE think_start_time IS NULL AND first_seen_at IS DISTINCT FROM COALESCE(think_end_time, act_start_time, act_end_time, first_seen_at);
UPDATE actlog.act_tool_info SET first_seen_at = end_time
WHERE start_time IS NULL AND first_seen_at IS DISTINCT FROM COALESCE(end_time, first_seen_at);

CREATE INDEX IF NOT EXISTS agent_happened ON actlog.agent_execution_record USING brin (
    start_time, (COALESCE(start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX IF NOT EXISTS think_act_happened ON ONLY actlog.think_act_record USING brin (
    think_start_time, (COALESCE(think_start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(think_start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX IF NOT EXISTS act_tool_happened ON ONLY actlog.act_tool_info USING brin (
    start_time, (COALESCE(start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);

-- +goose StatementBegin
DO $$
DECLARE
    p record;
BEGIN
    FOR p IN
        SELECT i.indexrelid::regclass AS index, c.oid::regclass AS partition, format('%s_happened', c.relname) AS name,
            substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*') AS definition
        FROM pg_index AS i
        JOIN pg_class AS x ON x.oid = i.indexrelid
        JOIN pg_inherits AS h ON h.inhparent = i.indrelid
        JOIN pg_class AS c ON c.oid = h.inhrelid
        WHERE i.indexrelid IN ('actlog.think_act_happened'::regclass, 'actlog.act_tool_happened'::regclass)
            AND NOT EXISTS ( -- one that was added since has its index
                SELECT FROM pg_inherits AS made JOIN pg_index AS m ON m.indexrelid = made.inhrelid
                WHERE made.inhparent = i.indexrelid AND m.indrelid = c.oid)
        ORDER BY 1, 2
    LOOP
        EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %s %s', p.name, p.partition, p.definition);
        EXECUTE format('ALTER INDEX %s ATTACH PARTITION actlog.%I', p.index, p.name);
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

DROP INDEX IF EXISTS actlog.act_tool_happened, actlog.think_act_happened, actlog.agent_happened;
