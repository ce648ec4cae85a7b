-- Who began a run, and who decided: conversations and idempotency keys belong to who began them, and a claim is told from
-- what the server knows.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

ALTER TABLE actlog.run
    ADD COLUMN starter text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN project text COLLATE "C";
COMMENT ON COLUMN actlog.run.starter IS 'Who began the tree: the name of the API key, or who the program named; empty: not known.';
COMMENT ON COLUMN actlog.run.project IS 'The project of the tree as it began; null: a server of an older release started the run.';

-- Servers of the previous release write no starter and no project. Their requests are still told apart by their keys.
CREATE UNIQUE INDEX run_request ON actlog.run (idempotency_key, starter, COALESCE(project, '')) WHERE idempotency_key IS NOT NULL;
DROP INDEX actlog.run_idempotency;
COMMENT ON COLUMN actlog.run.idempotency_key IS 'The key of the request that started it: the same request of the same starter again starts nothing.';

-- Servers of the previous release find conversations by conversation_id alone, so it stays the key. Where a conversation
-- belongs to somebody, it is a hash that follows from the project, the starter and the id that the runs name.
ALTER TABLE actlog.conversation
    ADD COLUMN starter text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT 'default',
    ADD COLUMN given_id text COLLATE "C";
-- Earlier releases took any id, also one that looks like such a hash. Whoever chose that would wait for somebody else's conversation.
DELETE FROM actlog.conversation WHERE conversation_id LIKE 'conversation:%';
CREATE INDEX conversation_given ON actlog.conversation (COALESCE(given_id, conversation_id));
COMMENT ON COLUMN actlog.conversation.conversation_id IS 'The key of the row: the id of the conversation, or a hash of its project, its starter and its id.';
COMMENT ON COLUMN actlog.conversation.starter IS 'Whose conversation it is: who began its runs; empty: not known.';
COMMENT ON COLUMN actlog.conversation.project IS 'The project of its runs.';
COMMENT ON COLUMN actlog.conversation.given_id IS 'The id of the conversation, as in the plans; null: conversation_id is that.';
COMMENT ON COLUMN actlog.conversation.user_id IS 'The user of the run that began it.';
COMMENT ON COLUMN actlog.conversation.base_id IS 'The id of the session of the workflow, as in the plans, of a session that one of its steps has; null: it is no session of a step.';
COMMENT ON COLUMN actlog.conversation_message.conversation_id IS 'The key of the conversation.';
SELECT actlog.compress_texts('actlog.conversation');
SELECT actlog.compress_texts('actlog.run');

ALTER TABLE actlog.wait_state ADD COLUMN claimed_by text;
COMMENT ON COLUMN actlog.wait_state.claimed_by IS 'Who decided, as they said themselves.';
COMMENT ON COLUMN actlog.wait_state.decided_by IS 'Who decided, as the server or the program knows them.';
SELECT actlog.compress_texts('actlog.wait_state');

ALTER TABLE actlog.control_request ADD COLUMN claimed_by text;
COMMENT ON COLUMN actlog.control_request.claimed_by IS 'Who asked, as they said themselves.';
COMMENT ON COLUMN actlog.control_request.requested_by IS 'Who asked, as the server or the program knows them.';
SELECT actlog.compress_texts('actlog.control_request');

CREATE OR REPLACE VIEW report.wait AS
SELECT
    w.root_plan_id, w.plan_id, w.wait_id, w.step_id, w.tool_call_id, p.part, w.start_time, w.end_time, w.expires_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.name AS plan_name, a.agent_name,
    w.type, left(w.title, 200) AS title, w.state, w.state = 'WAITING' AND (NOT r.completed OR p.status = 'RUNNING') AS open, w.decided_by,
    CASE WHEN w.state <> 'WAITING' AND w.start_time <= w.end_time THEN extract(epoch FROM w.end_time - w.start_time)::double precision END AS waited_seconds,
    COALESCE(w.start_time, w.end_time, w.first_seen_at, p.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    COALESCE(p.release, r.release) AS release, COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    w.claimed_by
FROM actlog.wait_state AS w
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = w.root_plan_id AND p.current_plan_id = w.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = w.root_plan_id AND r.current_plan_id = w.root_plan_id
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = w.root_plan_id AND a.step_id = w.step_id;
COMMENT ON COLUMN report.wait.decided_by IS 'Who answered, as the server or the program knows them.';
COMMENT ON COLUMN report.wait.claimed_by IS 'Who answered, as they said themselves.';

-- A plan without a run was written by a client, and names the conversation as its own.
CREATE OR REPLACE VIEW report.session AS
SELECT
    COALESCE(c.given_id, c.conversation_id) AS session_id, c.base_id AS base_session_id, c.base_id IS NULL AS is_base, c.agent_name, c.workflow_name, c.user_id,
    c.created_at AS began_at, c.updated_at AS last_used_at,
    (SELECT count(*) FROM actlog.conversation_message AS m WHERE m.conversation_id = c.conversation_id) AS messages,
    COALESCE(r.projects[1], 'default') AS project, r.runs, r.open_runs, r.waiting_runs, r.ended_runs, r.failed_runs,
    r.states[1] AS last_state, r.error_kinds[1] AS last_error_kind,
    f.steps, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens, f.cost_usd,
    c.starter
FROM actlog.conversation AS c
LEFT JOIN LATERAL (
    SELECT
        count(*) AS runs, count(*) FILTER (WHERE NOT p.completed) AS open_runs, count(*) FILTER (WHERE p.state = 'WAITING') AS waiting_runs,
        count(*) FILTER (WHERE p.completed) AS ended_runs, count(*) FILTER (WHERE p.state = 'FAILED') AS failed_runs,
        array_agg(p.root_plan_id) AS roots,
        array_agg(p.project ORDER BY p.first_seen_at DESC, p.root_plan_id DESC) AS projects,
        array_agg(p.state ORDER BY p.first_seen_at DESC, p.root_plan_id DESC) AS states,
        array_agg(p.error_kind ORDER BY p.first_seen_at DESC, p.root_plan_id DESC) AS error_kinds
    FROM actlog.plan_execution_record AS p
    WHERE p.conversation_id = COALESCE(c.base_id, c.given_id, c.conversation_id) AND p.parent_plan_id IS NULL
        AND NOT EXISTS (
            SELECT FROM actlog.run AS o
            WHERE o.root_plan_id = p.root_plan_id AND o.plan_id = p.current_plan_id AND (o.starter <> c.starter OR COALESCE(o.project, 'default') <> c.project)
        )
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
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = ANY (r.roots) AND (c.base_id IS NULL OR a.conversation_id = COALESCE(c.given_id, c.conversation_id))
) AS f ON true
WHERE c.agent_name IS NOT NULL OR c.workflow_name IS NOT NULL;
COMMENT ON COLUMN report.session.starter IS 'Whose session it is: the name of the API key, or who the program named; empty: not known.';

-- +goose Down

DROP VIEW report.session;
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

DROP VIEW report.wait;
CREATE VIEW report.wait AS
SELECT
    w.root_plan_id, w.plan_id, w.wait_id, w.step_id, w.tool_call_id, p.part, w.start_time, w.end_time, w.expires_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.name AS plan_name, a.agent_name,
    w.type, left(w.title, 200) AS title, w.state, w.state = 'WAITING' AND (NOT r.completed OR p.status = 'RUNNING') AS open, w.decided_by,
    CASE WHEN w.state <> 'WAITING' AND w.start_time <= w.end_time THEN extract(epoch FROM w.end_time - w.start_time)::double precision END AS waited_seconds,
    COALESCE(w.start_time, w.end_time, w.first_seen_at, p.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    COALESCE(p.release, r.release) AS release, COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id
FROM actlog.wait_state AS w
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = w.root_plan_id AND p.current_plan_id = w.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = w.root_plan_id AND r.current_plan_id = w.root_plan_id
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = w.root_plan_id AND a.step_id = w.step_id;
ALTER TABLE actlog.control_request DROP COLUMN claimed_by;
ALTER TABLE actlog.wait_state DROP COLUMN claimed_by;

DELETE FROM actlog.conversation WHERE given_id IS NOT NULL;
DROP INDEX actlog.conversation_given;
ALTER TABLE actlog.conversation DROP COLUMN given_id, DROP COLUMN project, DROP COLUMN starter;

-- Only the keys of nobody stay: the others were told apart by their starters.
UPDATE actlog.run SET idempotency_key = NULL, request_sha256 = NULL WHERE idempotency_key IS NOT NULL AND (starter <> '' OR project <> 'default');
UPDATE actlog.run AS r SET idempotency_key = NULL, request_sha256 = NULL
WHERE EXISTS (
    SELECT FROM actlog.run AS newer
    WHERE newer.idempotency_key = r.idempotency_key AND (newer.created_at, newer.plan_id) > (r.created_at, r.plan_id)
);
DROP INDEX actlog.run_request;
CREATE UNIQUE INDEX run_idempotency ON actlog.run (idempotency_key) WHERE idempotency_key IS NOT NULL;
ALTER TABLE actlog.run DROP COLUMN project, DROP COLUMN starter;
