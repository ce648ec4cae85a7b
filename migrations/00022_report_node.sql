-- A view of the nodes of executor dag: which of them keep others from beginning.

-- +goose Up

CREATE VIEW report.node AS
SELECT
    s.root_plan_id, s.plan_id, s.step_id, s.part, s.happened_at, s.project, s.environment, s.release, s.user_id,
    n.node, n.wave, s.model_name AS model, s.state, s.error_kind, n.below,
    CASE WHEN s.state IN ('COMPLETED', 'BLOCKED') THEN 0 ELSE n.below END AS blocks, s.duration_seconds
FROM report.agent_execution AS s
JOIN actlog.agent_execution_record AS m ON m.part = s.part AND m.root_plan_id = s.root_plan_id AND m.step_id = s.step_id
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = s.root_plan_id AND p.current_plan_id = s.plan_id
CROSS JOIN LATERAL ( -- others may have written the metadata
    SELECT
        m.metadata ->> 'node' AS node,
        CASE WHEN m.metadata ->> 'wave' ~ '^[0-9]{1,6}$' THEN (m.metadata ->> 'wave')::integer END AS wave,
        CASE WHEN m.metadata ->> 'below' ~ '^[0-9]{1,6}$' THEN (m.metadata ->> 'below')::integer END AS below
) AS n
WHERE p.executor = 'dag' AND n.node IS NOT NULL;

COMMENT ON VIEW report.node IS 'One row per node of executor dag that has begun or is BLOCKED. Filter on happened_at.';
COMMENT ON COLUMN report.node.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN report.node.plan_id IS 'The plan that carries out the graph.';
COMMENT ON COLUMN report.node.step_id IS 'The step that carries out the node.';
COMMENT ON COLUMN report.node.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.node.happened_at IS 'When it began; else when it ended; else when it was first seen. Never null.';
COMMENT ON COLUMN report.node.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.node.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.node.release IS 'The release of the program: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.node.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.node.node IS 'The id of the node in its graph.';
COMMENT ON COLUMN report.node.wave IS 'The wave in which it began, from 1; null if it is BLOCKED, or its run is eager.';
COMMENT ON COLUMN report.node.model IS 'The model that carries it out, by its name in the configuration.';
COMMENT ON COLUMN report.node.state IS 'The state of its step; BLOCKED if a node that it needs failed.';
COMMENT ON COLUMN report.node.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.node.below IS 'How many nodes need its result, directly or through others.';
COMMENT ON COLUMN report.node.blocks IS 'How many nodes it keeps from beginning: those below it, unless it has completed or is BLOCKED itself.';
COMMENT ON COLUMN report.node.duration_seconds IS 'How long it took; null if it has not ended.';

-- +goose Down

DROP VIEW report.node;
