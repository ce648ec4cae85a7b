-- A view of the sessions of executor workflow: who talks, how much, and at what cost.

-- +goose Up

-- Runs and figures are looked up for each session that a query returns, and only if it asks for them. Root plans are told
-- by their parent: by their ids, an index of all root plans would fit, and be read for each session.
CREATE VIEW report.session AS
SELECT
    c.conversation_id AS session_id, c.base_id AS base_session_id, c.base_id IS NULL AS is_base, c.agent_name, c.workflow_name, c.user_id,
    c.created_at AS began_at, c.updated_at AS last_used_at,
    (SELECT count(*) FROM actlog.conversation_message AS m WHERE m.conversation_id = c.conversation_id) AS messages,
    COALESCE(r.projects[1], 'default') AS project, r.runs, r.open_runs, r.waiting_runs, r.ended_runs, r.failed_runs,
    r.states[1] AS last_state, r.error_kinds[1] AS last_error_kind,
    f.steps, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens, f.cost_usd
FROM actlog.conversation AS c
LEFT JOIN LATERAL (
    SELECT
        count(*) AS runs, count(*) FILTER (WHERE NOT p.completed) AS open_runs, count(*) FILTER (WHERE p.state = 'WAITING') AS waiting_runs,
        count(*) FILTER (WHERE p.completed) AS ended_runs, count(*) FILTER (WHERE p.state = 'FAILED') AS failed_runs,
        array_agg(p.project ORDER BY p.first_seen_at DESC, p.root_plan_id DESC) AS projects,
        array_agg(p.state ORDER BY p.first_seen_at DESC, p.root_plan_id DESC) AS states,
        array_agg(p.error_kind ORDER BY p.first_seen_at DESC, p.root_plan_id DESC) AS error_kinds
    FROM actlog.plan_execution_record AS p
    WHERE p.conversation_id = COALESCE(c.base_id, c.conversation_id) AND p.parent_plan_id IS NULL
        AND (c.base_id IS NULL OR EXISTS (
            SELECT FROM actlog.conversation_message AS m
            WHERE m.conversation_id = c.conversation_id AND m.plan_id = p.current_plan_id
        ))
) AS r ON true
LEFT JOIN LATERAL (
    SELECT
        count(*) AS steps, COALESCE(sum(a.model_calls), 0)::bigint AS model_calls, COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.failures), 0)::bigint AS failures, COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens,
        COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens, sum(a.cost_usd) AS cost_usd
    FROM actlog.plan_execution_record AS p
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = p.root_plan_id
    WHERE p.conversation_id = COALESCE(c.base_id, c.conversation_id) AND p.parent_plan_id IS NULL
        AND (c.base_id IS NULL OR a.conversation_id = c.conversation_id)
) AS f ON true
WHERE c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL;

COMMENT ON VIEW report.session IS 'One row per session of an agent or a workflow. Sessions that were deleted are missing; their runs stay. Filter on last_used_at.';
COMMENT ON COLUMN report.session.session_id IS 'The session: the conversation_id of its runs; of a session of a step, that of the step.';
COMMENT ON COLUMN report.session.base_session_id IS 'The session of the workflow, of a session that one of its steps has; null: it is no session of a step.';
COMMENT ON COLUMN report.session.is_base IS 'Whether it is no session of a step. Sums over these count nothing twice.';
COMMENT ON COLUMN report.session.agent_name IS 'The agent that talks; null: it is the session of a workflow.';
COMMENT ON COLUMN report.session.workflow_name IS 'The workflow whose session it is, or to which the step belongs; null: none.';
COMMENT ON COLUMN report.session.user_id IS 'The user who began it; null: not known.';
COMMENT ON COLUMN report.session.began_at IS 'When it began.';
COMMENT ON COLUMN report.session.last_used_at IS 'When the last message was added. Never null; indexed.';
COMMENT ON COLUMN report.session.messages IS 'Messages that were said in it: of users, assistants and tools.';
COMMENT ON COLUMN report.session.project IS 'The project of its last run, else default.';
COMMENT ON COLUMN report.session.runs IS 'Runs that were started in it, without those below them; of a session of a step, those in which it said something.';
COMMENT ON COLUMN report.session.open_runs IS 'Those that have not ended.';
COMMENT ON COLUMN report.session.waiting_runs IS 'Those that wait, for a human or for something else.';
COMMENT ON COLUMN report.session.ended_runs IS 'Those that have ended, successful or not.';
COMMENT ON COLUMN report.session.failed_runs IS 'Those that failed.';
COMMENT ON COLUMN report.session.last_state IS 'The state of its last run; null: none is on record.';
COMMENT ON COLUMN report.session.last_error_kind IS 'The error of its last run, as a short class; null: it has none.';
COMMENT ON COLUMN report.session.steps IS 'Steps of its runs and of all plans below them; of a session of a step, that step in each of its runs.';
COMMENT ON COLUMN report.session.model_calls IS 'Model calls of these steps.';
COMMENT ON COLUMN report.session.tool_calls IS 'Tool calls of these steps.';
COMMENT ON COLUMN report.session.failures IS 'Cycles and tool calls of these steps that failed.';
COMMENT ON COLUMN report.session.input_tokens IS 'Input tokens of these steps, cached ones included.';
COMMENT ON COLUMN report.session.output_tokens IS 'Output tokens of these steps, reasoning included.';
COMMENT ON COLUMN report.session.cost_usd IS 'US dollars of these steps; null if no cost is known.';

-- +goose Down

DROP VIEW report.session;
