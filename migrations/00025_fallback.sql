-- Models that answer in place of others, and why.

-- +goose Up

-- Every writer begins with the table of plans, so none deadlocks with the locks below.
LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

ALTER TABLE actlog.think_act_record ADD COLUMN fallback_from json;
ALTER TABLE actlog.model_away ADD COLUMN passed_over boolean NOT NULL DEFAULT false;
SELECT actlog.compress_texts('actlog.think_act_record');

COMMENT ON COLUMN actlog.think_act_record.fallback_from IS 'The models that did not answer, so that another one was asked: a list of model, errorKind and error; null: none.';
COMMENT ON COLUMN actlog.model_away.passed_over IS 'Whether runs ask another model in its place, so that one of them asks whether it is back.';

CREATE OR REPLACE VIEW report.think_act AS
SELECT
    c.root_plan_id, a.shown_plan_id AS plan_id, c.step_id, c.seq, c.part,
    c.think_start_time AS start_time, GREATEST(c.think_end_time, c.act_end_time) AS end_time,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, a.agent_name, a.agent_version, c.provider, COALESCE(c.model_name, a.model_name) AS model_name,
    COALESCE(c.attempt, 1) AS attempt, c.state, c.status, c.finish_reason, c.error_kind,
    CASE WHEN c.think_start_time <= c.think_end_time THEN extract(epoch FROM c.think_end_time - c.think_start_time)::double precision END AS think_seconds,
    CASE WHEN c.think_start_time <= c.first_token_time THEN extract(epoch FROM c.first_token_time - c.think_start_time)::double precision END AS first_token_seconds,
    CASE WHEN c.act_start_time <= c.act_end_time THEN extract(epoch FROM c.act_end_time - c.act_start_time)::double precision END AS act_seconds,
    c.input_char_count, c.output_char_count, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
    c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.told_cost_usd IS NOT NULL AS cost_told,
    COALESCE(c.think_start_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    COALESCE(c.fallback_from::jsonb, '[]') AS fallback_from
FROM actlog.think_act_record AS c
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = c.root_plan_id AND r.current_plan_id = c.root_plan_id;
COMMENT ON COLUMN report.think_act.fallback_from IS 'The models that did not answer, so that that of the row was asked: a list of model, errorKind and error; empty: it was the first.';

-- +goose Down

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE;

DROP VIEW report.think_act;
CREATE VIEW report.think_act AS
SELECT
    c.root_plan_id, a.shown_plan_id AS plan_id, c.step_id, c.seq, c.part,
    c.think_start_time AS start_time, GREATEST(c.think_end_time, c.act_end_time) AS end_time,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, a.agent_name, a.agent_version, c.provider, COALESCE(c.model_name, a.model_name) AS model_name,
    COALESCE(c.attempt, 1) AS attempt, c.state, c.status, c.finish_reason, c.error_kind,
    CASE WHEN c.think_start_time <= c.think_end_time THEN extract(epoch FROM c.think_end_time - c.think_start_time)::double precision END AS think_seconds,
    CASE WHEN c.think_start_time <= c.first_token_time THEN extract(epoch FROM c.first_token_time - c.think_start_time)::double precision END AS first_token_seconds,
    CASE WHEN c.act_start_time <= c.act_end_time THEN extract(epoch FROM c.act_end_time - c.act_start_time)::double precision END AS act_seconds,
    c.input_char_count, c.output_char_count, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
    c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.told_cost_usd IS NOT NULL AS cost_told,
    COALESCE(c.think_start_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id
FROM actlog.think_act_record AS c
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = c.root_plan_id AND r.current_plan_id = c.root_plan_id;
COMMENT ON VIEW report.think_act IS 'One row per think-act cycle: one model call and its tool calls. Filter on happened_at.';
COMMENT ON COLUMN report.think_act.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.think_act.plan_id IS 'The plan.';
COMMENT ON COLUMN report.think_act.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.think_act.seq IS 'Number of the cycle within its step, from 0.';
COMMENT ON COLUMN report.think_act.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.think_act.start_time IS 'When it began; null if that was not reported. Indexed.';
COMMENT ON COLUMN report.think_act.end_time IS 'When it ended; null if it has not ended, or if that was not reported.';
COMMENT ON COLUMN report.think_act.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.think_act.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.think_act.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.think_act.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.think_act.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.think_act.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.think_act.agent_version IS 'The version of the agent.';
COMMENT ON COLUMN report.think_act.provider IS 'The provider of the model.';
COMMENT ON COLUMN report.think_act.model_name IS 'The model.';
COMMENT ON COLUMN report.think_act.attempt IS 'Which attempt this is, from 1.';
COMMENT ON COLUMN report.think_act.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.think_act.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN report.think_act.finish_reason IS 'Why the model stopped.';
COMMENT ON COLUMN report.think_act.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.think_act.think_seconds IS 'Seconds that models took.';
COMMENT ON COLUMN report.think_act.first_token_seconds IS 'Seconds until the first token of the model.';
COMMENT ON COLUMN report.think_act.act_seconds IS 'Seconds from the start of the first tool call to the end of the last one.';
COMMENT ON COLUMN report.think_act.input_char_count IS 'Characters of the input of the model.';
COMMENT ON COLUMN report.think_act.output_char_count IS 'Characters of the output of the model.';
COMMENT ON COLUMN report.think_act.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN report.think_act.output_tokens IS 'Output tokens, reasoning included.';
COMMENT ON COLUMN report.think_act.cache_read_input_tokens IS 'Input tokens read from a cache.';
COMMENT ON COLUMN report.think_act.cache_creation_input_tokens IS 'Input tokens written to a cache.';
COMMENT ON COLUMN report.think_act.reasoning_tokens IS 'Output tokens spent on reasoning.';
COMMENT ON COLUMN report.think_act.cost_usd IS 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.';
COMMENT ON COLUMN report.think_act.cost_told IS 'Whether the cost was reported; if not, it was computed.';
COMMENT ON COLUMN report.think_act.happened_at IS 'When it began. If that was not reported: when it ended, else when it was first seen. Never null; indexed.';
COMMENT ON COLUMN report.think_act.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';

ALTER TABLE actlog.model_away DROP COLUMN passed_over;
ALTER TABLE actlog.think_act_record DROP COLUMN fallback_from;
