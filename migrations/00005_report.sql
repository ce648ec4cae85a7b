-- Reporting: views for plain SQL, and a role that sees nothing else. The views are a contract: columns may be added;
-- a changed meaning needs a new view.

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
COMMENT ON SCHEMA report IS
    'Views for reports in plain SQL. Durations are in seconds, money in US dollars, days in UTC. docs/reporting.md has examples.';

-- Indexes that only reports use. ----------------------------------------------------------

-- Indexes by time are block ranges (BRIN): they cost a write almost nothing, and rows arrive in about that order.
-- Postgres remembers at most 256 full ranges and summarises them once a minute; smaller ranges would fill its log with
-- those that it could not remember.
-- No index of plans and steps contains a column that heartbeats or roll-ups change. Otherwise these would no longer be
-- heap-only updates, which are cheap. Cycles and tool calls outgrow their pages anyway.
CREATE INDEX plan_time ON actlog.plan_execution_record USING brin (first_seen_at, (COALESCE(start_time, first_seen_at))) WITH (autosummarize = on);
CREATE INDEX agent_time ON actlog.agent_execution_record USING brin (
    start_time, (COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX think_act_time ON actlog.think_act_record USING brin (
    think_start_time, (COALESCE(think_start_time, think_end_time, act_start_time, act_end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(think_start_time, think_end_time, act_start_time, act_end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX act_tool_time ON actlog.act_tool_info USING brin (
    start_time, (COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')),
    (date_trunc('day', COALESCE(start_time, end_time, first_seen_at, part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc'))
    WITH (autosummarize = on);
CREATE INDEX thought_time ON actlog.thought USING brin ((COALESCE(time, first_seen_at))) WITH (autosummarize = on);
-- Few rows have failed.
CREATE INDEX plan_failed ON actlog.plan_execution_record ((COALESCE(end_time, start_time, first_seen_at)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX agent_failed ON actlog.agent_execution_record ((COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX think_act_failed ON actlog.think_act_record ((COALESCE(GREATEST(think_end_time, act_end_time), act_start_time, think_start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX act_tool_failed ON actlog.act_tool_info ((COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
-- Few rows have attempts before their current one.
CREATE INDEX agent_attempts ON actlog.agent_execution_record (root_plan_id) WHERE attempts IS NOT NULL;
CREATE INDEX think_act_attempts ON actlog.think_act_record (root_plan_id) WHERE attempts IS NOT NULL;
CREATE INDEX act_tool_attempts ON actlog.act_tool_info (root_plan_id) WHERE attempts IS NOT NULL;
-- The trees that have sub-plans.
CREATE INDEX plan_with_subs ON actlog.plan_execution_record (part, root_plan_id) WHERE root_plan_id <> current_plan_id;
-- Reports of root plans with a range of part read these only.
CREATE INDEX plan_root_part ON actlog.plan_execution_record (part, root_plan_id) WHERE root_plan_id = current_plan_id;

-- The figures of plans. -------------------------------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION actlog.sub_plan_figures(root text) RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off -- it joins sets that are as large as the tree
AS $$
DECLARE
    ids      text[];            -- the sub-plans of the tree, by their number
    above    integer[];         -- the parent of each; 0: none, or the root plan
    n        integer;
    children integer[];         -- how many of its children are not in place yet
    place    integer[];         -- all of them, children before their parents
    placed   integer := 0;
    size     integer[];         -- how many plans there are from this one down
    start    integer[];         -- its place if all are listed from the root down, each followed by those below it
    below    integer[];         -- the next free place below it
    depth    integer[];
    free     integer := 1;
    v        integer;
    p        integer;
    figures  jsonb;
BEGIN
    WITH sub AS MATERIALIZED (
        SELECT s.current_plan_id, s.parent_plan_id, row_number() OVER (ORDER BY s.start_time, s.current_plan_id)::integer AS number
        FROM actlog.plan_execution_record AS s
        WHERE s.root_plan_id = root AND s.current_plan_id <> root
    )
    SELECT array_agg(sub.current_plan_id ORDER BY sub.number), array_agg(COALESCE(parent.number, 0) ORDER BY sub.number), count(*)
    INTO ids, above, n
    FROM sub LEFT JOIN sub AS parent ON parent.current_plan_id = sub.parent_plan_id;
    IF n = 0 THEN
        RETURN '{}';
    END IF;

    children := array_fill(0, ARRAY[n]);
    size := array_fill(1, ARRAY[n]);
    start := children;
    below := children;
    depth := children;
    place := children;
    FOR i IN 1..n LOOP
        p := above[i];
        IF p > 0 THEN
            children[p] := children[p] + 1;
        END IF;
    END LOOP;
    -- Climb from each plan without children, as long as all children of the parent are in place.
    -- What is left then are cycles: their first plan counts as directly below the root, as in the
    -- tree.
    FOR cycles IN 0..1 LOOP
        FOR i IN 1..n LOOP
            v := i;
            IF cycles = 1 AND children[v] > 0 THEN
                p := above[v];
                above[v] := 0;
                v := p;
                children[v] := 0;
            END IF;
            WHILE v > 0 AND children[v] = 0 LOOP
                placed := placed + 1;
                place[placed] := v;
                children[v] := -1;
                p := above[v];
                IF p > 0 THEN
                    children[p] := children[p] - 1;
                    size[p] := size[p] + size[v];
                END IF;
                v := p;
            END LOOP;
        END LOOP;
    END LOOP;
    FOR i IN REVERSE n..1 LOOP
        v := place[i];
        p := above[v];
        IF p = 0 THEN
            start[v] := free;
            free := free + size[v];
            depth[v] := 1;
        ELSE
            start[v] := below[p];
            below[p] := below[p] + size[v];
            depth[v] := depth[p] + 1;
        END IF;
        below[v] := start[v] + 1;
    END LOOP;

    -- The total of a plan is the running sum at the last plan below it, less that before it.
    WITH own AS (
        SELECT
            a.shown_plan_id AS plan_id, count(*) AS steps,
            sum(a.cycles) AS cycles,
            sum(a.model_calls) AS model_calls,
            sum(a.tool_calls) AS tool_calls,
            sum(a.failures) AS failures,
            sum(a.input_tokens) AS input_tokens,
            sum(a.output_tokens) AS output_tokens,
            sum(a.cache_read_input_tokens) AS cache_read_input_tokens,
            sum(a.cache_creation_input_tokens) AS cache_creation_input_tokens,
            sum(a.reasoning_tokens) AS reasoning_tokens,
            sum(a.think_ms) AS think_ms,
            sum(a.tool_ms) AS tool_ms,
            sum(a.cost_usd) AS cost_usd, count(a.cost_usd) AS costs
        FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = root
        GROUP BY a.shown_plan_id
    ), waited AS (
        SELECT w.plan_id, count(*) AS waits, sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) AS wait_seconds
        FROM actlog.wait_state AS w
        WHERE w.root_plan_id = root
        GROUP BY w.plan_id
    ), sums AS MATERIALIZED (
        SELECT
            s.plan_id, s.start, s.start + s.size - 1 AS stop, s.size, s.depth,
            COALESCE(steps, 0) AS steps, sum(steps) OVER (ORDER BY s.start) AS to_steps,
            COALESCE(cycles, 0) AS cycles, sum(cycles) OVER (ORDER BY s.start) AS to_cycles,
            COALESCE(model_calls, 0) AS model_calls, sum(model_calls) OVER (ORDER BY s.start) AS to_model_calls,
            COALESCE(tool_calls, 0) AS tool_calls, sum(tool_calls) OVER (ORDER BY s.start) AS to_tool_calls,
            COALESCE(failures, 0) AS failures, sum(failures) OVER (ORDER BY s.start) AS to_failures,
            COALESCE(input_tokens, 0) AS input_tokens, sum(input_tokens) OVER (ORDER BY s.start) AS to_input_tokens,
            COALESCE(output_tokens, 0) AS output_tokens, sum(output_tokens) OVER (ORDER BY s.start) AS to_output_tokens,
            COALESCE(cache_read_input_tokens, 0) AS cache_read_input_tokens, sum(cache_read_input_tokens) OVER (ORDER BY s.start) AS to_cache_read_input_tokens,
            COALESCE(cache_creation_input_tokens, 0) AS cache_creation_input_tokens, sum(cache_creation_input_tokens) OVER (ORDER BY s.start) AS to_cache_creation_input_tokens,
            COALESCE(reasoning_tokens, 0) AS reasoning_tokens, sum(reasoning_tokens) OVER (ORDER BY s.start) AS to_reasoning_tokens,
            COALESCE(think_ms, 0) AS think_ms, sum(think_ms) OVER (ORDER BY s.start) AS to_think_ms,
            COALESCE(tool_ms, 0) AS tool_ms, sum(tool_ms) OVER (ORDER BY s.start) AS to_tool_ms,
            COALESCE(cost_usd, 0) AS cost_usd, sum(cost_usd) OVER (ORDER BY s.start) AS to_cost_usd,
            COALESCE(costs, 0) AS costs, sum(costs) OVER (ORDER BY s.start) AS to_costs,
            COALESCE(waits, 0) AS waits, sum(waits) OVER (ORDER BY s.start) AS to_waits,
            COALESCE(wait_seconds, 0) AS wait_seconds, sum(wait_seconds) OVER (ORDER BY s.start) AS to_wait_seconds
        FROM unnest(ids, start, size, depth) AS s (plan_id, start, size, depth)
        LEFT JOIN own USING (plan_id)
        LEFT JOIN waited USING (plan_id)
    )
    SELECT jsonb_object_agg(s.plan_id, jsonb_build_object(
        'depth', s.depth, 'total_plans', s.size,
        'steps', s.steps, 'total_steps', COALESCE(e.to_steps, 0) - COALESCE(s.to_steps, 0) + s.steps,
        'cycles', s.cycles, 'total_cycles', COALESCE(e.to_cycles, 0) - COALESCE(s.to_cycles, 0) + s.cycles,
        'model_calls', s.model_calls, 'total_model_calls', COALESCE(e.to_model_calls, 0) - COALESCE(s.to_model_calls, 0) + s.model_calls,
        'tool_calls', s.tool_calls, 'total_tool_calls', COALESCE(e.to_tool_calls, 0) - COALESCE(s.to_tool_calls, 0) + s.tool_calls,
        'failures', s.failures, 'total_failures', COALESCE(e.to_failures, 0) - COALESCE(s.to_failures, 0) + s.failures,
        'input_tokens', s.input_tokens, 'total_input_tokens', COALESCE(e.to_input_tokens, 0) - COALESCE(s.to_input_tokens, 0) + s.input_tokens,
        'output_tokens', s.output_tokens, 'total_output_tokens', COALESCE(e.to_output_tokens, 0) - COALESCE(s.to_output_tokens, 0) + s.output_tokens,
        'cache_read_input_tokens', s.cache_read_input_tokens, 'total_cache_read_input_tokens', COALESCE(e.to_cache_read_input_tokens, 0) - COALESCE(s.to_cache_read_input_tokens, 0) + s.cache_read_input_tokens,
        'cache_creation_input_tokens', s.cache_creation_input_tokens, 'total_cache_creation_input_tokens', COALESCE(e.to_cache_creation_input_tokens, 0) - COALESCE(s.to_cache_creation_input_tokens, 0) + s.cache_creation_input_tokens,
        'reasoning_tokens', s.reasoning_tokens, 'total_reasoning_tokens', COALESCE(e.to_reasoning_tokens, 0) - COALESCE(s.to_reasoning_tokens, 0) + s.reasoning_tokens,
        'think_ms', s.think_ms, 'total_think_ms', COALESCE(e.to_think_ms, 0) - COALESCE(s.to_think_ms, 0) + s.think_ms,
        'tool_ms', s.tool_ms, 'total_tool_ms', COALESCE(e.to_tool_ms, 0) - COALESCE(s.to_tool_ms, 0) + s.tool_ms,
        'waits', s.waits, 'total_waits', COALESCE(e.to_waits, 0) - COALESCE(s.to_waits, 0) + s.waits,
        'wait_seconds', s.wait_seconds, 'total_wait_seconds', COALESCE(e.to_wait_seconds, 0) - COALESCE(s.to_wait_seconds, 0) + s.wait_seconds,
        'cost_usd', CASE WHEN s.costs > 0 THEN s.cost_usd END,
        'total_cost_usd', CASE WHEN COALESCE(e.to_costs, 0) - COALESCE(s.to_costs, 0) + s.costs > 0 THEN COALESCE(e.to_cost_usd, 0) - COALESCE(s.to_cost_usd, 0) + s.cost_usd END))
    INTO figures
    FROM sums AS s JOIN sums AS e ON e.start = s.stop;
    RETURN figures;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.sub_plan_figures(text) IS
    'The figures of each sub-plan of a tree, by its id: its own, and as total_ those with its sub-plans. It takes time by the number of plans, however they are nested. report.plan calls it once per tree.';

-- Views with one row per plan, step, cycle, call, wait, attempt and failure. --------------

-- In all of them p is the plan and r its root plan. A join costs nothing if the query reads none of its columns.

-- A root plan owns its whole tree, also plans whose parent is missing, so its figures are sums by root_plan_id. Those
-- of sub-plans come from sub_plan_figures. That is a subquery of its own that names only the tree, so Postgres runs it
-- once per tree, when it meets the first row that needs it. The ORDER BY keeps Postgres from merging the subquery around
-- it into the outer query; then it would run once per row.
-- Conditions of a query reach both branches. Postgres skips the second one if it asks for root plans only, and joins,
-- sums and figures that no selected column needs. The second one begins with trees, so only conditions on what all plans
-- of a tree share, the root plan and the part, choose which trees are looked into.
CREATE VIEW report.plan AS
SELECT
    p.root_plan_id, p.plan_id, p.parent_plan_id, p.tool_call_id,
    p.is_root, p.part, p.first_seen_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(p.conversation_id, r.conversation_id) AS conversation_id, COALESCE(p.trace_id, r.trace_id) AS trace_id,
    p.name, left(p.title, 200) AS title, p.executor, p.tags, p.model_name,
    p.state, p.status, p.completed, p.error_kind, p.start_time, p.end_time, p.last_seen_at,
    CASE WHEN p.start_time <= p.end_time THEN extract(epoch FROM p.end_time - p.start_time)::double precision END AS duration_seconds,
    p.steps, p.cycles, p.model_calls, p.tool_calls, p.failures, p.input_tokens, p.output_tokens, p.cache_read_input_tokens,
    p.cache_creation_input_tokens, p.reasoning_tokens, p.cost_usd, p.think_ms::double precision / 1000 AS think_seconds,
    p.tool_ms::double precision / 1000 AS tool_seconds, p.waits, p.wait_seconds, p.total_plans, p.total_steps, p.total_cycles, p.total_model_calls,
    p.total_tool_calls, p.total_failures, p.total_input_tokens, p.total_output_tokens, p.total_cache_read_input_tokens,
    p.total_cache_creation_input_tokens, p.total_reasoning_tokens, p.total_cost_usd,
    p.total_think_ms::double precision / 1000 AS total_think_seconds, p.total_tool_ms::double precision / 1000 AS total_tool_seconds, p.total_waits,
    p.total_wait_seconds, p.happened_at, p.depth,
    p.total_input_tokens + p.total_output_tokens AS total_tokens,
    (
        SELECT t.name
        FROM actlog.act_tool_info AS t
        WHERE t.tool_call_id = p.tool_call_id AND t.root_plan_id = p.root_plan_id AND t.part = p.part
        ORDER BY t.step_id, t.seq
        LIMIT 1
    ) AS tool_name,
    k.cause_kind, k.cause_tool, k.cause_text, k.recovered
FROM (
    SELECT
        p.root_plan_id, p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id, p.part, p.first_seen_at, p.project, p.environment, p.release,
        p.user_id, p.conversation_id, p.trace_id, p.name, p.title, p.executor, p.tags, p.model_name, p.state, p.status, p.completed, p.error_kind,
        p.start_time, p.end_time, p.last_seen_at, COALESCE(p.start_time, p.first_seen_at) AS happened_at, true AS is_root, 0 AS depth,
        COALESCE(f.steps, 0) AS steps, COALESCE(f.cycles, 0) AS cycles, COALESCE(f.model_calls, 0) AS model_calls,
        COALESCE(f.tool_calls, 0) AS tool_calls, COALESCE(f.failures, 0) AS failures, COALESCE(f.input_tokens, 0) AS input_tokens,
        COALESCE(f.output_tokens, 0) AS output_tokens, COALESCE(f.cache_read_input_tokens, 0) AS cache_read_input_tokens,
        COALESCE(f.cache_creation_input_tokens, 0) AS cache_creation_input_tokens, COALESCE(f.reasoning_tokens, 0) AS reasoning_tokens,
        COALESCE(f.think_ms, 0) AS think_ms, COALESCE(f.tool_ms, 0) AS tool_ms, f.cost_usd, COALESCE(f.total_steps, 0) AS total_steps,
        COALESCE(f.total_cycles, 0) AS total_cycles, COALESCE(f.total_model_calls, 0) AS total_model_calls,
        COALESCE(f.total_tool_calls, 0) AS total_tool_calls, COALESCE(f.total_failures, 0) AS total_failures,
        COALESCE(f.total_input_tokens, 0) AS total_input_tokens, COALESCE(f.total_output_tokens, 0) AS total_output_tokens,
        COALESCE(f.total_cache_read_input_tokens, 0) AS total_cache_read_input_tokens,
        COALESCE(f.total_cache_creation_input_tokens, 0) AS total_cache_creation_input_tokens,
        COALESCE(f.total_reasoning_tokens, 0) AS total_reasoning_tokens, COALESCE(f.total_think_ms, 0) AS total_think_ms,
        COALESCE(f.total_tool_ms, 0) AS total_tool_ms, f.total_cost_usd,
        COALESCE(w.waits, 0) AS waits, COALESCE(w.wait_seconds, 0)::double precision AS wait_seconds,
        COALESCE(w.total_waits, 0) AS total_waits, COALESCE(w.total_wait_seconds, 0)::double precision AS total_wait_seconds,
        (SELECT count(*) FROM actlog.plan_execution_record AS t WHERE t.root_plan_id = p.root_plan_id) AS total_plans
    FROM actlog.plan_execution_record AS p
    LEFT JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE a.shown_plan_id = a.root_plan_id) AS steps, count(*) AS total_steps,
            sum(a.cycles) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cycles, sum(a.cycles)::bigint AS total_cycles,
            sum(a.model_calls) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS model_calls, sum(a.model_calls)::bigint AS total_model_calls,
            sum(a.tool_calls) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS tool_calls, sum(a.tool_calls)::bigint AS total_tool_calls,
            sum(a.failures) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS failures, sum(a.failures)::bigint AS total_failures,
            sum(a.input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS input_tokens, sum(a.input_tokens)::bigint AS total_input_tokens,
            sum(a.output_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS output_tokens, sum(a.output_tokens)::bigint AS total_output_tokens,
            sum(a.cache_read_input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cache_read_input_tokens, sum(a.cache_read_input_tokens)::bigint AS total_cache_read_input_tokens,
            sum(a.cache_creation_input_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS cache_creation_input_tokens, sum(a.cache_creation_input_tokens)::bigint AS total_cache_creation_input_tokens,
            sum(a.reasoning_tokens) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS reasoning_tokens, sum(a.reasoning_tokens)::bigint AS total_reasoning_tokens,
            sum(a.think_ms) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS think_ms, sum(a.think_ms)::bigint AS total_think_ms,
            sum(a.tool_ms) FILTER (WHERE a.shown_plan_id = a.root_plan_id)::bigint AS tool_ms, sum(a.tool_ms)::bigint AS total_tool_ms,
            sum(a.cost_usd) FILTER (WHERE a.shown_plan_id = a.root_plan_id) AS cost_usd, sum(a.cost_usd) AS total_cost_usd
        FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = p.root_plan_id
    ) AS f ON true
    LEFT JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE w.plan_id = w.root_plan_id) AS waits, count(*) AS total_waits,
            sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) FILTER (WHERE w.plan_id = w.root_plan_id) AS wait_seconds,
            sum(GREATEST(0, extract(epoch FROM w.end_time - w.start_time))) AS total_wait_seconds
        FROM actlog.wait_state AS w
        WHERE w.root_plan_id = p.root_plan_id
    ) AS w ON true
    WHERE p.root_plan_id = p.current_plan_id
    UNION ALL
    SELECT
        t.root_plan_id, s.plan_id, s.parent_plan_id, s.tool_call_id, t.part, s.first_seen_at, s.project, s.environment, s.release, s.user_id,
        s.conversation_id, s.trace_id, s.name, s.title, s.executor, s.tags, s.model_name, s.state, s.status, s.completed, s.error_kind, s.start_time,
        s.end_time, s.last_seen_at, s.happened_at, false, (s.figures ->> 'depth')::integer,
        (s.figures ->> 'steps')::bigint, (s.figures ->> 'cycles')::bigint, (s.figures ->> 'model_calls')::bigint,
        (s.figures ->> 'tool_calls')::bigint, (s.figures ->> 'failures')::bigint, (s.figures ->> 'input_tokens')::bigint,
        (s.figures ->> 'output_tokens')::bigint, (s.figures ->> 'cache_read_input_tokens')::bigint,
        (s.figures ->> 'cache_creation_input_tokens')::bigint, (s.figures ->> 'reasoning_tokens')::bigint, (s.figures ->> 'think_ms')::bigint,
        (s.figures ->> 'tool_ms')::bigint, (s.figures ->> 'cost_usd')::numeric, (s.figures ->> 'total_steps')::bigint,
        (s.figures ->> 'total_cycles')::bigint, (s.figures ->> 'total_model_calls')::bigint, (s.figures ->> 'total_tool_calls')::bigint,
        (s.figures ->> 'total_failures')::bigint, (s.figures ->> 'total_input_tokens')::bigint, (s.figures ->> 'total_output_tokens')::bigint,
        (s.figures ->> 'total_cache_read_input_tokens')::bigint, (s.figures ->> 'total_cache_creation_input_tokens')::bigint,
        (s.figures ->> 'total_reasoning_tokens')::bigint, (s.figures ->> 'total_think_ms')::bigint, (s.figures ->> 'total_tool_ms')::bigint,
        (s.figures ->> 'total_cost_usd')::numeric, (s.figures ->> 'waits')::bigint, (s.figures ->> 'wait_seconds')::double precision,
        (s.figures ->> 'total_waits')::bigint, (s.figures ->> 'total_wait_seconds')::double precision, (s.figures ->> 'total_plans')::bigint
    FROM (SELECT DISTINCT q.part, q.root_plan_id FROM actlog.plan_execution_record AS q WHERE q.root_plan_id <> q.current_plan_id) AS t
    CROSS JOIN LATERAL (
        SELECT
            p.current_plan_id AS plan_id, p.parent_plan_id, p.tool_call_id, p.first_seen_at, p.project, p.environment, p.release, p.user_id,
            p.conversation_id, p.trace_id, p.name, p.title, p.executor, p.tags, p.model_name, p.state, p.status, p.completed, p.error_kind,
            p.start_time, p.end_time, p.last_seen_at, COALESCE(p.start_time, p.first_seen_at) AS happened_at,
            (SELECT actlog.sub_plan_figures(t.root_plan_id)) -> p.current_plan_id AS figures
        FROM actlog.plan_execution_record AS p
        WHERE p.root_plan_id = t.root_plan_id AND p.current_plan_id <> p.root_plan_id
        ORDER BY p.current_plan_id
    ) AS s
) AS p
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id
LEFT JOIN actlog.cause AS k ON k.root_plan_id = p.root_plan_id AND p.is_root;
COMMENT ON VIEW report.plan IS 'One row per plan, root plans and sub-plans. Filter on happened_at. Figures are those of the plan itself; total_ figures include its sub-plans.';
COMMENT ON COLUMN report.plan.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.plan.plan_id IS 'The plan.';
COMMENT ON COLUMN report.plan.parent_plan_id IS 'The plan whose tool call started this one; null for a root plan.';
COMMENT ON COLUMN report.plan.tool_call_id IS 'The tool call that started the plan; null for a root plan.';
COMMENT ON COLUMN report.plan.is_root IS 'Whether the plan is a root plan.';
COMMENT ON COLUMN report.plan.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read the sub-plans of other trees.';
COMMENT ON COLUMN report.plan.first_seen_at IS 'When a server first received a record of it: for an imported run, the time of the import. Never null; indexed.';
COMMENT ON COLUMN report.plan.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.plan.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.plan.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.plan.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.plan.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.plan.trace_id IS 'The trace of the plan, else of its root plan.';
COMMENT ON COLUMN report.plan.name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.plan.title IS 'The title of this run; its first 200 characters.';
COMMENT ON COLUMN report.plan.executor IS 'What kind of executor ran the plan.';
COMMENT ON COLUMN report.plan.tags IS 'Free labels.';
COMMENT ON COLUMN report.plan.model_name IS 'The model of the plan, if it has one.';
COMMENT ON COLUMN report.plan.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.plan.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN report.plan.completed IS 'Whether the state is terminal, successful or not.';
COMMENT ON COLUMN report.plan.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.plan.start_time IS 'When it began; null if that was not reported.';
COMMENT ON COLUMN report.plan.end_time IS 'When it ended; null if it has not ended, or if that was not reported.';
COMMENT ON COLUMN report.plan.last_seen_at IS 'Latest heartbeat of the process that runs it; null: it sends none.';
COMMENT ON COLUMN report.plan.duration_seconds IS 'Seconds from start to end; null until both are known.';
COMMENT ON COLUMN report.plan.steps IS 'Steps of the plan itself.';
COMMENT ON COLUMN report.plan.cycles IS 'Think-act cycles.';
COMMENT ON COLUMN report.plan.model_calls IS 'Cycles whose model call is known.';
COMMENT ON COLUMN report.plan.tool_calls IS 'Tool calls.';
COMMENT ON COLUMN report.plan.failures IS 'Failed cycles and failed tool calls.';
COMMENT ON COLUMN report.plan.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN report.plan.output_tokens IS 'Output tokens, reasoning included.';
COMMENT ON COLUMN report.plan.cache_read_input_tokens IS 'Input tokens read from a cache.';
COMMENT ON COLUMN report.plan.cache_creation_input_tokens IS 'Input tokens written to a cache.';
COMMENT ON COLUMN report.plan.reasoning_tokens IS 'Output tokens spent on reasoning.';
COMMENT ON COLUMN report.plan.cost_usd IS 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.';
COMMENT ON COLUMN report.plan.think_seconds IS 'Seconds that models took.';
COMMENT ON COLUMN report.plan.tool_seconds IS 'Seconds that tool calls took, added up.';
COMMENT ON COLUMN report.plan.waits IS 'Waits for a human, of the plan itself.';
COMMENT ON COLUMN report.plan.wait_seconds IS 'Seconds of those waits that have ended.';
COMMENT ON COLUMN report.plan.total_plans IS 'Plans: the plan itself and its sub-plans, at any depth.';
COMMENT ON COLUMN report.plan.total_steps IS 'Steps, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_cycles IS 'Think-act cycles, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_model_calls IS 'Model calls, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_tool_calls IS 'Tool calls, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_failures IS 'Failed cycles and tool calls, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_input_tokens IS 'Input tokens, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_output_tokens IS 'Output tokens, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_cache_read_input_tokens IS 'Input tokens read from a cache, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_cache_creation_input_tokens IS 'Input tokens written to a cache, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_reasoning_tokens IS 'Output tokens spent on reasoning, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_cost_usd IS 'US dollars, with those of sub-plans; null if no cost is known.';
COMMENT ON COLUMN report.plan.total_think_seconds IS 'Seconds that models took, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_tool_seconds IS 'Seconds that tool calls took, with those of sub-plans. A call that started a sub-plan lasts as long as that plan, and the time of the plan counts as well.';
COMMENT ON COLUMN report.plan.total_waits IS 'Waits for a human, with those of sub-plans.';
COMMENT ON COLUMN report.plan.total_wait_seconds IS 'Seconds of those waits that have ended, with those of sub-plans.';
COMMENT ON COLUMN report.plan.happened_at IS 'When it began; if that was not reported, when it was first seen. Never null; indexed for root plans. A query that is not for root plans only (is_root) should also name root_plan_id or a range of part: else it looks at all sub-plans on record. The list of the REST interface goes by this time, too.';
COMMENT ON COLUMN report.plan.depth IS 'How many plans are above it; 0 for a root plan.';
COMMENT ON COLUMN report.plan.total_tokens IS 'Input and output tokens, with those of its sub-plans.';
COMMENT ON COLUMN report.plan.tool_name IS 'The tool whose call started the sub-plan; null for a root plan, and if that call is not on record.';
COMMENT ON COLUMN report.plan.cause_kind IS 'What ended the run, or went wrong in it so far: the kind of that error, else the state of its row in lower case. Of root plans only. Null if nothing went wrong, and while the run waits for an answer. Right within 5 seconds of a change.';
COMMENT ON COLUMN report.plan.cause_tool IS 'The tool whose call is the cause, or asked the question that is.';
COMMENT ON COLUMN report.plan.cause_text IS 'The line of the error that says what happened, at most 300 characters.';
COMMENT ON COLUMN report.plan.recovered IS 'Whether the run went on after the cause, which is its first failure then; null without a cause.';

CREATE VIEW report.agent_execution AS
SELECT
    a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, a.part, a.start_time, a.end_time, a.last_seen_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    p.name AS plan_name, a.step_index, a.agent_name, a.agent_version, a.model_name,
    COALESCE(a.attempt, 1) AS attempt, a.state, a.status, a.error_kind,
    CASE WHEN a.start_time <= a.end_time THEN extract(epoch FROM a.end_time - a.start_time)::double precision END AS duration_seconds,
    a.max_steps, COALESCE(a.cycles, 0) AS cycles, COALESCE(a.completed_cycles, 0) AS completed_cycles,
    COALESCE(a.model_calls, 0) AS model_calls, COALESCE(a.tool_calls, 0) AS tool_calls, COALESCE(a.failures, 0) AS failures,
    COALESCE(a.input_tokens, 0) AS input_tokens, COALESCE(a.output_tokens, 0) AS output_tokens,
    COALESCE(a.cache_read_input_tokens, 0) AS cache_read_input_tokens,
    COALESCE(a.cache_creation_input_tokens, 0) AS cache_creation_input_tokens,
    COALESCE(a.reasoning_tokens, 0) AS reasoning_tokens, a.cost_usd,
    COALESCE(a.think_ms, 0)::double precision / 1000 AS think_seconds,
    COALESCE(a.tool_ms, 0)::double precision / 1000 AS tool_seconds, a.latest_tool_name,
    COALESCE(a.start_time, a.end_time, a.first_seen_at, a.part::timestamp AT TIME ZONE 'utc') AS happened_at
FROM actlog.agent_execution_record AS a
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = a.root_plan_id AND r.current_plan_id = a.root_plan_id;
COMMENT ON VIEW report.agent_execution IS 'One row per step: one agent at work on one step of a plan. Filter on happened_at.';
COMMENT ON COLUMN report.agent_execution.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.agent_execution.plan_id IS 'The plan.';
COMMENT ON COLUMN report.agent_execution.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.agent_execution.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.agent_execution.start_time IS 'When it began; null if that was not reported. Indexed.';
COMMENT ON COLUMN report.agent_execution.end_time IS 'When it ended; null if it has not ended, or if that was not reported.';
COMMENT ON COLUMN report.agent_execution.last_seen_at IS 'The latest time that was reported for it.';
COMMENT ON COLUMN report.agent_execution.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.agent_execution.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.agent_execution.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.agent_execution.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.agent_execution.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.agent_execution.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.agent_execution.step_index IS 'Position of the step in its plan, from 0.';
COMMENT ON COLUMN report.agent_execution.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.agent_execution.agent_version IS 'The version of the agent.';
COMMENT ON COLUMN report.agent_execution.model_name IS 'The model of the step, if it was reported. The models of its cycles are in think_act.';
COMMENT ON COLUMN report.agent_execution.attempt IS 'Which attempt this is, from 1.';
COMMENT ON COLUMN report.agent_execution.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.agent_execution.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN report.agent_execution.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.agent_execution.duration_seconds IS 'Seconds from start to end; null until both are known.';
COMMENT ON COLUMN report.agent_execution.max_steps IS 'How many cycles the agent may take.';
COMMENT ON COLUMN report.agent_execution.cycles IS 'Think-act cycles.';
COMMENT ON COLUMN report.agent_execution.completed_cycles IS 'Cycles that have ended.';
COMMENT ON COLUMN report.agent_execution.model_calls IS 'Cycles whose model call is known.';
COMMENT ON COLUMN report.agent_execution.tool_calls IS 'Tool calls.';
COMMENT ON COLUMN report.agent_execution.failures IS 'Failed cycles and failed tool calls.';
COMMENT ON COLUMN report.agent_execution.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN report.agent_execution.output_tokens IS 'Output tokens, reasoning included.';
COMMENT ON COLUMN report.agent_execution.cache_read_input_tokens IS 'Input tokens read from a cache.';
COMMENT ON COLUMN report.agent_execution.cache_creation_input_tokens IS 'Input tokens written to a cache.';
COMMENT ON COLUMN report.agent_execution.reasoning_tokens IS 'Output tokens spent on reasoning.';
COMMENT ON COLUMN report.agent_execution.cost_usd IS 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.';
COMMENT ON COLUMN report.agent_execution.think_seconds IS 'Seconds that models took.';
COMMENT ON COLUMN report.agent_execution.tool_seconds IS 'Seconds that tool calls took, added up.';
COMMENT ON COLUMN report.agent_execution.latest_tool_name IS 'The tool of the last call.';
COMMENT ON COLUMN report.agent_execution.happened_at IS 'When it began. If that was not reported: when it ended, else when it was first seen. Never null; indexed.';

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
    COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') AS happened_at,
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

CREATE VIEW report.tool_call AS
SELECT
    t.root_plan_id, a.shown_plan_id AS plan_id, t.step_id, t.seq, t.tool_call_id, t.part, t.start_time, t.end_time,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, a.agent_name, a.agent_version, a.model_name,
    t.name AS tool_name, t.server_name, t.provider_call_id, t.call_index,
    COALESCE(t.attempt, 1) AS attempt, t.state, t.status, t.error_kind, COALESCE(t.inferred, false) AS inferred,
    CASE WHEN t.start_time <= t.end_time THEN extract(epoch FROM t.end_time - t.start_time)::double precision END AS duration_seconds,
    COALESCE(t.start_time, t.end_time, t.first_seen_at, t.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id
FROM actlog.act_tool_info AS t
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = t.root_plan_id AND a.step_id = t.step_id
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = t.root_plan_id AND r.current_plan_id = t.root_plan_id;
COMMENT ON VIEW report.tool_call IS 'One row per tool call. Filter on happened_at.';
COMMENT ON COLUMN report.tool_call.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.tool_call.plan_id IS 'The plan.';
COMMENT ON COLUMN report.tool_call.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.tool_call.seq IS 'Number of the cycle within its step, from 0.';
COMMENT ON COLUMN report.tool_call.tool_call_id IS 'The tool call.';
COMMENT ON COLUMN report.tool_call.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.tool_call.start_time IS 'When it began; null if that was not reported. Indexed.';
COMMENT ON COLUMN report.tool_call.end_time IS 'When it ended; null if it has not ended, or if that was not reported.';
COMMENT ON COLUMN report.tool_call.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.tool_call.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.tool_call.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.tool_call.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.tool_call.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.tool_call.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.tool_call.agent_version IS 'The version of the agent.';
COMMENT ON COLUMN report.tool_call.model_name IS 'The model of the step, if it was reported. The models of its cycles are in think_act.';
COMMENT ON COLUMN report.tool_call.tool_name IS 'The tool.';
COMMENT ON COLUMN report.tool_call.server_name IS 'The tool server, if the tool has one.';
COMMENT ON COLUMN report.tool_call.provider_call_id IS 'The id that the model gave the call.';
COMMENT ON COLUMN report.tool_call.call_index IS 'Position of the call in its cycle, from 0.';
COMMENT ON COLUMN report.tool_call.attempt IS 'Which attempt this is, from 1.';
COMMENT ON COLUMN report.tool_call.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.tool_call.status IS 'Three-valued view of state: IDLE, RUNNING, FINISHED.';
COMMENT ON COLUMN report.tool_call.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.tool_call.inferred IS 'Whether the call is known only from the output of the model.';
COMMENT ON COLUMN report.tool_call.duration_seconds IS 'Seconds from start to end; null until both are known.';
COMMENT ON COLUMN report.tool_call.happened_at IS 'When it began. If that was not reported: when it ended, else when it was first seen. Never null; indexed.';
COMMENT ON COLUMN report.tool_call.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';

CREATE VIEW report.wait AS
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
COMMENT ON VIEW report.wait IS 'One row per wait for a human. Filter on happened_at.';
COMMENT ON COLUMN report.wait.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.wait.plan_id IS 'The plan.';
COMMENT ON COLUMN report.wait.wait_id IS 'The wait.';
COMMENT ON COLUMN report.wait.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.wait.tool_call_id IS 'The tool call.';
COMMENT ON COLUMN report.wait.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.wait.start_time IS 'When the wait began.';
COMMENT ON COLUMN report.wait.end_time IS 'When it ended; null if it has not ended, or if that was not reported.';
COMMENT ON COLUMN report.wait.expires_at IS 'When the wait expires.';
COMMENT ON COLUMN report.wait.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.wait.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.wait.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.wait.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.wait.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.wait.type IS 'USER_INPUT, PLAN_VALIDATION or ACTION_VALIDATION.';
COMMENT ON COLUMN report.wait.title IS 'What the human is asked for; its first 200 characters.';
COMMENT ON COLUMN report.wait.state IS 'WAITING, then one of SUBMITTED, ACCEPTED, MODIFIED, APPROVED, REJECTED, TIMED_OUT, CANCELLED.';
COMMENT ON COLUMN report.wait.open IS 'Whether somebody may still answer: nobody has, and the root plan has not ended or the plan that waits still runs. The REST interface shows the same waits.';
COMMENT ON COLUMN report.wait.decided_by IS 'Who answered, as the server or the program knows them.';
COMMENT ON COLUMN report.wait.waited_seconds IS 'Seconds until it ended, answered or not; null until then.';
COMMENT ON COLUMN report.wait.happened_at IS 'When it began. If that was not reported: when it ended, else when it was first seen.';
COMMENT ON COLUMN report.wait.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.wait.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.wait.claimed_by IS 'Who answered, as they said themselves.';

-- Steps, cycles and tool calls that were attempted again.
CREATE VIEW report.attempt AS
SELECT
    x.level, COALESCE(x.start_time, x.end_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    x.root_plan_id, x.plan_id, x.step_id, x.seq, x.tool_call_id, x.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    p.name AS plan_name, x.agent_name, x.tool_name, x.attempt, x.retried, x.state, x.last_state, x.error_kind,
    split_part(left(x.error_message, 500), E'\n', 1) AS error, x.start_time, x.end_time,
    CASE WHEN x.start_time <= x.end_time THEN extract(epoch FROM x.end_time - x.start_time)::double precision END AS duration_seconds,
    COALESCE(x.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id, x.agent_version
FROM (
    SELECT
        'agent_execution' AS level, a.root_plan_id, a.shown_plan_id AS plan_id, a.step_id, NULL::integer AS seq, NULL::text AS tool_call_id,
        a.part, a.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, NULL::text AS tool_name, a.state AS last_state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.agent_execution_record AS a
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'IDLE') AS state,
            (e.entry ->> 'startTime')::timestamptz AS start_time, (e.entry ->> 'endTime')::timestamptz AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(a.attempts) AS e (entry)
        UNION ALL
        SELECT a.attempt, false, a.state, a.start_time, a.end_time, a.error_message, a.error_kind
    ) AS t
    WHERE a.attempts IS NOT NULL
    UNION ALL
    SELECT
        'think_act', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, NULL, c.part, c.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, NULL, c.state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.think_act_record AS c
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            COALESCE(e.entry ->> 'thinkStartTime', e.entry ->> 'actStartTime')::timestamptz AS start_time,
            GREATEST((e.entry ->> 'thinkEndTime')::timestamptz, (e.entry ->> 'actEndTime')::timestamptz) AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(c.attempts) AS e (entry)
        UNION ALL
        SELECT c.attempt, false, c.state, COALESCE(c.think_start_time, c.act_start_time), GREATEST(c.think_end_time, c.act_end_time), c.error_message, c.error_kind
    ) AS t
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    WHERE c.attempts IS NOT NULL
    UNION ALL
    SELECT
        'tool_call', c.root_plan_id, a.shown_plan_id, c.step_id, c.seq, c.tool_call_id, c.part, c.first_seen_at, a.conversation_id, a.agent_name, a.agent_version, c.name, c.state,
        t.attempt, t.retried, t.state, t.start_time, t.end_time, t.error_message, t.error_kind
    FROM actlog.act_tool_info AS c
    CROSS JOIN LATERAL (
        SELECT (e.entry ->> 'attempt')::integer AS attempt, true AS retried, COALESCE(e.entry ->> 'state', 'PENDING') AS state,
            (e.entry ->> 'startTime')::timestamptz AS start_time, (e.entry ->> 'endTime')::timestamptz AS end_time,
            e.entry ->> 'errorMessage' AS error_message, e.entry ->> 'errorKind' AS error_kind
        FROM jsonb_array_elements(c.attempts) AS e (entry)
        UNION ALL
        SELECT c.attempt, false, c.state, c.start_time, c.end_time, c.error_message, c.error_kind
    ) AS t
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
    WHERE c.attempts IS NOT NULL
) AS x
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id;
COMMENT ON VIEW report.attempt IS 'One row per attempt at each step, cycle and tool call that was attempted again. Where retried is true, state and error say why. Filter on happened_at.';
COMMENT ON COLUMN report.attempt.level IS 'What was attempted: agent_execution, think_act or tool_call.';
COMMENT ON COLUMN report.attempt.happened_at IS 'When it began. If that was not reported: when it ended, else when it was first seen. Never null; indexed.';
COMMENT ON COLUMN report.attempt.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.attempt.plan_id IS 'The plan.';
COMMENT ON COLUMN report.attempt.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.attempt.seq IS 'Number of the cycle within its step, from 0.';
COMMENT ON COLUMN report.attempt.tool_call_id IS 'The tool call.';
COMMENT ON COLUMN report.attempt.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.attempt.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.attempt.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.attempt.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.attempt.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.attempt.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.attempt.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.attempt.tool_name IS 'The tool.';
COMMENT ON COLUMN report.attempt.attempt IS 'The number of the attempt, from 1.';
COMMENT ON COLUMN report.attempt.retried IS 'Whether a later attempt followed.';
COMMENT ON COLUMN report.attempt.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.attempt.last_state IS 'How the current attempt went: COMPLETED if the retries helped.';
COMMENT ON COLUMN report.attempt.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.attempt.error IS 'First line of the error, at most 500 characters.';
COMMENT ON COLUMN report.attempt.start_time IS 'When the attempt began: the earliest start that was reported; of a cycle, when its thinking began.';
COMMENT ON COLUMN report.attempt.end_time IS 'When the attempt ended: the latest end that was reported.';
COMMENT ON COLUMN report.attempt.duration_seconds IS 'Seconds from start to end of the attempt; null until both are known.';
COMMENT ON COLUMN report.attempt.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.attempt.agent_version IS 'The version of the agent; null if it is not known.';

-- One branch per kind of row that fails, each with the same columns.
CREATE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error,
    COALESCE(p.user_id, r.user_id) AS user_id, COALESCE(f.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    f.agent_version, f.attempt,
    COALESCE(NOT f.past AND f.level = k.level AND f.plan_id = k.plan_id AND f.step_id IS NOT DISTINCT FROM k.step_id
        AND f.seq IS NOT DISTINCT FROM k.seq AND f.tool_call_id IS NOT DISTINCT FROM k.tool_call_id, false) AS is_cause
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS conversation_id, NULL::text AS agent_name, NULL::text AS agent_version, NULL::text AS tool_name,
        x.state, x.error_kind, x.error_message, NULL::integer AS attempt, false AS past
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.conversation_id, x.agent_name, x.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'),
        x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.conversation_id, a.agent_name, a.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.conversation_id, a.agent_name, a.agent_version, x.name, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1), false
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL -- attempts before the current one
    SELECT
        t.level, COALESCE(t.end_time, t.happened_at), t.root_plan_id, t.plan_id,
        t.step_id, t.seq, t.tool_call_id, t.part, t.conversation_id, t.agent_name, t.agent_version, t.tool_name, t.state, t.error_kind, t.error, t.attempt, true
    FROM report.attempt AS t
    WHERE t.retried AND t.state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id
LEFT JOIN actlog.cause AS k ON k.root_plan_id = f.root_plan_id;
COMMENT ON VIEW report.failure IS 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED, and for each such attempt before the current one. A failure at one level often causes one at the level above: where is_cause is true, the row is the cause of its run, so each run counts once. Filter on failed_at.';
COMMENT ON COLUMN report.failure.level IS 'What failed: plan, agent_execution, think_act or tool_call.';
COMMENT ON COLUMN report.failure.failed_at IS 'When it ended; if that was not reported, the latest time that is known, else when it was first seen. Never null; indexed.';
COMMENT ON COLUMN report.failure.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.failure.plan_id IS 'The plan.';
COMMENT ON COLUMN report.failure.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.failure.seq IS 'Number of the cycle within its step, from 0.';
COMMENT ON COLUMN report.failure.tool_call_id IS 'The tool call.';
COMMENT ON COLUMN report.failure.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.failure.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.failure.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.failure.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.failure.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.failure.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.failure.tool_name IS 'The tool, if a tool call failed.';
COMMENT ON COLUMN report.failure.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.failure.error_kind IS 'A short class of the error, for counting.';
COMMENT ON COLUMN report.failure.error IS 'First line of the error, at most 500 characters.';
COMMENT ON COLUMN report.failure.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.failure.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.failure.agent_version IS 'The version of the agent; null if it is not known.';
COMMENT ON COLUMN report.failure.attempt IS 'Which attempt at the step, cycle or tool call failed, from 1; null for a plan.';
COMMENT ON COLUMN report.failure.is_cause IS 'Whether the row is the cause of its run, as report.plan has it. A run counts once where this is true.';

-- What belongs to a plan. Sizes are read without the texts. -------------------------------

CREATE VIEW report.thought AS
SELECT
    t.root_plan_id, t.plan_id, t.step_id, t.thought_id, p.part, COALESCE(t.time, t.first_seen_at) AS happened_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    p.name AS plan_name, a.agent_name, a.agent_version,
    t.agent_id, t.role, t.iteration, t.type, t.confidence, octet_length(t.content) AS content_bytes
FROM actlog.thought AS t
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = t.root_plan_id AND p.current_plan_id = t.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = t.root_plan_id AND r.current_plan_id = t.root_plan_id
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = t.root_plan_id AND a.step_id = t.step_id;
COMMENT ON VIEW report.thought IS 'One row per entry of the reasoning log of a plan, without its text. Filter on happened_at.';
COMMENT ON COLUMN report.thought.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN report.thought.plan_id IS 'The plan.';
COMMENT ON COLUMN report.thought.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.thought.thought_id IS 'The thought.';
COMMENT ON COLUMN report.thought.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.thought.happened_at IS 'When the agent had the thought; if that was not reported, when it was first seen. Null if neither is known; indexed.';
COMMENT ON COLUMN report.thought.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.thought.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.thought.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.thought.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.thought.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.thought.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.thought.agent_name IS 'The agent of the step; null if it is not known.';
COMMENT ON COLUMN report.thought.agent_version IS 'The version of that agent; null if it is not known.';
COMMENT ON COLUMN report.thought.agent_id IS 'The agent whose thought it is, as the writer names it.';
COMMENT ON COLUMN report.thought.role IS 'The role of that agent.';
COMMENT ON COLUMN report.thought.iteration IS 'The iteration of the agent; 0 before the first, -1 for a fatal error.';
COMMENT ON COLUMN report.thought.type IS 'analysis, decision, action, observation, conclusion or error.';
COMMENT ON COLUMN report.thought.confidence IS 'How sure the agent is, 0 to 1; null if it was not reported.';
COMMENT ON COLUMN report.thought.content_bytes IS 'Bytes of its text; null if there is none.';

CREATE VIEW report.artifact AS
SELECT
    x.root_plan_id, x.plan_id, x.step_id,
    (SELECT min(c.seq) FROM actlog.act_tool_info AS c WHERE c.tool_call_id = x.tool_call_id AND c.root_plan_id = x.root_plan_id AND c.step_id = x.step_id AND c.part = p.part) AS seq,
    x.tool_call_id, x.name AS artifact_name, p.part, COALESCE(p.start_time, p.first_seen_at) AS happened_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    p.name AS plan_name, a.agent_name, a.agent_version,
    x.type, pg_column_size(x.value) AS stored_bytes
FROM actlog.artifact AS x
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id;
COMMENT ON VIEW report.artifact IS 'One row per thing that a plan produced, without the thing itself. Filter on happened_at.';
COMMENT ON COLUMN report.artifact.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN report.artifact.plan_id IS 'The plan.';
COMMENT ON COLUMN report.artifact.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.artifact.seq IS 'Number of the cycle within its step, from 0; null if the tool call is not on record.';
COMMENT ON COLUMN report.artifact.tool_call_id IS 'The tool call; null if there is none.';
COMMENT ON COLUMN report.artifact.artifact_name IS 'Its name, unique in its plan.';
COMMENT ON COLUMN report.artifact.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.artifact.happened_at IS 'When its plan began; if that was not reported, when the plan was first seen. Never null; indexed.';
COMMENT ON COLUMN report.artifact.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.artifact.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.artifact.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.artifact.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.artifact.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.artifact.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.artifact.agent_name IS 'The agent of the step; null if it is not known.';
COMMENT ON COLUMN report.artifact.agent_version IS 'The version of that agent; null if it is not known.';
COMMENT ON COLUMN report.artifact.type IS 'What kind of thing it is.';
COMMENT ON COLUMN report.artifact.stored_bytes IS 'Bytes that it takes in the database, compressed; null if it has no value.';

CREATE VIEW report.source AS
SELECT
    x.root_plan_id, x.plan_id, x.step_id,
    (SELECT min(c.seq) FROM actlog.act_tool_info AS c WHERE c.tool_call_id = x.tool_call_id AND c.root_plan_id = x.root_plan_id AND c.step_id = x.step_id AND c.part = p.part) AS seq,
    x.tool_call_id, x.source_id, p.part, COALESCE(p.start_time, p.first_seen_at) AS happened_at,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, COALESCE(p.user_id, r.user_id) AS user_id,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    p.name AS plan_name, a.agent_name, a.agent_version,
    x.type, left(x.uri, 500) AS uri, x.line_start, x.line_end, x.relevance_score, octet_length(x.snippet) AS snippet_bytes
FROM actlog.source_reference AS x
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = x.root_plan_id AND p.current_plan_id = x.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = x.root_plan_id AND r.current_plan_id = x.root_plan_id
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id;
COMMENT ON VIEW report.source IS 'One row per thing that an agent read and relied on, without what it read. Filter on happened_at.';
COMMENT ON COLUMN report.source.root_plan_id IS 'The root plan of the tree.';
COMMENT ON COLUMN report.source.plan_id IS 'The plan.';
COMMENT ON COLUMN report.source.step_id IS 'The step; null if there is none.';
COMMENT ON COLUMN report.source.seq IS 'Number of the cycle within its step, from 0; null if the tool call is not on record.';
COMMENT ON COLUMN report.source.tool_call_id IS 'The tool call; null if there is none.';
COMMENT ON COLUMN report.source.source_id IS 'The source.';
COMMENT ON COLUMN report.source.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.source.happened_at IS 'When its plan began; if that was not reported, when the plan was first seen. Never null; indexed.';
COMMENT ON COLUMN report.source.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.source.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.source.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.source.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.source.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';
COMMENT ON COLUMN report.source.plan_name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.source.agent_name IS 'The agent of the step; null if it is not known.';
COMMENT ON COLUMN report.source.agent_version IS 'The version of that agent; null if it is not known.';
COMMENT ON COLUMN report.source.type IS 'FILE, URL, CLASS, COMMIT, DOCUMENTATION, SNIPPET or EMBEDDING.';
COMMENT ON COLUMN report.source.uri IS 'Where it is; its first 500 characters.';
COMMENT ON COLUMN report.source.line_start IS 'First line, from 1; null if it is not known.';
COMMENT ON COLUMN report.source.line_end IS 'Last line; null if it is not known.';
COMMENT ON COLUMN report.source.relevance_score IS 'How relevant the source is, 0 to 1; null if it was not reported.';
COMMENT ON COLUMN report.source.snippet_bytes IS 'Bytes of what was read; null if that is not on record.';

-- What runs now. --------------------------------------------------------------------------

-- A root plan is alive, or waits, as long as anything in its tree does. An import of a run that is silent since long is
-- no sign of life: when a record was first seen counts only if no time was reported at all.
-- The rows of each tree in which something runs are grouped by plan once. The OFFSETs make Postgres look up each plan and
-- step of a group by its key; else it may compare all plans with all groups.
CREATE VIEW report.running AS
SELECT
    t.root_plan_id, g.plan_id, t.root_plan_id = g.plan_id AS is_root, p.part,
    COALESCE(p.start_time, p.first_seen_at) AS since,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.user_id, r.user_id) AS user_id, p.name, left(p.title, 200) AS title, p.state,
    CASE WHEN t.root_plan_id = g.plan_id THEN g.tree_alive_at ELSE g.alive_at END AS last_sign_of_life,
    extract(epoch FROM now() - COALESCE(p.start_time, p.first_seen_at))::double precision AS running_seconds,
    extract(epoch FROM now() - CASE WHEN t.root_plan_id = g.plan_id THEN g.tree_alive_at ELSE g.alive_at END)::double precision AS silent_seconds,
    g.steps, g.cycles, g.tool_calls, g.cost_usd, g.step_id, l.agent_name, l.latest_tool_name,
    -- As report.wait.open. A root plan that is listed has not ended.
    CASE WHEN t.root_plan_id = g.plan_id THEN g.tree_waits ELSE g.waits AND (NOT r.completed OR p.status = 'RUNNING') END AS waits_for_human,
    COALESCE(p.release, r.release) AS release, COALESCE(p.conversation_id, r.conversation_id) AS conversation_id
FROM (SELECT DISTINCT x.root_plan_id FROM actlog.plan_execution_record AS x WHERE NOT x.completed) AS t
CROSS JOIN LATERAL (
    SELECT
        x.plan_id, count(x.step_id) AS steps, COALESCE(sum(x.cycles), 0)::bigint AS cycles, COALESCE(sum(x.tool_calls), 0)::bigint AS tool_calls,
        sum(x.cost_usd) AS cost_usd,
        (array_agg(x.step_id ORDER BY x.start_time DESC NULLS LAST, x.step_index DESC NULLS LAST, x.step_id) FILTER (WHERE x.status = 'RUNNING'))[1] AS step_id,
        COALESCE(max(x.at), max(x.first_seen_at)) AS alive_at,
        COALESCE(max(max(x.at)) OVER (), max(max(x.first_seen_at)) OVER ()) AS tree_alive_at,
        bool_or(x.waits) AS waits, bool_or(bool_or(x.waits)) OVER () AS tree_waits
    FROM (
        SELECT
            a.shown_plan_id AS plan_id, GREATEST(a.last_seen_at, a.start_time, a.end_time) AS at, a.first_seen_at, false AS waits,
            a.step_id, a.cycles, a.tool_calls, a.cost_usd, a.status, a.start_time, a.step_index
        FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = t.root_plan_id
        UNION ALL
        SELECT s.current_plan_id, GREATEST(s.last_seen_at, s.start_time, s.end_time), s.first_seen_at, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM actlog.plan_execution_record AS s
        WHERE s.root_plan_id = t.root_plan_id
        UNION ALL
        SELECT w.plan_id, GREATEST(w.start_time, w.end_time), w.first_seen_at, w.state = 'WAITING', NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM actlog.wait_state AS w
        WHERE w.root_plan_id = t.root_plan_id
        UNION ALL
        SELECT h.plan_id, h.time, h.first_seen_at, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM actlog.thought AS h
        WHERE h.root_plan_id = t.root_plan_id
    ) AS x
    GROUP BY x.plan_id
) AS g
CROSS JOIN LATERAL (
    SELECT
        x.part, x.first_seen_at, x.start_time, x.project, x.environment, x.release, x.user_id, x.conversation_id, x.name, x.title,
        x.state, x.status, actlog.is_placeholder(x) AS is_placeholder
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = t.root_plan_id AND x.current_plan_id = g.plan_id AND NOT x.completed
    OFFSET 0
) AS p
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = t.root_plan_id AND r.current_plan_id = t.root_plan_id
LEFT JOIN LATERAL (
    SELECT x.agent_name, x.latest_tool_name
    FROM actlog.agent_execution_record AS x
    WHERE x.root_plan_id = t.root_plan_id AND x.step_id = g.step_id
    OFFSET 0
) AS l ON true
-- Nothing runs of which only the id is known.
WHERE NOT (p.is_placeholder AND g.steps = 0);
COMMENT ON VIEW report.running IS 'One row per plan that has not ended. Filter on since.';
COMMENT ON COLUMN report.running.root_plan_id IS 'The root plan of the tree; for a root plan, its own id.';
COMMENT ON COLUMN report.running.plan_id IS 'The plan.';
COMMENT ON COLUMN report.running.is_root IS 'Whether the plan is a root plan.';
COMMENT ON COLUMN report.running.part IS 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.';
COMMENT ON COLUMN report.running.since IS 'When it began; if that was not reported, when it was first seen.';
COMMENT ON COLUMN report.running.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.running.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.running.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.running.name IS 'The kind of plan. All runs of one kind have the same name.';
COMMENT ON COLUMN report.running.title IS 'The title of this run; its first 200 characters.';
COMMENT ON COLUMN report.running.state IS 'What truly happened: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED, UNKNOWN.';
COMMENT ON COLUMN report.running.last_sign_of_life IS 'The latest time that was reported for the plan: a heartbeat, or a time of its steps, cycles, tool calls, waits or thoughts; for a root plan, of its whole tree. If no time was reported, when a record was last first seen.';
COMMENT ON COLUMN report.running.running_seconds IS 'Seconds since it began, by the clock of the database.';
COMMENT ON COLUMN report.running.silent_seconds IS 'Seconds since last_sign_of_life, by the clock of the database.';
COMMENT ON COLUMN report.running.steps IS 'Steps of the plan itself.';
COMMENT ON COLUMN report.running.cycles IS 'Think-act cycles.';
COMMENT ON COLUMN report.running.tool_calls IS 'Tool calls.';
COMMENT ON COLUMN report.running.cost_usd IS 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.';
COMMENT ON COLUMN report.running.step_id IS 'The running step that began last.';
COMMENT ON COLUMN report.running.agent_name IS 'The agent of the running step that began last.';
COMMENT ON COLUMN report.running.latest_tool_name IS 'The tool of the last call.';
COMMENT ON COLUMN report.running.waits_for_human IS 'Whether it waits for a human; for a root plan, whether anything in its tree does.';
COMMENT ON COLUMN report.running.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.running.conversation_id IS 'The conversation: its own, else that of the plan, else of its root plan.';

-- By day (of UTC). ------------------------------------------------------------------------

-- Cycles that are on record, and the roll-ups of the steps whose cycles were dropped. Cycles that are written after their
-- period was dropped are not counted.
CREATE VIEW report.usage_daily AS
SELECT
    d.day, d.project, d.agent_name, d.provider, d.model_name,
    sum(d.model_calls)::bigint AS model_calls, sum(d.failures)::bigint AS failures,
    COALESCE(sum(d.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(d.output_tokens), 0)::bigint AS output_tokens,
    COALESCE(sum(d.cache_read_input_tokens), 0)::bigint AS cache_read_input_tokens,
    COALESCE(sum(d.cache_creation_input_tokens), 0)::bigint AS cache_creation_input_tokens,
    COALESCE(sum(d.reasoning_tokens), 0)::bigint AS reasoning_tokens, sum(d.cost_usd) AS cost_usd,
    COALESCE(sum(d.think_ms), 0)::double precision / 1000 AS think_seconds,
    d.user_id, d.environment, d.release
FROM (
    SELECT
        date_trunc('day', COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc' AS day,
        COALESCE(p.project, r.project, 'default') AS project, a.agent_name, c.provider, COALESCE(c.model_name, a.model_name) AS model_name,
        COALESCE(p.user_id, r.user_id) AS user_id, COALESCE(p.environment, r.environment) AS environment, COALESCE(p.release, r.release) AS release,
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
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
    UNION ALL
    SELECT
        date_trunc('day', COALESCE(a.start_time, a.end_time, a.first_seen_at, a.part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc',
        COALESCE(p.project, r.project, 'default'), a.agent_name, NULL, a.model_name,
        COALESCE(p.user_id, r.user_id), COALESCE(p.environment, r.environment), COALESCE(p.release, r.release),
        a.model_calls, a.failures, a.input_tokens, a.output_tokens, a.cache_read_input_tokens, a.cache_creation_input_tokens,
        a.reasoning_tokens, a.cost_usd, a.think_ms
    FROM actlog.dropped_detail AS x
    JOIN actlog.agent_execution_record AS a ON a.part >= x.from_day AND a.part < x.to_day AND a.model_calls > 0
    LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
    LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = a.root_plan_id AND r.current_plan_id = a.root_plan_id
) AS d
GROUP BY d.day, d.project, d.agent_name, d.provider, d.model_name, d.user_id, d.environment, d.release;
COMMENT ON VIEW report.usage_daily IS 'Model calls by day, project, environment, release, user, agent and model. Group by what you need: a version of Actlog may divide the rows further. Calls whose detail was dropped count on the day on which their step began, with the model of the step. Filter on day.';
COMMENT ON COLUMN report.usage_daily.day IS 'The day on which they began, as its first moment in UTC. If that was not reported: ended, else were first seen.';
COMMENT ON COLUMN report.usage_daily.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.usage_daily.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.usage_daily.provider IS 'The provider of the model.';
COMMENT ON COLUMN report.usage_daily.model_name IS 'The model.';
COMMENT ON COLUMN report.usage_daily.model_calls IS 'Cycles whose model call is known.';
COMMENT ON COLUMN report.usage_daily.failures IS 'Failed cycles; if detail was dropped, failed tool calls as well.';
COMMENT ON COLUMN report.usage_daily.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN report.usage_daily.output_tokens IS 'Output tokens, reasoning included.';
COMMENT ON COLUMN report.usage_daily.cache_read_input_tokens IS 'Input tokens read from a cache.';
COMMENT ON COLUMN report.usage_daily.cache_creation_input_tokens IS 'Input tokens written to a cache.';
COMMENT ON COLUMN report.usage_daily.reasoning_tokens IS 'Output tokens spent on reasoning.';
COMMENT ON COLUMN report.usage_daily.cost_usd IS 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.';
COMMENT ON COLUMN report.usage_daily.think_seconds IS 'Seconds that models took.';
COMMENT ON COLUMN report.usage_daily.user_id IS 'The user who asked: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.usage_daily.environment IS 'Where it ran: as reported for the plan, else for its root plan.';
COMMENT ON COLUMN report.usage_daily.release IS 'Which release of the agent program ran it: as reported for the plan, else for its root plan.';

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
                date_trunc('day', COALESCE(y.start_time, y.end_time, y.first_seen_at, y.part::timestamp AT TIME ZONE 'utc') AT TIME ZONE 'utc') AT TIME ZONE 'utc' AS day,
                CASE WHEN y.end_time - y.start_time IS NOT NULL -- as when detail is dropped
                    THEN GREATEST(0, round(1000 * extract(epoch FROM y.end_time - y.start_time)))::bigint END AS ms
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
COMMENT ON VIEW report.tool_daily IS 'Tool calls by day, project, tool and tool server, dropped ones included. Percentiles come from a histogram; their error is at most a fifth. Filter on day.';
COMMENT ON COLUMN report.tool_daily.day IS 'The day on which they began, as its first moment in UTC. If that was not reported: ended, else were first seen.';
COMMENT ON COLUMN report.tool_daily.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.tool_daily.tool_name IS 'The tool.';
COMMENT ON COLUMN report.tool_daily.server_name IS 'The tool server, if the tool has one.';
COMMENT ON COLUMN report.tool_daily.calls IS 'Tool calls.';
COMMENT ON COLUMN report.tool_daily.failures IS 'Tool calls that failed.';
COMMENT ON COLUMN report.tool_daily.total_seconds IS 'Seconds that they took, added up.';
COMMENT ON COLUMN report.tool_daily.p50_seconds IS 'Half of them took at most this many seconds.';
COMMENT ON COLUMN report.tool_daily.p95_seconds IS '95 of 100 took at most this many seconds.';
COMMENT ON COLUMN report.tool_daily.p99_seconds IS '99 of 100 took at most this many seconds.';

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
    SELECT date_trunc('day', a.happened_at AT TIME ZONE 'utc') AT TIME ZONE 'utc' AS day, a.*
    FROM report.agent_execution AS a
) AS d
GROUP BY d.day, d.project, d.agent_name, d.agent_version;
COMMENT ON VIEW report.agent_daily IS 'Steps by day, project, agent and version of the agent. Filter on day.';
COMMENT ON COLUMN report.agent_daily.day IS 'The day on which they began, as its first moment in UTC. If that was not reported: ended, else were first seen.';
COMMENT ON COLUMN report.agent_daily.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN report.agent_daily.agent_name IS 'The agent; null if it is not known.';
COMMENT ON COLUMN report.agent_daily.agent_version IS 'The version of the agent.';
COMMENT ON COLUMN report.agent_daily.executions IS 'Steps.';
COMMENT ON COLUMN report.agent_daily.completed IS 'Steps that completed.';
COMMENT ON COLUMN report.agent_daily.failed IS 'Steps that failed.';
COMMENT ON COLUMN report.agent_daily.interrupted IS 'Steps that were interrupted.';
COMMENT ON COLUMN report.agent_daily.unfinished IS 'Steps that have not ended.';
COMMENT ON COLUMN report.agent_daily.retried IS 'Steps that needed more than one attempt.';
COMMENT ON COLUMN report.agent_daily.cycles IS 'Think-act cycles.';
COMMENT ON COLUMN report.agent_daily.model_calls IS 'Cycles whose model call is known.';
COMMENT ON COLUMN report.agent_daily.tool_calls IS 'Tool calls.';
COMMENT ON COLUMN report.agent_daily.failures IS 'Failed cycles and failed tool calls.';
COMMENT ON COLUMN report.agent_daily.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN report.agent_daily.output_tokens IS 'Output tokens, reasoning included.';
COMMENT ON COLUMN report.agent_daily.cost_usd IS 'US dollars: as reported, else computed from tokens and prices; null if no cost is known.';
COMMENT ON COLUMN report.agent_daily.think_seconds IS 'Seconds that models took.';
COMMENT ON COLUMN report.agent_daily.tool_seconds IS 'Seconds that tool calls took, added up.';
COMMENT ON COLUMN report.agent_daily.p50_seconds IS 'Half of them took at most this many seconds.';
COMMENT ON COLUMN report.agent_daily.p95_seconds IS '95 of 100 took at most this many seconds.';
COMMENT ON COLUMN report.agent_daily.p99_seconds IS '99 of 100 took at most this many seconds.';

-- Prices. ---------------------------------------------------------------------------------

CREATE VIEW report.model_price AS
SELECT
    provider, model, from_day::timestamp AT TIME ZONE 'utc' AS from_day, input_usd, output_usd, cache_read_usd, cache_write_usd, source, seen,
    cache_write_1h_usd, tiers::text AS tiers, list_date
FROM actlog.model_price
WHERE seen IS NULL OR list_date IS NOT NULL;
COMMENT ON VIEW report.model_price IS 'What models cost, in US dollars per million tokens, by the first day of the price: your own prices, and those of the price list. Discounts of batches and off-peak hours are left out.';
COMMENT ON COLUMN report.model_price.provider IS 'The provider of the model; empty: any provider.';
COMMENT ON COLUMN report.model_price.model IS 'The name of the model; * stands for any characters.';
COMMENT ON COLUMN report.model_price.from_day IS 'The day from which the price holds, as its first moment in UTC.';
COMMENT ON COLUMN report.model_price.input_usd IS 'US dollars per million input tokens without a cache.';
COMMENT ON COLUMN report.model_price.output_usd IS 'US dollars per million output tokens.';
COMMENT ON COLUMN report.model_price.cache_read_usd IS 'US dollars per million input tokens read from a cache; null: the price of input.';
COMMENT ON COLUMN report.model_price.cache_write_usd IS 'US dollars per million input tokens written to a cache; null: the price of input.';
COMMENT ON COLUMN report.model_price.source IS 'Where the price is published.';
COMMENT ON COLUMN report.model_price.seen IS 'When the price was seen there; null: a price of your own.';
COMMENT ON COLUMN report.model_price.cache_write_1h_usd IS 'US dollars per million input tokens written to a cache for an hour; null: twice the price of input.';
COMMENT ON COLUMN report.model_price.tiers IS 'The prices of longer prompts, as JSON: above is the number of input tokens above which they hold.';
COMMENT ON COLUMN report.model_price.list_date IS 'The date of the price list that has the price; null: a price of your own.';

CREATE VIEW report.unpriced_model AS
SELECT
    c.provider, c.model_name,
    min(COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc')) AS first_call,
    max(COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc')) AS last_call, count(*) AS model_calls,
    COALESCE(sum(c.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(c.output_tokens), 0)::bigint AS output_tokens
FROM actlog.think_act_record AS c
WHERE c.cost_usd IS NULL AND COALESCE(c.input_tokens, c.output_tokens) IS NOT NULL
GROUP BY c.provider, c.model_name;
COMMENT ON VIEW report.unpriced_model IS 'Models whose calls have tokens but no cost on record, because no price was known or no model was named. Filter on last_call.';
COMMENT ON COLUMN report.unpriced_model.provider IS 'The provider of the model.';
COMMENT ON COLUMN report.unpriced_model.model_name IS 'The model; null: these calls name no model.';
COMMENT ON COLUMN report.unpriced_model.first_call IS 'When the first such call began. If that was not reported: when it ended, else when it was first seen.';
COMMENT ON COLUMN report.unpriced_model.last_call IS 'The same for the last such call.';
COMMENT ON COLUMN report.unpriced_model.model_calls IS 'Cycles whose model call is known.';
COMMENT ON COLUMN report.unpriced_model.input_tokens IS 'Input tokens, cached ones included.';
COMMENT ON COLUMN report.unpriced_model.output_tokens IS 'Output tokens, reasoning included.';

-- The runtime. ----------------------------------------------------------------------------

-- Figures are looked up for each run or session that a query returns, and only if it asks for them.

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

-- The operations of executor plan: its tool calls, by tool and operation.
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

-- The nodes of executor dag: which of them keep others from beginning.
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

-- The sessions of executor workflow: who talks, how much, and at what cost. Whether a plan is a root plan is asked of its
-- parent: by the ids of the plan, an index of all root plans would fit, and be read for each session. A plan without a run
-- was written by a client, and names the conversation as its own.
CREATE VIEW report.session AS
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
            WHERE o.root_plan_id = p.root_plan_id AND o.plan_id = p.current_plan_id AND (o.starter <> c.starter OR o.project <> c.project)
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
COMMENT ON COLUMN report.session.starter IS 'Whose session it is: the name of the API key, or who the program named; empty: not known.';

-- The role that may read the views. -------------------------------------------------------

-- Roles belong to the whole cluster: the migration of another database may have created this role, or may be creating it
-- now.
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
DROP VIEW report.session, report.node, report.operation, report.worker, report.run, report.unpriced_model, report.model_price,
    report.agent_daily, report.tool_daily, report.usage_daily, report.running, report.source, report.artifact, report.thought,
    report.failure, report.attempt, report.wait, report.tool_call, report.think_act, report.agent_execution, report.plan;
DROP FUNCTION actlog.sub_plan_figures(text);
DROP INDEX actlog.plan_root_part, actlog.plan_with_subs;
DROP INDEX actlog.act_tool_attempts, actlog.think_act_attempts, actlog.agent_attempts;
DROP INDEX actlog.act_tool_failed, actlog.think_act_failed, actlog.agent_failed, actlog.plan_failed;
DROP INDEX actlog.thought_time, actlog.act_tool_time, actlog.think_act_time, actlog.agent_time, actlog.plan_time;
