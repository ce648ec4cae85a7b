-- Reporting: views for plain SQL, and a role that sees nothing else. The views are a
-- contract: columns may be added; a changed meaning needs a new view.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'report') THEN
        IF NOT has_database_privilege(current_database(), 'CREATE') THEN
            RAISE EXCEPTION 'create schema report: role % may not create schemas; a role with that right can run CREATE SCHEMA report AUTHORIZATION %',
                current_user, quote_ident(current_user);
        END IF;
        CREATE SCHEMA report;
    END IF;
END
$$;
-- +goose StatementEnd

-- Indexes by time are block ranges (BRIN): they cost a write almost nothing, and rows arrive
-- in about that order. Postgres remembers at most 256 full ranges and summarises them once a
-- minute; smaller ranges would fill its log with those that it could not remember.
-- Indexes by failure have few rows.
-- No index of plans and steps contains a column that heartbeats or roll-ups change. Otherwise
-- these would no longer be heap-only updates, which are cheap. Cycles and tool calls outgrow
-- their pages anyway.
CREATE INDEX plan_time ON actlog.plan_execution_record USING brin (first_seen_at) WITH (autosummarize = on);
CREATE INDEX agent_time ON actlog.agent_execution_record USING brin (
    start_time, (date_trunc('day', COALESCE(start_time AT TIME ZONE 'utc', end_time AT TIME ZONE 'utc', part)) AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX think_act_time ON actlog.think_act_record USING brin (
    think_start_time, (date_trunc('day', COALESCE(think_start_time AT TIME ZONE 'utc', think_end_time AT TIME ZONE 'utc', part)) AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX act_tool_time ON actlog.act_tool_info USING brin (
    start_time, (date_trunc('day', COALESCE(start_time AT TIME ZONE 'utc', end_time AT TIME ZONE 'utc', part)) AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX plan_failed ON actlog.plan_execution_record ((COALESCE(end_time, start_time, first_seen_at)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX agent_failed ON actlog.agent_execution_record ((COALESCE(end_time, start_time)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX think_act_failed ON actlog.think_act_record ((COALESCE(GREATEST(think_end_time, act_end_time), act_start_time, think_start_time)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX act_tool_failed ON actlog.act_tool_info ((COALESCE(end_time, start_time)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');

-- Views with one row per plan, step, cycle, call, wait and failure. ---------------

-- p is the plan, r its root plan. A join costs nothing if the query reads none of its columns.
CREATE VIEW report.plan AS
SELECT
    p.root_plan_id, p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id,
    p.root_plan_id = p.current_plan_id AS is_root, p.part, p.first_seen_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(p.conversation_id, r.conversation_id) AS conversation_id, COALESCE(p.trace_id, r.trace_id) AS trace_id,
    p.name, left(p.title, 200) AS title, p.executor, p.tags, p.model_name,
    p.state, p.status, p.completed, p.error_kind, p.start_time, p.end_time, p.last_seen_at,
    GREATEST(0, extract(epoch FROM p.end_time - p.start_time))::double precision AS duration_seconds,
    COALESCE(own.steps, 0) AS steps, COALESCE(own.cycles, 0) AS cycles, COALESCE(own.model_calls, 0) AS model_calls,
    COALESCE(own.tool_calls, 0) AS tool_calls, COALESCE(own.failures, 0) AS failures,
    COALESCE(own.input_tokens, 0) AS input_tokens, COALESCE(own.output_tokens, 0) AS output_tokens,
    COALESCE(own.cache_read_input_tokens, 0) AS cache_read_input_tokens,
    COALESCE(own.cache_creation_input_tokens, 0) AS cache_creation_input_tokens,
    COALESCE(own.reasoning_tokens, 0) AS reasoning_tokens, own.cost_usd,
    COALESCE(own.think_ms, 0)::double precision / 1000 AS think_seconds,
    COALESCE(own.tool_ms, 0)::double precision / 1000 AS tool_seconds,
    (SELECT count(*) FROM actlog.wait_state AS w WHERE w.root_plan_id = p.root_plan_id AND w.plan_id = p.current_plan_id) AS waits,
    (SELECT COALESCE(sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))), 0)::double precision
        FROM actlog.wait_state AS w WHERE w.root_plan_id = p.root_plan_id AND w.plan_id = p.current_plan_id) AS wait_seconds,
    cardinality(tree.plan_ids)::bigint AS total_plans, COALESCE(total.steps, 0) AS total_steps, COALESCE(total.cycles, 0) AS total_cycles,
    COALESCE(total.model_calls, 0) AS total_model_calls,
    COALESCE(total.tool_calls, 0) AS total_tool_calls, COALESCE(total.failures, 0) AS total_failures,
    COALESCE(total.input_tokens, 0) AS total_input_tokens, COALESCE(total.output_tokens, 0) AS total_output_tokens,
    COALESCE(total.cache_read_input_tokens, 0) AS total_cache_read_input_tokens,
    COALESCE(total.cache_creation_input_tokens, 0) AS total_cache_creation_input_tokens,
    COALESCE(total.reasoning_tokens, 0) AS total_reasoning_tokens, total.cost_usd AS total_cost_usd,
    COALESCE(total.think_ms, 0)::double precision / 1000 AS total_think_seconds,
    COALESCE(total.tool_ms, 0)::double precision / 1000 AS total_tool_seconds,
    COALESCE(total_wait.waits, 0) AS total_waits, COALESCE(total_wait.seconds, 0)::double precision AS total_wait_seconds
FROM actlog.plan_execution_record AS p
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS steps, sum(a.cycles)::bigint AS cycles, sum(a.model_calls)::bigint AS model_calls,
        sum(a.tool_calls)::bigint AS tool_calls, sum(a.failures)::bigint AS failures,
        sum(a.input_tokens)::bigint AS input_tokens, sum(a.output_tokens)::bigint AS output_tokens,
        sum(a.cache_read_input_tokens)::bigint AS cache_read_input_tokens,
        sum(a.cache_creation_input_tokens)::bigint AS cache_creation_input_tokens,
        sum(a.reasoning_tokens)::bigint AS reasoning_tokens, sum(a.cost_usd) AS cost_usd,
        sum(a.think_ms)::bigint AS think_ms, sum(a.tool_ms)::bigint AS tool_ms
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id AND a.shown_plan_id = p.current_plan_id
) AS own ON true
LEFT JOIN LATERAL (
    SELECT array_agg(b.plan_id) AS plan_ids
    FROM (
        -- A root plan owns its whole tree, also plans whose parent is missing.
        SELECT t.current_plan_id AS plan_id
        FROM actlog.plan_execution_record AS t
        WHERE t.root_plan_id = p.root_plan_id AND p.current_plan_id = p.root_plan_id
        UNION ALL
        SELECT s.plan_id
        FROM (
            WITH RECURSIVE beneath (plan_id) AS (
                SELECT p.current_plan_id
                UNION
                SELECT t.current_plan_id
                FROM beneath
                JOIN actlog.plan_execution_record AS t ON t.root_plan_id = p.root_plan_id AND t.parent_plan_id = beneath.plan_id
            )
            SELECT plan_id FROM beneath
        ) AS s
        WHERE p.current_plan_id <> p.root_plan_id
    ) AS b
) AS tree ON true
LEFT JOIN LATERAL (
    SELECT
        count(*) AS steps, sum(a.cycles)::bigint AS cycles, sum(a.model_calls)::bigint AS model_calls,
        sum(a.tool_calls)::bigint AS tool_calls, sum(a.failures)::bigint AS failures,
        sum(a.input_tokens)::bigint AS input_tokens, sum(a.output_tokens)::bigint AS output_tokens,
        sum(a.cache_read_input_tokens)::bigint AS cache_read_input_tokens,
        sum(a.cache_creation_input_tokens)::bigint AS cache_creation_input_tokens,
        sum(a.reasoning_tokens)::bigint AS reasoning_tokens, sum(a.cost_usd) AS cost_usd,
        sum(a.think_ms)::bigint AS think_ms, sum(a.tool_ms)::bigint AS tool_ms
    FROM unnest(tree.plan_ids) AS b (plan_id)
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = p.root_plan_id AND a.shown_plan_id = b.plan_id
) AS total ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS waits, sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) AS seconds
    FROM unnest(tree.plan_ids) AS b (plan_id)
    JOIN actlog.wait_state AS w ON w.root_plan_id = p.root_plan_id AND w.plan_id = b.plan_id
) AS total_wait ON true;

CREATE VIEW report.agent_execution AS
SELECT
    a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, a.part, a.start_time, a.end_time, a.last_seen_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    p.name AS plan_name, a.step_index, a.agent_name, a.agent_version, a.model_name,
    COALESCE(a.attempt, 1) AS attempt, a.state, a.status, a.error_kind,
    GREATEST(0, extract(epoch FROM a.end_time - a.start_time))::double precision AS duration_seconds,
    a.max_steps, COALESCE(a.cycles, 0) AS cycles, COALESCE(a.completed_cycles, 0) AS completed_cycles,
    COALESCE(a.model_calls, 0) AS model_calls, COALESCE(a.tool_calls, 0) AS tool_calls, COALESCE(a.failures, 0) AS failures,
    COALESCE(a.input_tokens, 0) AS input_tokens, COALESCE(a.output_tokens, 0) AS output_tokens,
    COALESCE(a.cache_read_input_tokens, 0) AS cache_read_input_tokens,
    COALESCE(a.cache_creation_input_tokens, 0) AS cache_creation_input_tokens,
    COALESCE(a.reasoning_tokens, 0) AS reasoning_tokens, a.cost_usd,
    COALESCE(a.think_ms, 0)::double precision / 1000 AS think_seconds,
    COALESCE(a.tool_ms, 0)::double precision / 1000 AS tool_seconds, a.latest_tool_name
FROM actlog.agent_execution_record AS a
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = a.root_plan_id AND r.current_plan_id = a.root_plan_id;

CREATE VIEW report.think_act AS
SELECT
    c.root_plan_id, a.shown_plan_id AS plan_id, c.step_id, c.seq, c.part,
    c.think_start_time AS start_time, GREATEST(c.think_end_time, c.act_end_time) AS end_time,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, a.agent_name, a.agent_version, c.provider, COALESCE(c.model_name, a.model_name) AS model_name,
    COALESCE(c.attempt, 1) AS attempt, c.state, c.status, c.finish_reason, c.error_kind,
    GREATEST(0, extract(epoch FROM c.think_end_time - c.think_start_time))::double precision AS think_seconds,
    GREATEST(0, extract(epoch FROM c.first_token_time - c.think_start_time))::double precision AS first_token_seconds,
    GREATEST(0, extract(epoch FROM c.act_end_time - c.act_start_time))::double precision AS act_seconds,
    c.input_char_count, c.output_char_count, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
    c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.told_cost_usd IS NOT NULL AS cost_told
FROM actlog.think_act_record AS c
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = c.root_plan_id AND r.current_plan_id = c.root_plan_id;

CREATE VIEW report.tool_call AS
SELECT
    t.root_plan_id, a.shown_plan_id AS plan_id, t.step_id, t.seq, t.tool_call_id, t.part, t.start_time, t.end_time,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, a.agent_name, a.agent_version, a.model_name,
    t.name AS tool_name, t.server_name, t.provider_call_id, t.call_index,
    COALESCE(t.attempt, 1) AS attempt, t.state, t.status, t.error_kind, COALESCE(t.inferred, false) AS inferred,
    GREATEST(0, extract(epoch FROM t.end_time - t.start_time))::double precision AS duration_seconds
FROM actlog.act_tool_info AS t
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = t.root_plan_id AND a.step_id = t.step_id
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = t.root_plan_id AND r.current_plan_id = t.root_plan_id;

CREATE VIEW report.wait AS
SELECT
    w.root_plan_id, w.plan_id, w.wait_id, w.step_id, w.tool_call_id, p.part, w.start_time, w.end_time, w.expires_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.name AS plan_name, a.agent_name,
    w.type, left(w.title, 200) AS title, w.state, w.state = 'WAITING' AND NOT p.completed AND NOT r.completed AS open, w.decided_by,
    CASE WHEN w.state <> 'WAITING' THEN GREATEST(0, extract(epoch FROM w.end_time - w.start_time))::double precision END AS waited_seconds
FROM actlog.wait_state AS w
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = w.root_plan_id AND p.current_plan_id = w.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = w.root_plan_id AND r.current_plan_id = w.root_plan_id
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = w.root_plan_id AND a.step_id = w.step_id;

CREATE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS agent_name, NULL::text AS tool_name, x.state, x.error_kind, x.error_message
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.agent_name, NULL, x.state, x.error_kind, x.error_message
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.agent_name, NULL, x.state, x.error_kind, x.error_message
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.agent_name, x.name, x.state, x.error_kind, x.error_message
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id;

-- What runs now. ------------------------------------------------------------------

-- A root plan is alive, or waits, as long as anything in its tree does.
CREATE VIEW report.running AS
SELECT
    p.root_plan_id, p.current_plan_id AS plan_id, p.root_plan_id = p.current_plan_id AS is_root, p.part,
    COALESCE(p.start_time, p.first_seen_at) AS since,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.name, left(p.title, 200) AS title, p.state,
    life.at AS last_sign_of_life,
    extract(epoch FROM now() - COALESCE(p.start_time, p.first_seen_at))::double precision AS running_seconds,
    extract(epoch FROM now() - life.at)::double precision AS silent_seconds,
    s.steps, s.cycles, s.tool_calls, s.cost_usd, l.step_id, l.agent_name, l.latest_tool_name,
    EXISTS (SELECT FROM report.wait AS w WHERE w.root_plan_id = p.root_plan_id AND p.current_plan_id IN (w.root_plan_id, w.plan_id) AND w.open) AS waits_for_human
FROM actlog.plan_execution_record AS p
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS steps, COALESCE(sum(a.cycles), 0)::bigint AS cycles, COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        sum(a.cost_usd) AS cost_usd
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id AND a.shown_plan_id = p.current_plan_id
) AS s ON true
LEFT JOIN LATERAL (
    SELECT max(x.at) AS at
    FROM (
        SELECT GREATEST(t.last_seen_at, t.start_time, t.end_time, t.first_seen_at) AS at
        FROM actlog.plan_execution_record AS t
        WHERE t.root_plan_id = p.root_plan_id AND p.current_plan_id IN (t.root_plan_id, t.current_plan_id)
        UNION ALL
        SELECT GREATEST(a.last_seen_at, a.start_time, a.end_time)
        FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = p.root_plan_id AND p.current_plan_id IN (a.root_plan_id, a.shown_plan_id)
    ) AS x
) AS life ON true
LEFT JOIN LATERAL (
    SELECT a.step_id, a.agent_name, a.latest_tool_name
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id AND a.shown_plan_id = p.current_plan_id AND a.status = 'RUNNING'
    ORDER BY a.start_time DESC NULLS LAST, a.step_index DESC NULLS LAST, a.step_id
    LIMIT 1
) AS l ON true
WHERE NOT p.completed;

-- By day (of UTC). ------------------------------------------------------------------

-- Cycles that are on record, and the roll-ups of the steps whose cycles were dropped. Cycles
-- that are written after their period was dropped are not counted.
CREATE VIEW report.usage_daily AS
SELECT
    d.day, d.project, d.agent_name, d.provider, d.model_name,
    sum(d.model_calls)::bigint AS model_calls, sum(d.failures)::bigint AS failures,
    COALESCE(sum(d.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(d.output_tokens), 0)::bigint AS output_tokens,
    COALESCE(sum(d.cache_read_input_tokens), 0)::bigint AS cache_read_input_tokens,
    COALESCE(sum(d.cache_creation_input_tokens), 0)::bigint AS cache_creation_input_tokens,
    COALESCE(sum(d.reasoning_tokens), 0)::bigint AS reasoning_tokens, sum(d.cost_usd) AS cost_usd,
    COALESCE(sum(d.think_ms), 0)::double precision / 1000 AS think_seconds
FROM (
    SELECT
        date_trunc('day', COALESCE(c.think_start_time AT TIME ZONE 'utc', c.think_end_time AT TIME ZONE 'utc', c.part)) AT TIME ZONE 'utc' AS day,
        COALESCE(p.project, r.project, 'default') AS project, a.agent_name, c.provider, COALESCE(c.model_name, a.model_name) AS model_name,
        count(*) FILTER (WHERE COALESCE(c.think_start_time, c.think_end_time) IS NOT NULL
            OR COALESCE(c.input_char_count, c.output_char_count, c.input_tokens, c.output_tokens) IS NOT NULL
            OR c.model_name IS NOT NULL) AS model_calls,
        count(*) FILTER (WHERE c.state = 'FAILED') AS failures,
        sum(c.input_tokens) AS input_tokens, sum(c.output_tokens) AS output_tokens,
        sum(c.cache_read_input_tokens) AS cache_read_input_tokens, sum(c.cache_creation_input_tokens) AS cache_creation_input_tokens,
        sum(c.reasoning_tokens) AS reasoning_tokens, sum(c.cost_usd) AS cost_usd,
        sum(GREATEST(0, round(1000 * extract(epoch FROM c.think_end_time - c.think_start_time))::bigint)) AS think_ms
    FROM actlog.think_act_record AS c
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
    LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = c.root_plan_id AND r.current_plan_id = c.root_plan_id
    WHERE c.part <> ALL (ARRAY(SELECT u.day::date FROM actlog.dropped_detail AS x, generate_series(x.from_day, x.to_day - 1, INTERVAL '1 day') AS u (day)))
    GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT
        date_trunc('day', COALESCE(a.start_time AT TIME ZONE 'utc', a.part)) AT TIME ZONE 'utc',
        COALESCE(p.project, r.project, 'default'), a.agent_name, NULL, a.model_name,
        a.model_calls, a.failures, a.input_tokens, a.output_tokens, a.cache_read_input_tokens, a.cache_creation_input_tokens,
        a.reasoning_tokens, a.cost_usd, a.think_ms
    FROM actlog.dropped_detail AS x
    JOIN actlog.agent_execution_record AS a ON a.part >= x.from_day AND a.part < x.to_day AND a.model_calls > 0
    LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
    LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = a.root_plan_id AND r.current_plan_id = a.root_plan_id
) AS d
GROUP BY d.day, d.project, d.agent_name, d.provider, d.model_name;

-- Tool calls that are on record, and the daily figures of those that were dropped.
CREATE VIEW report.tool_daily AS
SELECT
    h.day, h.project, h.tool_name, h.server_name, h.calls, h.failures,
    h.ms::double precision / 1000 AS total_seconds,
    actlog.percentile_ms(h.histogram, 0.5) / 1000 AS p50_seconds,
    actlog.percentile_ms(h.histogram, 0.95) / 1000 AS p95_seconds,
    actlog.percentile_ms(h.histogram, 0.99) / 1000 AS p99_seconds
FROM (
    SELECT
        d.day, d.project, d.tool_name, d.server_name, sum(d.calls)::bigint AS calls, sum(d.failures)::bigint AS failures,
        COALESCE(sum(d.ms), 0)::bigint AS ms,
        actlog.histogram(array_agg(d.bucket) FILTER (WHERE d.bucket IS NOT NULL), array_agg(d.n) FILTER (WHERE d.bucket IS NOT NULL)) AS histogram
    FROM (
        SELECT
            c.day, COALESCE(p.project, r.project, 'default') AS project, c.tool_name, c.server_name, actlog.duration_bucket(c.ms) AS bucket,
            count(*) AS n, count(*) AS calls, count(*) FILTER (WHERE c.state = 'FAILED') AS failures, sum(c.ms) AS ms
        FROM (
            SELECT
                y.root_plan_id, y.step_id, y.name AS tool_name, y.server_name, y.state,
                date_trunc('day', COALESCE(y.start_time AT TIME ZONE 'utc', y.end_time AT TIME ZONE 'utc', y.part)) AT TIME ZONE 'utc' AS day,
                GREATEST(0, round(1000 * extract(epoch FROM y.end_time - y.start_time)))::bigint AS ms
            FROM actlog.act_tool_info AS y
            WHERE y.part <> ALL (ARRAY(SELECT u.day::date FROM actlog.dropped_detail AS x, generate_series(x.from_day, x.to_day - 1, INTERVAL '1 day') AS u (day)))
        ) AS c
        LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
        LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
        LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = c.root_plan_id AND r.current_plan_id = c.root_plan_id
        GROUP BY 1, 2, 3, 4, 5
        UNION ALL
        SELECT
            x.day::timestamp AT TIME ZONE 'utc', x.project, NULLIF(x.tool_name, ''), NULLIF(x.server_name, ''), NULL,
            0, x.calls, x.failures, x.total_ms
        FROM actlog.tool_daily AS x
        UNION ALL
        SELECT
            x.day::timestamp AT TIME ZONE 'utc', x.project, NULLIF(x.tool_name, ''), NULLIF(x.server_name, ''), u.bucket::integer,
            u.n, 0, 0, 0
        FROM actlog.tool_daily AS x
        CROSS JOIN LATERAL unnest(x.histogram) WITH ORDINALITY AS u (n, bucket)
        WHERE u.n > 0
    ) AS d
    GROUP BY d.day, d.project, d.tool_name, d.server_name
) AS h;

CREATE VIEW report.agent_daily AS
SELECT
    d.day, d.project, d.agent_name, d.agent_version, count(*) AS executions,
    count(*) FILTER (WHERE d.state = 'COMPLETED') AS completed, count(*) FILTER (WHERE d.state = 'FAILED') AS failed,
    count(*) FILTER (WHERE d.state = 'INTERRUPTED') AS interrupted, count(*) FILTER (WHERE d.status <> 'FINISHED') AS unfinished,
    count(*) FILTER (WHERE d.attempt > 1) AS retried,
    sum(d.cycles)::bigint AS cycles, sum(d.model_calls)::bigint AS model_calls, sum(d.tool_calls)::bigint AS tool_calls,
    sum(d.failures)::bigint AS failures, sum(d.input_tokens)::bigint AS input_tokens, sum(d.output_tokens)::bigint AS output_tokens,
    sum(d.cost_usd) AS cost_usd, sum(d.think_seconds) AS think_seconds, sum(d.tool_seconds) AS tool_seconds,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY d.duration_seconds) AS p50_seconds,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY d.duration_seconds) AS p95_seconds,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY d.duration_seconds) AS p99_seconds
FROM (
    SELECT date_trunc('day', COALESCE(a.start_time AT TIME ZONE 'utc', a.end_time AT TIME ZONE 'utc', a.part)) AT TIME ZONE 'utc' AS day, a.*
    FROM report.agent_execution AS a
) AS d
GROUP BY d.day, d.project, d.agent_name, d.agent_version;

-- Prices. ---------------------------------------------------------------------------

CREATE VIEW report.model_price AS
SELECT provider, model, from_day::timestamp AT TIME ZONE 'utc' AS from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen
FROM actlog.model_price;

CREATE VIEW report.unpriced_model AS
SELECT
    c.provider, c.model_name,
    min(COALESCE(c.think_start_time, c.think_end_time, c.part::timestamp AT TIME ZONE 'utc')) AS first_call,
    max(COALESCE(c.think_start_time, c.think_end_time, c.part::timestamp AT TIME ZONE 'utc')) AS last_call, count(*) AS model_calls,
    COALESCE(sum(c.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(c.output_tokens), 0)::bigint AS output_tokens
FROM actlog.think_act_record AS c
WHERE c.cost_usd IS NULL AND COALESCE(c.input_tokens, c.output_tokens) IS NOT NULL
GROUP BY c.provider, c.model_name;

-- Comments. ----------------------------------------------------------------------------

COMMENT ON SCHEMA report IS 'Views for reports in plain SQL. Durations are in seconds, money in US dollars, days in UTC. docs/reporting.md has examples.';
COMMENT ON VIEW report.plan IS 'One row per plan, root plans and sub-plans. Filter on first_seen_at. Figures are those of the plan itself; total_ figures include its sub-plans.';
COMMENT ON VIEW report.agent_execution IS 'One row per step: one agent at work on one step of a plan. Filter on start_time.';
COMMENT ON VIEW report.think_act IS 'One row per think-act cycle: one model call and its tool calls. Filter on start_time.';
COMMENT ON VIEW report.tool_call IS 'One row per tool call. Filter on start_time.';
COMMENT ON VIEW report.wait IS 'One row per wait for a human. Filter on start_time.';
COMMENT ON VIEW report.failure IS 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED. A failure at one level often causes one at the level above. Filter on failed_at.';
COMMENT ON VIEW report.running IS 'One row per plan that has not ended. Filter on since.';
COMMENT ON VIEW report.usage_daily IS 'Model calls by day, project, agent and model. Calls whose detail was dropped count on the day on which their step began, with the model of the step. Filter on day.';
COMMENT ON VIEW report.tool_daily IS 'Tool calls by day, project, tool and tool server, dropped ones included. Percentiles come from a histogram; their error is at most a fifth. Filter on day.';
COMMENT ON VIEW report.agent_daily IS 'Steps by day, project, agent and version of the agent. Filter on day.';
COMMENT ON VIEW report.model_price IS 'What models cost, in US dollars per million tokens, by the first day of the price. The built-in prices are those of the base tier. For calls in a batch, with a long context, in peak hours, or with cache writes that are kept for an hour, report costUsd with the call.';
COMMENT ON VIEW report.unpriced_model IS 'Models whose calls have tokens but no cost on record, because no price was known or no model was named. Filter on last_call.';

-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    -- The comment of each column, by view and name. The view * stands for every view.
    FOR c IN
        WITH said (view, name, comment) AS (VALUES
            ('*', 'root_plan_id', 'The root plan of the tree; for a root plan, its own id.'),
            ('*', 'plan_id', 'The plan.'),
            ('*', 'parent_plan_id', 'The plan whose tool call started this one; null for a root plan.'),
            ('*', 'step_id', 'The step; null if there is none.'),
            ('*', 'seq', 'Number of the cycle within its step, from 0.'),
            ('*', 'tool_call_id', 'The tool call.'),
            ('plan', 'tool_call_id', 'The tool call that started the plan; null for a root plan.'),
            ('*', 'is_root', 'Whether the plan is a root plan.'),
            ('*', 'part', 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.'),
            ('*', 'first_seen_at', 'When a server first received a record of it. Never null; indexed.'),
            ('*', 'project', 'The project of the plan, else of its root plan, else default.'),
            ('*', 'environment', 'Where it ran: as reported for the plan, else for its root plan.'),
            ('*', 'release', 'Which release of the agent program ran it: as reported for the plan, else for its root plan.'),
            ('*', 'user_id', 'The user who asked: as reported for the plan, else for its root plan.'),
            ('*', 'conversation_id', 'The conversation: its own, else that of the plan, else of its root plan.'),
            ('*', 'trace_id', 'The trace of the plan, else of its root plan.'),
            ('*', 'name', 'The kind of plan. All runs of one kind have the same name.'),
            ('*', 'plan_name', 'The kind of plan. All runs of one kind have the same name.'),
            ('*', 'title', 'The title of this run; its first 200 characters.'),
            ('wait', 'title', 'What the human is asked for; its first 200 characters.'),
            ('*', 'executor', 'What kind of executor ran the plan.'),
            ('*', 'tags', 'Free labels.'),
            ('*', 'agent_name', 'The agent; null if it is not known.'),
            ('running', 'agent_name', 'The agent of the running step that began last.'),
            ('running', 'step_id', 'The running step that began last.'),
            ('*', 'agent_version', 'The version of the agent.'),
            ('*', 'model_name', 'The model.'),
            ('plan', 'model_name', 'The model of the plan, if it has one.'),
            ('agent_execution', 'model_name', 'The model of the step, if it was reported. The models of its cycles are in think_act.'),
            ('tool_call', 'model_name', 'The model of the step, if it was reported. The models of its cycles are in think_act.'),
            ('*', 'provider', 'The provider of the model.'),
            ('model_price', 'provider', 'The provider of the model; empty: any provider.'),
            ('model_price', 'model', 'The name of the model; * stands for any characters.'),
            ('*', 'tool_name', 'The tool.'),
            ('failure', 'tool_name', 'The tool, if a tool call failed.'),
            ('*', 'server_name', 'The tool server, if the tool has one.'),
            ('*', 'provider_call_id', 'The id that the model gave the call.'),
            ('*', 'call_index', 'Position of the call in its cycle, from 0.'),
            ('*', 'step_index', 'Position of the step in its plan, from 0.'),
            ('*', 'attempt', 'Which attempt this is, from 1.'),
            ('*', 'state', 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.'),
            ('wait', 'state', 'WAITING, then one of SUBMITTED, ACCEPTED, MODIFIED, APPROVED, REJECTED, TIMED_OUT, CANCELLED.'),
            ('*', 'status', 'Three-valued view of state: IDLE, RUNNING, FINISHED.'),
            ('plan', 'completed', 'Whether the state is terminal, successful or not.'),
            ('*', 'error_kind', 'A short class of the error, for counting.'),
            ('*', 'finish_reason', 'Why the model stopped.'),
            ('*', 'inferred', 'Whether the call is known only from the output of the model.'),
            ('*', 'start_time', 'When it began; null if that was not reported. Indexed.'),
            ('plan', 'start_time', 'When it began; null if that was not reported.'),
            ('wait', 'start_time', 'When the wait began.'),
            ('*', 'end_time', 'When it ended; null if it has not ended, or if that was not reported.'),
            ('*', 'expires_at', 'When the wait expires.'),
            ('*', 'last_seen_at', 'The latest time that was reported for it.'),
            ('plan', 'last_seen_at', 'Latest heartbeat of the process that runs it; null: it sends none.'),
            ('*', 'duration_seconds', 'Seconds from start to end; null until both are known.'),
            ('*', 'steps', 'Steps of the plan itself.'),
            ('*', 'max_steps', 'How many cycles the agent may take.'),
            ('*', 'cycles', 'Think-act cycles.'),
            ('*', 'completed_cycles', 'Cycles that have ended.'),
            ('*', 'model_calls', 'Cycles whose model call is known.'),
            ('*', 'tool_calls', 'Tool calls.'),
            ('*', 'failures', 'Failed cycles and failed tool calls.'),
            ('usage_daily', 'failures', 'Failed cycles; if detail was dropped, failed tool calls as well.'),
            ('tool_daily', 'failures', 'Tool calls that failed.'),
            ('*', 'input_tokens', 'Input tokens, cached ones included.'),
            ('*', 'output_tokens', 'Output tokens, reasoning included.'),
            ('*', 'cache_read_input_tokens', 'Input tokens read from a cache.'),
            ('*', 'cache_creation_input_tokens', 'Input tokens written to a cache.'),
            ('*', 'reasoning_tokens', 'Output tokens spent on reasoning.'),
            ('*', 'cost_usd', 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.'),
            ('*', 'cost_told', 'Whether the cost was reported; if not, it was computed.'),
            ('*', 'think_seconds', 'Seconds that models took.'),
            ('*', 'tool_seconds', 'Seconds that tool calls took, added up.'),
            ('*', 'act_seconds', 'Seconds from the start of the first tool call to the end of the last one.'),
            ('*', 'first_token_seconds', 'Seconds until the first token of the model.'),
            ('*', 'input_char_count', 'Characters of the input of the model.'),
            ('*', 'output_char_count', 'Characters of the output of the model.'),
            ('*', 'latest_tool_name', 'The tool of the last call.'),
            ('*', 'waits', 'Waits for a human, of the plan itself.'),
            ('*', 'wait_seconds', 'Seconds of those waits that have ended.'),
            ('plan', 'total_plans', 'Plans: the plan itself and its sub-plans, at any depth.'),
            ('plan', 'total_steps', 'Steps, with those of sub-plans.'),
            ('plan', 'total_cycles', 'Think-act cycles, with those of sub-plans.'),
            ('plan', 'total_model_calls', 'Model calls, with those of sub-plans.'),
            ('plan', 'total_tool_calls', 'Tool calls, with those of sub-plans.'),
            ('plan', 'total_failures', 'Failed cycles and tool calls, with those of sub-plans.'),
            ('plan', 'total_input_tokens', 'Input tokens, with those of sub-plans.'),
            ('plan', 'total_output_tokens', 'Output tokens, with those of sub-plans.'),
            ('plan', 'total_cache_read_input_tokens', 'Input tokens read from a cache, with those of sub-plans.'),
            ('plan', 'total_cache_creation_input_tokens', 'Input tokens written to a cache, with those of sub-plans.'),
            ('plan', 'total_reasoning_tokens', 'Output tokens spent on reasoning, with those of sub-plans.'),
            ('plan', 'total_cost_usd', 'US dollars, with those of sub-plans; null if no cost is known.'),
            ('plan', 'total_think_seconds', 'Seconds that models took, with those of sub-plans.'),
            ('plan', 'total_tool_seconds', 'Seconds that tool calls took, with those of sub-plans. A call that started a sub-plan lasts as long as that plan, and the time of the plan counts as well.'),
            ('plan', 'total_waits', 'Waits for a human, with those of sub-plans.'),
            ('plan', 'total_wait_seconds', 'Seconds of those waits that have ended, with those of sub-plans.'),
            ('wait', 'wait_id', 'The wait.'),
            ('wait', 'type', 'USER_INPUT, PLAN_VALIDATION or ACTION_VALIDATION.'),
            ('wait', 'open', 'Whether the wait is open: nobody has answered, and neither the plan nor its root plan has ended.'),
            ('wait', 'decided_by', 'Who answered.'),
            ('wait', 'waited_seconds', 'Seconds until it ended, answered or not; null until then.'),
            ('failure', 'level', 'What failed: plan, agent_execution, think_act or tool_call.'),
            ('failure', 'failed_at', 'When it ended; if that was not reported, the latest time that is known.'),
            ('failure', 'error', 'First line of the error, at most 500 characters.'),
            ('running', 'since', 'When it began; if that was not reported, when it was first seen.'),
            ('running', 'last_sign_of_life', 'The latest time that was reported for the plan, its steps or its process; for a root plan, for its whole tree.'),
            ('running', 'running_seconds', 'Seconds since it began, by the clock of the database.'),
            ('running', 'silent_seconds', 'Seconds since last_sign_of_life, by the clock of the database.'),
            ('running', 'waits_for_human', 'Whether it waits for a human; for a root plan, whether anything in its tree does.'),
            ('*', 'day', 'The day on which they began (if that is not known, ended), as its first moment in UTC.'),
            ('*', 'calls', 'Tool calls.'),
            ('*', 'total_seconds', 'Seconds that they took, added up.'),
            ('*', 'p50_seconds', 'Half of them took at most this many seconds.'),
            ('*', 'p95_seconds', '95 of 100 took at most this many seconds.'),
            ('*', 'p99_seconds', '99 of 100 took at most this many seconds.'),
            ('agent_daily', 'executions', 'Steps.'),
            ('agent_daily', 'completed', 'Steps that completed.'),
            ('agent_daily', 'failed', 'Steps that failed.'),
            ('agent_daily', 'interrupted', 'Steps that were interrupted.'),
            ('agent_daily', 'unfinished', 'Steps that have not ended.'),
            ('agent_daily', 'retried', 'Steps that needed more than one attempt.'),
            ('model_price', 'from_day', 'The day from which the price holds, as its first moment in UTC.'),
            ('model_price', 'input_usd', 'US dollars per million input tokens without a cache.'),
            ('model_price', 'output_usd', 'US dollars per million output tokens.'),
            ('model_price', 'cache_read_usd', 'US dollars per million input tokens read from a cache; null: the price of input.'),
            ('model_price', 'cache_write_usd', 'US dollars per million input tokens written to a cache; null: the price of input.'),
            ('model_price', 'source', 'Where the price is published.'),
            ('model_price', 'seen', 'When the price was seen there.'),
            ('unpriced_model', 'model_name', 'The model; null: these calls name no model.'),
            ('unpriced_model', 'first_call', 'When the first such call began; if that was not reported, when it ended, else the first day of its part.'),
            ('unpriced_model', 'last_call', 'The same for the last such call.')
        )
        SELECT DISTINCT ON (v.oid, a.attnum) v.relname, a.attname, said.comment
        FROM pg_class AS v
        JOIN pg_attribute AS a ON a.attrelid = v.oid AND a.attnum > 0
        JOIN said ON said.name = a.attname AND said.view IN ('*', v.relname)
        WHERE v.relnamespace = 'report'::regnamespace AND v.relkind = 'v'
        ORDER BY v.oid, a.attnum, said.view = '*'
    LOOP
        EXECUTE format('COMMENT ON COLUMN report.%I.%I IS %L', c.relname, c.attname, c.comment);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- The role that may read the views. -----------------------------------------------------

-- Roles belong to the whole cluster: the migration of another database may have created this
-- role, or may be creating it now.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'actlog_report') THEN
        BEGIN
            CREATE ROLE actlog_report NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'role actlog_report was not created: % may not create roles; docs/reporting.md has the statements', current_user;
                RETURN;
        END;
    END IF;
    GRANT USAGE ON SCHEMA report TO actlog_report;
    GRANT SELECT ON ALL TABLES IN SCHEMA report TO actlog_report;
    ALTER DEFAULT PRIVILEGES IN SCHEMA report GRANT SELECT ON TABLES TO actlog_report;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- Schema and role stay, because others may use them.
DROP VIEW report.unpriced_model, report.model_price, report.agent_daily, report.tool_daily, report.usage_daily, report.running,
    report.failure, report.wait, report.tool_call, report.think_act, report.agent_execution, report.plan;
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'actlog_report') THEN
        ALTER DEFAULT PRIVILEGES IN SCHEMA report REVOKE SELECT ON TABLES FROM actlog_report;
        REVOKE USAGE ON SCHEMA report FROM actlog_report;
    END IF;
END
$$;
-- +goose StatementEnd
DROP INDEX actlog.act_tool_failed;
DROP INDEX actlog.think_act_failed;
DROP INDEX actlog.agent_failed;
DROP INDEX actlog.plan_failed;
DROP INDEX actlog.act_tool_time;
DROP INDEX actlog.think_act_time;
DROP INDEX actlog.agent_time;
DROP INDEX actlog.plan_time;
