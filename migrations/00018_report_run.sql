-- Views of the runtime: its runs, and the workers that hold them.

-- +goose Up

ALTER TABLE actlog.run ADD COLUMN first_claimed_at timestamptz;
COMMENT ON COLUMN actlog.run.first_claimed_at IS 'When it was first claimed.';

-- Figures are looked up for each run that a query returns, and only if it asks for them.
CREATE VIEW report.run AS
SELECT
    x.root_plan_id, x.plan_id, x.parent_plan_id, x.root_plan_id = x.plan_id AS is_root, x.depth, p.part, x.created_at,
    x.executor, x.name, x.definition_id, x.definition_version,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.state, x.desired, x.needs, x.worker_id, x.due_at, x.done,
    x.first_claimed_at, x.claimed_at, x.done_at AS ended_at, x.deadline,
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
COMMENT ON COLUMN report.run.deadline IS 'When its limit of time is reached; null: it has none.';
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

CREATE VIEW report.worker AS
SELECT
    w.worker_id, w.host, w.release, w.provides, w.slots,
    (SELECT count(*) FROM actlog.run AS x WHERE x.worker_id = w.worker_id) AS runs,
    w.started_at, w.lease_until, w.stopped_at, w.stopped_at IS NULL AND w.lease_until > now() AS alive
FROM actlog.worker AS w;

COMMENT ON VIEW report.worker IS 'One row per worker, a process that carries runs. Those that were last heard of more than a day ago and hold nothing are forgotten. Filter on started_at.';
COMMENT ON COLUMN report.worker.worker_id IS 'The worker. A process that lost its lease goes on as another worker.';
COMMENT ON COLUMN report.worker.host IS 'The host on which it runs.';
COMMENT ON COLUMN report.worker.release IS 'The release of the program.';
COMMENT ON COLUMN report.worker.provides IS 'What it has: executors, models, tools. It takes runs that need nothing else.';
COMMENT ON COLUMN report.worker.slots IS 'How many runs it carries at once.';
COMMENT ON COLUMN report.worker.runs IS 'How many runs it holds.';
COMMENT ON COLUMN report.worker.started_at IS 'When it started.';
COMMENT ON COLUMN report.worker.lease_until IS 'Until then its runs are its own. Each heartbeat extends this.';
COMMENT ON COLUMN report.worker.stopped_at IS 'When it stopped, or another worker took over its runs; null: it has not.';
COMMENT ON COLUMN report.worker.alive IS 'Whether it has not stopped and its lease lasts, by the clock of the database. If not, other workers take its runs.';

-- +goose Down

DROP VIEW report.worker;
DROP VIEW report.run;
ALTER TABLE actlog.run DROP COLUMN first_claimed_at;
