-- Runs that go on after they have ended, and new ones with the input of another.

-- +goose Up

-- A transaction that locks runs locks plans first, as every writer does.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

ALTER TABLE actlog.run
    ADD COLUMN ended_before timestamptz,
    ADD COLUMN anew boolean NOT NULL DEFAULT false,
    ADD COLUMN parent_attempt integer,
    ADD COLUMN again_of text COLLATE "C",
    ADD COLUMN asked json;

COMMENT ON COLUMN actlog.run.ended_before IS 'When the attempt before the present one ended; null: it is the first.';
COMMENT ON COLUMN actlog.run.anew IS 'Whether the present attempt makes anew what its code does otherwise than is on record.';
COMMENT ON COLUMN actlog.run.parent_attempt IS 'The attempt of the tool call that started it; null: the first.';
COMMENT ON COLUMN actlog.run.again_of IS 'The run whose input this one has, perhaps changed; null: none.';
COMMENT ON COLUMN actlog.run.asked IS 'What the request that started it had of name, conversation and limits; null: nothing.';

ALTER TABLE actlog.control_request
    DROP CONSTRAINT control_action,
    ADD CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME,RETRY,AGAIN}')),
    ADD COLUMN idempotency_key text COLLATE "C",
    ADD COLUMN request_sha256 text COLLATE "C";

COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause, to go on, or to go on after it had ended; and who started it as another one again.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE, RESUME or RETRY; AGAIN: it was started with the input of another run.';
COMMENT ON COLUMN actlog.control_request.idempotency_key IS 'The key of the request, which asks for nothing when it is sent again; null: none.';
COMMENT ON COLUMN actlog.control_request.request_sha256 IS 'The hash of the body of that request, in hex digits.';

SELECT actlog.compress_texts('actlog.run'), actlog.compress_texts('actlog.control_request');

CREATE OR REPLACE VIEW report.run AS
SELECT
    x.root_plan_id, x.plan_id, x.parent_plan_id, x.root_plan_id = x.plan_id AS is_root, x.depth, p.part, x.created_at,
    x.executor, x.name, x.definition_id, x.definition_version,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.state, x.desired, x.needs, x.worker_id, x.due_at, x.done,
    x.first_claimed_at, x.claimed_at, x.done_at AS ended_at,
    extract(epoch FROM x.first_claimed_at - x.created_at)::double precision AS claim_seconds,
    extract(epoch FROM x.done_at - x.created_at)::double precision AS duration_seconds,
    x.epoch AS claims, x.takeovers,
    w.waits, w.wait_seconds, p.error_kind,
    f.cycles, f.tool_calls, f.input_tokens, f.output_tokens, f.cost_usd,
    COALESCE(p.attempt, 1) AS attempt, x.again_of
FROM actlog.run AS x
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id
LEFT JOIN LATERAL (
    SELECT
        COALESCE(sum(a.cycles), 0)::bigint AS cycles, COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens,
        sum(a.cost_usd) AS cost_usd
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = x.root_plan_id AND a.shown_plan_id = x.plan_id
) AS f ON true
LEFT JOIN LATERAL (
    SELECT
        count(*) AS waits,
        COALESCE(sum(extract(epoch FROM h.end_time - h.start_time)) FILTER (WHERE h.start_time <= h.end_time), 0)::double precision AS wait_seconds
    FROM actlog.wait_state AS h
    WHERE h.root_plan_id = x.root_plan_id AND h.plan_id = x.plan_id
) AS w ON true;
COMMENT ON COLUMN report.run.attempt IS 'Which attempt at it this is, from 1: each retry is another.';
COMMENT ON COLUMN report.run.again_of IS 'The run whose input this one has, perhaps changed; null: none.';

-- +goose Down

DROP VIEW report.run;
CREATE VIEW report.run AS
SELECT
    x.root_plan_id, x.plan_id, x.parent_plan_id, x.root_plan_id = x.plan_id AS is_root, x.depth, p.part, x.created_at,
    x.executor, x.name, x.definition_id, x.definition_version,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.state, x.desired, x.needs, x.worker_id, x.due_at, x.done,
    x.first_claimed_at, x.claimed_at, x.done_at AS ended_at,
    extract(epoch FROM x.first_claimed_at - x.created_at)::double precision AS claim_seconds,
    extract(epoch FROM x.done_at - x.created_at)::double precision AS duration_seconds,
    x.epoch AS claims, x.takeovers,
    w.waits, w.wait_seconds, p.error_kind,
    f.cycles, f.tool_calls, f.input_tokens, f.output_tokens, f.cost_usd
FROM actlog.run AS x
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id
LEFT JOIN LATERAL (
    SELECT
        COALESCE(sum(a.cycles), 0)::bigint AS cycles, COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens,
        sum(a.cost_usd) AS cost_usd
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = x.root_plan_id AND a.shown_plan_id = x.plan_id
) AS f ON true
LEFT JOIN LATERAL (
    SELECT
        count(*) AS waits,
        COALESCE(sum(extract(epoch FROM h.end_time - h.start_time)) FILTER (WHERE h.start_time <= h.end_time), 0)::double precision AS wait_seconds
    FROM actlog.wait_state AS h
    WHERE h.root_plan_id = x.root_plan_id AND h.plan_id = x.plan_id
) AS w ON true;
COMMENT ON VIEW report.run IS 'One row per run of the runtime: a plan that it carries. Filter on created_at.';
COMMENT ON COLUMN report.run.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.run.plan_id IS 'The plan that is run.';
COMMENT ON COLUMN report.run.parent_plan_id IS 'The run whose tool call started this one; null for a root plan.';
COMMENT ON COLUMN report.run.is_root IS 'Whether the plan is a root plan.';
COMMENT ON COLUMN report.run.depth IS 'How many runs are above it.';
COMMENT ON COLUMN report.run.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.run.created_at IS 'When it was started. Never null; indexed.';
COMMENT ON COLUMN report.run.executor IS 'The executor that carries it: agent, plan, orchestrator, workflow or dag.';
COMMENT ON COLUMN report.run.name IS 'What is run, such as the name of an agent.';
COMMENT ON COLUMN report.run.definition_id IS 'The definition that the run keeps; null if it has none.';
COMMENT ON COLUMN report.run.definition_version IS 'The version of the definition.';
COMMENT ON COLUMN report.run.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.run.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.run.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.run.state IS 'The state of the plan: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.run.desired IS 'What it should do: RUN, PAUSE or CANCEL.';
COMMENT ON COLUMN report.run.needs IS 'What a worker must provide to take it.';
COMMENT ON COLUMN report.run.worker_id IS 'The worker that holds it; null: none does. Indexed.';
COMMENT ON COLUMN report.run.due_at IS 'When a worker should take it; null: a worker holds it, it waits for something, or it has ended. Indexed for runs that are not done and that no worker holds.';
COMMENT ON COLUMN report.run.done IS 'Whether it has ended.';
COMMENT ON COLUMN report.run.first_claimed_at IS 'When a worker first took it; null: none did.';
COMMENT ON COLUMN report.run.claimed_at IS 'When a worker last took it.';
COMMENT ON COLUMN report.run.ended_at IS 'When it ended; null until then.';
COMMENT ON COLUMN report.run.claim_seconds IS 'Seconds from its start until a worker first took it; null until then.';
COMMENT ON COLUMN report.run.duration_seconds IS 'Seconds from its start to its end, with all that it waited for; null until then.';
COMMENT ON COLUMN report.run.claims IS 'How often a worker took it: at first, after each wait, and after each takeover.';
COMMENT ON COLUMN report.run.takeovers IS 'How often a worker took it because another one that held it was lost.';
COMMENT ON COLUMN report.run.waits IS 'Waits for a human, of the run itself.';
COMMENT ON COLUMN report.run.wait_seconds IS 'Seconds of those waits that have ended.';
COMMENT ON COLUMN report.run.error_kind IS 'A short class of the error, for counting; limit_... if a limit was reached.';
COMMENT ON COLUMN report.run.cycles IS 'Think-act cycles of the run itself.';
COMMENT ON COLUMN report.run.tool_calls IS 'Tool calls of the run itself.';
COMMENT ON COLUMN report.run.input_tokens IS 'Input tokens of the run itself, cached ones included.';
COMMENT ON COLUMN report.run.output_tokens IS 'Output tokens of the run itself, reasoning included.';
COMMENT ON COLUMN report.run.cost_usd IS 'US dollars of the run itself; null if no cost is known.';

DELETE FROM actlog.control_request AS c WHERE c.action IN ('RETRY', 'AGAIN');
ALTER TABLE actlog.control_request
    DROP CONSTRAINT control_action,
    ADD CONSTRAINT control_action CHECK (action = ANY ('{STOP,PAUSE,RESUME}')),
    DROP COLUMN idempotency_key,
    DROP COLUMN request_sha256;
COMMENT ON TABLE actlog.control_request IS 'Who asked a run to stop, to pause or to go on.';
COMMENT ON COLUMN actlog.control_request.action IS 'STOP, PAUSE or RESUME.';

ALTER TABLE actlog.run DROP COLUMN ended_before, DROP COLUMN anew, DROP COLUMN parent_attempt, DROP COLUMN again_of, DROP COLUMN asked;
