-- A view of the operations of executor plan: its tool calls, by tool and operation.

-- +goose Up

CREATE VIEW report.operation AS
SELECT
    t.root_plan_id, t.plan_id, t.step_id, t.seq AS iteration, t.tool_call_id, t.part, t.happened_at,
    t.project, t.environment, t.release, t.user_id, t.agent_name AS role,
    CASE
        WHEN t.server_name IS NOT NULL AND starts_with(t.tool_name, t.server_name || '-') THEN t.server_name
        ELSE split_part(t.tool_name, '.', 1)
    END AS tool_name,
    CASE
        WHEN t.server_name IS NOT NULL AND starts_with(t.tool_name, t.server_name || '-') THEN substr(t.tool_name, length(t.server_name) + 2)
        ELSE regexp_replace(t.tool_name, '^[^.]*\.', '')
    END AS operation,
    t.state, t.state = 'COMPLETED' AS success, t.error_kind, t.duration_seconds
FROM report.tool_call AS t
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = t.root_plan_id AND p.current_plan_id = t.plan_id
WHERE p.executor = 'plan';

COMMENT ON VIEW report.operation IS 'One row per operation of executor plan. Filter on happened_at.';
COMMENT ON COLUMN report.operation.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN report.operation.plan_id IS 'The plan whose operation it is.';
COMMENT ON COLUMN report.operation.step_id IS 'The step that made it.';
COMMENT ON COLUMN report.operation.iteration IS 'The number of the operation in its plan, from 1; of templates, the cycle of the step.';
COMMENT ON COLUMN report.operation.tool_call_id IS 'The tool call that it is.';
COMMENT ON COLUMN report.operation.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.operation.happened_at IS 'When it began; else when it ended; else when it was first seen. Never null.';
COMMENT ON COLUMN report.operation.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.operation.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.operation.release IS 'The release of the program: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.operation.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.operation.role IS 'The role that made it; of templates, the agent.';
COMMENT ON COLUMN report.operation.tool_name IS 'The tool, such as files, or the MCP server.';
COMMENT ON COLUMN report.operation.operation IS 'What was done with the tool, such as read_file.';
COMMENT ON COLUMN report.operation.state IS 'The state of the tool call.';
COMMENT ON COLUMN report.operation.success IS 'Whether it succeeded; null if its state is not known.';
COMMENT ON COLUMN report.operation.error_kind IS 'A short class of the error, for counting; refused if it was not allowed.';
COMMENT ON COLUMN report.operation.duration_seconds IS 'How long it took; null if it was not made, or has not ended.';

-- +goose Down

DROP VIEW report.operation;
