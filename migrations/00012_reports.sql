-- Reports go by when things happened. report.plan costs what its rows cost, however sub-plans
-- are nested. Thoughts, artifacts and sources have views.

-- +goose Up

-- Every writer begins with plans, so none deadlocks with the locks below.
LOCK TABLE actlog.plan_execution_record IN ACCESS EXCLUSIVE MODE;

-- When a row was first seen. Rows that are already on record do not know it; for them the first
-- day of their part stands in.
ALTER TABLE actlog.agent_execution_record ADD COLUMN first_seen_at timestamptz;
ALTER TABLE actlog.think_act_record ADD COLUMN first_seen_at timestamptz;
ALTER TABLE actlog.act_tool_info ADD COLUMN first_seen_at timestamptz;
ALTER TABLE actlog.thought ADD COLUMN first_seen_at timestamptz;
ALTER TABLE actlog.wait_state ADD COLUMN first_seen_at timestamptz;
ALTER TABLE actlog.agent_execution_record ALTER COLUMN first_seen_at SET DEFAULT now();
ALTER TABLE actlog.think_act_record ALTER COLUMN first_seen_at SET DEFAULT now();
ALTER TABLE actlog.act_tool_info ALTER COLUMN first_seen_at SET DEFAULT now();
ALTER TABLE actlog.thought ALTER COLUMN first_seen_at SET DEFAULT now();
ALTER TABLE actlog.wait_state ALTER COLUMN first_seen_at SET DEFAULT now();
COMMENT ON COLUMN actlog.agent_execution_record.first_seen_at IS 'When a server first received a record of the step; null if that was before this column existed.';
COMMENT ON COLUMN actlog.think_act_record.first_seen_at IS 'When a server first received a record of the cycle; null if that was before this column existed.';
COMMENT ON COLUMN actlog.act_tool_info.first_seen_at IS 'When a server first received a record of the call; null if that was before this column existed.';
COMMENT ON COLUMN actlog.thought.first_seen_at IS 'When a server first received a record of the thought; null if that was before this column existed.';
COMMENT ON COLUMN actlog.wait_state.first_seen_at IS 'When a server first received a record of the wait; null if that was before this column existed.';
COMMENT ON COLUMN actlog.tool_daily.day IS 'UTC day on which the calls began; if that is not known, ended; else were first seen.';

-- Retention may have detached partitions that it has not counted yet.
-- +goose StatementBegin
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname LIKE 'dropping\_%' LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS first_seen_at timestamptz', name);
    END LOOP;
END
$$;
-- +goose StatementEnd
-- The same block ranges as before, for the times that the views now filter on.
DROP INDEX actlog.plan_time, actlog.agent_time, actlog.think_act_time, actlog.act_tool_time;
DROP INDEX actlog.agent_failed, actlog.think_act_failed, actlog.act_tool_failed;
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
CREATE INDEX agent_failed ON actlog.agent_execution_record ((COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX think_act_failed ON actlog.think_act_record ((COALESCE(GREATEST(think_end_time, act_end_time), act_start_time, think_start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX act_tool_failed ON actlog.act_tool_info ((COALESCE(end_time, start_time, first_seen_at, part::timestamp AT TIME ZONE 'utc')))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX plan_root_began ON actlog.plan_execution_record ((COALESCE(start_time, first_seen_at))) WHERE root_plan_id = current_plan_id;
-- The trees that have sub-plans.
CREATE INDEX plan_with_subs ON actlog.plan_execution_record (part, root_plan_id) WHERE root_plan_id <> current_plan_id;
-- The figures of plans. ----------------------------------------------------------------

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

-- Views with one row per plan, step, cycle, call, wait and failure. ---------------

-- A root plan owns its whole tree, also plans whose parent is missing, so its figures are sums by
-- root_plan_id. Those of sub-plans come from sub_plan_figures. That is a subquery of its own that
-- names only the tree, so Postgres runs it once per tree, when it meets the first row that needs
-- it. The ORDER BY keeps Postgres from merging the subquery around it into the outer query; then
-- it would run once per row.
-- Conditions of a query reach both branches. Postgres skips the second one if it asks for root
-- plans only, and joins, sums and figures that no selected column needs. The second one begins with
-- trees, so only conditions on what all plans of a tree share, the root plan and the part, choose
-- which trees are looked into.
CREATE OR REPLACE VIEW report.plan AS
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
    p.total_wait_seconds, p.happened_at, p.depth
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
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id;

CREATE OR REPLACE VIEW report.agent_execution AS
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
    COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc') AS happened_at,
    COALESCE(a.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id
FROM actlog.think_act_record AS c
LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = c.root_plan_id AND r.current_plan_id = c.root_plan_id;

CREATE OR REPLACE VIEW report.tool_call AS
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

CREATE OR REPLACE VIEW report.wait AS
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

-- One branch per kind of row that fails, each with the same columns.
CREATE OR REPLACE VIEW report.failure AS
SELECT
    f.level, f.failed_at, f.root_plan_id, f.plan_id, f.step_id, f.seq, f.tool_call_id, f.part,
    COALESCE(p.project, r.project, 'default') AS project, COALESCE(p.environment, r.environment) AS environment,
    COALESCE(p.release, r.release) AS release, p.name AS plan_name, f.agent_name, f.tool_name, f.state, f.error_kind,
    split_part(left(f.error_message, 500), E'\n', 1) AS error,
    COALESCE(p.user_id, r.user_id) AS user_id, COALESCE(f.conversation_id, p.conversation_id, r.conversation_id) AS conversation_id,
    f.agent_version, f.attempt
FROM (
    SELECT
        'plan' AS level, COALESCE(x.end_time, x.start_time, x.first_seen_at) AS failed_at, x.root_plan_id, x.current_plan_id AS plan_id,
        NULL::text AS step_id, NULL::integer AS seq, NULL::text AS tool_call_id, x.part,
        NULL::text AS conversation_id, NULL::text AS agent_name, NULL::text AS agent_version, NULL::text AS tool_name,
        x.state, x.error_kind, x.error_message, NULL::integer AS attempt
    FROM actlog.plan_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'agent_execution', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, x.shown_plan_id,
        x.step_id, NULL, NULL, x.part, x.conversation_id, x.agent_name, x.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.agent_execution_record AS x
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'think_act', COALESCE(GREATEST(x.think_end_time, x.act_end_time), x.act_start_time, x.think_start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'),
        x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, NULL, x.part, a.conversation_id, a.agent_name, a.agent_version, NULL, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.think_act_record AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL
    SELECT
        'tool_call', COALESCE(x.end_time, x.start_time, x.first_seen_at, x.part::timestamp AT TIME ZONE 'utc'), x.root_plan_id, a.shown_plan_id,
        x.step_id, x.seq, x.tool_call_id, x.part, a.conversation_id, a.agent_name, a.agent_version, x.name, x.state, x.error_kind, x.error_message, COALESCE(x.attempt, 1)
    FROM actlog.act_tool_info AS x
    LEFT JOIN actlog.agent_execution_record AS a ON a.root_plan_id = x.root_plan_id AND a.step_id = x.step_id
    WHERE x.told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
    UNION ALL -- attempts before the current one
    SELECT
        t.level, COALESCE(t.end_time, t.happened_at), t.root_plan_id, t.plan_id,
        t.step_id, t.seq, t.tool_call_id, t.part, t.conversation_id, t.agent_name, t.agent_version, t.tool_name, t.state, t.error_kind, t.error, t.attempt
    FROM report.attempt AS t
    WHERE t.retried AND t.state IN ('FAILED', 'INTERRUPTED', 'BLOCKED')
) AS f
LEFT JOIN actlog.plan_execution_record AS p ON p.root_plan_id = f.root_plan_id AND p.current_plan_id = f.plan_id
LEFT JOIN actlog.plan_execution_record AS r ON r.root_plan_id = f.root_plan_id AND r.current_plan_id = f.root_plan_id;

-- What belongs to a plan. Sizes are read without the texts.
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

-- What runs now. ------------------------------------------------------------------

-- A root plan is alive, or waits, as long as anything in its tree does. An import of a run that
-- is silent since long is no sign of life: when a record was first seen counts only if no time was
-- reported at all.
-- The rows of each tree in which something runs are grouped by plan once. The OFFSETs make Postgres
-- look up each plan and step of a group by its key; else it may compare all plans with all groups.
CREATE OR REPLACE VIEW report.running AS
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

-- By day (of UTC). ------------------------------------------------------------------

-- Cycles that are on record, and the roll-ups of the steps whose cycles were dropped. Cycles
-- that are written after their period was dropped are not counted.
CREATE OR REPLACE VIEW report.usage_daily AS
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

-- Tool calls that are on record, and the daily figures of those that were dropped.
CREATE OR REPLACE VIEW report.tool_daily AS
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

CREATE OR REPLACE VIEW report.agent_daily AS
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

CREATE OR REPLACE VIEW report.unpriced_model AS
SELECT
    c.provider, c.model_name,
    min(COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc')) AS first_call,
    max(COALESCE(c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time, c.first_seen_at, c.part::timestamp AT TIME ZONE 'utc')) AS last_call, count(*) AS model_calls,
    COALESCE(sum(c.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(c.output_tokens), 0)::bigint AS output_tokens
FROM actlog.think_act_record AS c
WHERE c.cost_usd IS NULL AND COALESCE(c.input_tokens, c.output_tokens) IS NOT NULL
GROUP BY c.provider, c.model_name;

-- Comments. ----------------------------------------------------------------------------

COMMENT ON VIEW report.plan IS 'One row per plan, root plans and sub-plans. Filter on happened_at. Figures are those of the plan itself; total_ figures include its sub-plans.';
COMMENT ON VIEW report.agent_execution IS 'One row per step: one agent at work on one step of a plan. Filter on happened_at.';
COMMENT ON VIEW report.think_act IS 'One row per think-act cycle: one model call and its tool calls. Filter on happened_at.';
COMMENT ON VIEW report.tool_call IS 'One row per tool call. Filter on happened_at.';
COMMENT ON VIEW report.failure IS 'One row for each plan, step, cycle and tool call that is FAILED, INTERRUPTED or BLOCKED, and for each such attempt before the current one. A failure at one level often causes one at the level above. Filter on failed_at.';
COMMENT ON VIEW report.wait IS 'One row per wait for a human. Filter on happened_at.';
-- +goose StatementBegin
DO $$
BEGIN
    COMMENT ON VIEW report.attempt IS 'One row per attempt at each step, cycle and tool call that was attempted again. Where retried is true, state and error say why. Filter on happened_at.';
END
$$;
-- +goose StatementEnd
COMMENT ON VIEW report.thought IS 'One row per entry of the reasoning log of a plan, without its text. Filter on happened_at.';
COMMENT ON VIEW report.artifact IS 'One row per thing that a plan produced, without the thing itself. Filter on happened_at.';
COMMENT ON VIEW report.source IS 'One row per thing that an agent read and relied on, without what it read. Filter on happened_at.';
COMMENT ON VIEW report.usage_daily IS 'Model calls by day, project, environment, release, user, agent and model. Group by what you need: a version of Actlog may divide the rows further. Calls whose detail was dropped count on the day on which their step began, with the model of the step. Filter on day.';

-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    -- The comment of each new column, by view and name. The view * stands for every view.
    FOR c IN
        WITH said (view, name, comment) AS (VALUES
            ('*', 'happened_at', 'When it began. If that was not reported: when it ended, else when it was first seen. Never null; indexed.'),
            ('plan', 'happened_at', 'When it began; if that was not reported, when it was first seen. Never null; indexed for root plans. A query that is not for root plans only (is_root) should also name root_plan_id or a range of part: else it looks at all sub-plans on record. The list of the REST interface goes by this time, too.'),
            ('plan', 'part', 'First day of the period in which the root plan was first seen. A query with a range of it does not read the sub-plans of other trees.'),
            ('wait', 'open', 'Whether somebody may still answer: nobody has, and the root plan has not ended or the plan that waits still runs. The REST interface shows the same waits.'),
            ('wait', 'happened_at', 'When it began. If that was not reported: when it ended, else when it was first seen.'),
            ('thought', 'happened_at', 'When the agent had the thought; if that was not reported, when it was first seen. Null if neither is known; indexed.'),
            ('artifact', 'happened_at', 'When its plan began; if that was not reported, when the plan was first seen. Never null; indexed.'),
            ('source', 'happened_at', 'When its plan began; if that was not reported, when the plan was first seen. Never null; indexed.'),
            ('plan', 'first_seen_at', 'When a server first received a record of it: for an imported run, the time of the import. Never null; indexed.'),
            ('plan', 'depth', 'How many plans are above it; 0 for a root plan.'),
            ('failure', 'failed_at', 'When it ended; if that was not reported, the latest time that is known, else when it was first seen. Never null; indexed.'),
            ('*', 'environment', 'Where it ran: as reported for the plan, else for its root plan.'),
            ('*', 'release', 'Which release of the agent program ran it: as reported for the plan, else for its root plan.'),
            ('*', 'user_id', 'The user who asked: as reported for the plan, else for its root plan.'),
            ('*', 'conversation_id', 'The conversation: its own, else that of the plan, else of its root plan.'),
            ('failure', 'attempt', 'Which attempt at the step, cycle or tool call failed, from 1; null for a plan.'),
            ('attempt', 'level', 'What was attempted: agent_execution, think_act or tool_call.'),
            ('attempt', 'attempt', 'The number of the attempt, from 1.'),
            ('attempt', 'retried', 'Whether a later attempt followed.'),
            ('attempt', 'last_state', 'How the current attempt went: COMPLETED if the retries helped.'),
            ('attempt', 'start_time', 'When the attempt began: the earliest start that was reported; of a cycle, when its thinking began.'),
            ('attempt', 'end_time', 'When the attempt ended: the latest end that was reported.'),
            ('attempt', 'duration_seconds', 'Seconds from start to end of the attempt; null until both are known.'),
            ('attempt', 'agent_version', 'The version of the agent; null if it is not known.'),
            ('failure', 'agent_version', 'The version of the agent; null if it is not known.'),
            ('running', 'last_sign_of_life', 'The latest time that was reported for the plan: a heartbeat, or a time of its steps, cycles, tool calls, waits or thoughts; for a root plan, of its whole tree. If no time was reported, when a record was last first seen.'),
            ('*', 'day', 'The day on which they began, as its first moment in UTC. If that was not reported: ended, else were first seen.'),
            ('unpriced_model', 'first_call', 'When the first such call began. If that was not reported: when it ended, else when it was first seen.'),
            ('thought', 'root_plan_id', 'The root plan of the tree.'),
            ('thought', 'plan_id', 'The plan.'),
            ('thought', 'step_id', 'The step; null if there is none.'),
            ('thought', 'thought_id', 'The thought.'),
            ('thought', 'agent_id', 'The agent whose thought it is, as the writer names it.'),
            ('thought', 'role', 'The role of that agent.'),
            ('thought', 'iteration', 'The iteration of the agent; 0 before the first, -1 for a fatal error.'),
            ('thought', 'type', 'analysis, decision, action, observation, conclusion or error.'),
            ('thought', 'confidence', 'How sure the agent is, 0 to 1; null if it was not reported.'),
            ('thought', 'content_bytes', 'Bytes of its text; null if there is none.'),
            ('artifact', 'artifact_name', 'Its name, unique in its plan.'),
            ('artifact', 'type', 'What kind of thing it is.'),
            ('artifact', 'stored_bytes', 'Bytes that it takes in the database, compressed; null if it has no value.'),
            ('source', 'source_id', 'The source.'),
            ('source', 'type', 'FILE, URL, CLASS, COMMIT, DOCUMENTATION, SNIPPET or EMBEDDING.'),
            ('source', 'uri', 'Where it is; its first 500 characters.'),
            ('source', 'line_start', 'First line, from 1; null if it is not known.'),
            ('source', 'line_end', 'Last line; null if it is not known.'),
            ('source', 'relevance_score', 'How relevant the source is, 0 to 1; null if it was not reported.'),
            ('source', 'snippet_bytes', 'Bytes of what was read; null if that is not on record.'),
            ('added', 'root_plan_id', 'The root plan of the tree.'),
            ('added', 'plan_id', 'The plan.'),
            ('added', 'step_id', 'The step; null if there is none.'),
            ('added', 'seq', 'Number of the cycle within its step, from 0; null if the tool call is not on record.'),
            ('added', 'tool_call_id', 'The tool call; null if there is none.'),
            ('added', 'part', 'First day of the period in which the root plan was first seen. A query with a range of it does not read other partitions.'),
            ('added', 'project', 'The project of the plan, else of its root plan, else default.'),
            ('added', 'plan_name', 'The kind of plan. All runs of one kind have the same name.'),
            ('added', 'agent_name', 'The agent of the step; null if it is not known.'),
            ('added', 'agent_version', 'The version of that agent; null if it is not known.')
        )
        SELECT DISTINCT ON (v.oid, a.attnum) v.relname, a.attname, said.comment
        FROM pg_class AS v
        JOIN pg_attribute AS a ON a.attrelid = v.oid AND a.attnum > 0
        JOIN said ON said.name = a.attname AND said.view IN ('*', v.relname, CASE WHEN v.relname IN ('thought', 'artifact', 'source') THEN 'added' END)
        WHERE v.relnamespace = 'report'::regnamespace AND v.relkind = 'v'
        ORDER BY v.oid, a.attnum, said.view = '*', said.view = 'added'
    LOOP
        EXECUTE format('COMMENT ON COLUMN report.%I.%I IS %L', c.relname, c.attname, c.comment);
    END LOOP;
    -- The other columns of report.attempt mean what they mean in the other views.
    FOR c IN
        SELECT DISTINCT ON (a.attname) a.attname, col_description(o.attrelid, o.attnum) AS comment
        FROM pg_attribute AS a
        JOIN pg_attribute AS o ON o.attname = a.attname AND o.attrelid IN ('report.failure'::regclass, 'report.tool_call'::regclass)
        WHERE a.attrelid = 'report.attempt'::regclass AND a.attnum > 0 AND col_description(a.attrelid, a.attnum) IS NULL
        ORDER BY a.attname, o.attrelid
    LOOP
        EXECUTE format('COMMENT ON COLUMN report.attempt.%I IS %L', c.attname, c.comment);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

DROP VIEW report.source, report.artifact, report.thought, report.unpriced_model, report.agent_daily, report.tool_daily, report.usage_daily, report.running,
    report.failure, report.attempt, report.wait, report.tool_call, report.think_act, report.agent_execution, report.plan;
DROP FUNCTION actlog.sub_plan_figures(text);
DROP INDEX actlog.plan_with_subs, actlog.plan_root_began, actlog.thought_time, actlog.plan_time, actlog.agent_time, actlog.think_act_time, actlog.act_tool_time;
DROP INDEX actlog.agent_failed, actlog.think_act_failed, actlog.act_tool_failed;
ALTER TABLE actlog.agent_execution_record DROP COLUMN first_seen_at;
ALTER TABLE actlog.think_act_record DROP COLUMN first_seen_at;
ALTER TABLE actlog.act_tool_info DROP COLUMN first_seen_at;
ALTER TABLE actlog.thought DROP COLUMN first_seen_at;
ALTER TABLE actlog.wait_state DROP COLUMN first_seen_at;
COMMENT ON COLUMN actlog.tool_daily.day IS 'UTC day on which the calls began; if that is not known, ended; else the first day of their part.';
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
CREATE INDEX agent_failed ON actlog.agent_execution_record ((COALESCE(end_time, start_time)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX think_act_failed ON actlog.think_act_record ((COALESCE(GREATEST(think_end_time, act_end_time), act_start_time, think_start_time)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');
CREATE INDEX act_tool_failed ON actlog.act_tool_info ((COALESCE(end_time, start_time)))
    WHERE told_state IN ('FAILED', 'INTERRUPTED', 'BLOCKED');

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

CREATE VIEW report.unpriced_model AS
SELECT
    c.provider, c.model_name,
    min(COALESCE(c.think_start_time, c.think_end_time, c.part::timestamp AT TIME ZONE 'utc')) AS first_call,
    max(COALESCE(c.think_start_time, c.think_end_time, c.part::timestamp AT TIME ZONE 'utc')) AS last_call, count(*) AS model_calls,
    COALESCE(sum(c.input_tokens), 0)::bigint AS input_tokens, COALESCE(sum(c.output_tokens), 0)::bigint AS output_tokens
FROM actlog.think_act_record AS c
WHERE c.cost_usd IS NULL AND COALESCE(c.input_tokens, c.output_tokens) IS NOT NULL
GROUP BY c.provider, c.model_name;

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
