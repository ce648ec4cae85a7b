-- name: PlanLock :many
-- Locks the root plans that are on record, in the same order as writers, and returns them. OFFSET 0 makes Postgres look up one after the other by its key: without statistics it would
-- read all root plans.
SELECT p.root_plan_id
FROM (SELECT x.id FROM unnest(@root_plan_ids::text[]) AS x (id) ORDER BY x.id COLLATE "C") AS u
CROSS JOIN LATERAL (
    SELECT x.root_plan_id
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR NO KEY UPDATE
) AS p;

-- name: PlanLockPlaced :exec
-- Locks root plans that should all be in one partition, in the order of their ids, which is that of
-- writers. If one is not there, the statement fails with SQLSTATE YA001.
SELECT CASE WHEN count(*) <> cardinality(@root_plan_ids::text[]) THEN actlog.stale_guess('a plan is not in the expected partition') END
FROM unnest(@root_plan_ids::text[]) AS u (id)
CROSS JOIN LATERAL (
    SELECT x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR NO KEY UPDATE
) AS p
WHERE p.part = @part::date;

-- name: PlanLockOutside :exec
-- PlanLockPlaced and RunOwned in one, for what is written from outside of the runtime. A run begins together with its root plan, so a
-- statement that finds the one finds the other.
SELECT
    CASE WHEN count(*) <> cardinality(@root_plan_ids::text[]) THEN actlog.stale_guess('a plan is not in the expected partition') END,
    (SELECT actlog.owned_by_runtime(array_agg(r.plan_id)) FROM actlog.run AS r WHERE r.plan_id = ANY (@plan_ids::text[]) HAVING count(*) > 0)
FROM unnest(@root_plan_ids::text[]) AS u (id)
CROSS JOIN LATERAL (
    SELECT x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR NO KEY UPDATE
) AS p
WHERE p.part = @part::date;

-- name: PlanNew :many
-- Returns the root plans that this transaction has added, and the part of their detail.
SELECT p.root_plan_id, p.part
FROM unnest(@root_plan_ids::text[]) AS u (id)
CROSS JOIN LATERAL (
    SELECT x.root_plan_id, x.part, x.first_seen_at
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
) AS p
WHERE p.first_seen_at = now();

-- name: PlanExceptionServe :one
-- Takes the waiting exception of a plan. Only one reader gets it, across all servers. It
-- appends to the feed, as every write does: readers find changed rows by their transaction.
WITH served AS (
    UPDATE actlog.plan_execution_record
    SET exception_served_at = now()
    WHERE root_plan_id = @root_plan_id::text AND current_plan_id = @current_plan_id::text
        AND exception_served_at IS NULL AND state <> 'COMPLETED' AND exception_at > now() - INTERVAL '10 minutes'
    RETURNING root_plan_id, COALESCE(exception, '')::text AS exception
),
fed AS (
    INSERT INTO actlog.change (root_plan_id, kinds) SELECT root_plan_id, '{plan}' FROM served
)
SELECT exception FROM served;

-- name: PlanList :exec
-- Returns root plans, newest first by when they began, between two cursors, without large texts: all, or those that a search
-- found. It has the cause of each or, if that is not made since the tree changed, the rows from which it follows. Postgres has to plan
-- it for the given filters, see Store.Plans.
WITH made AS MATERIALIZED (
    SELECT g.seq
    FROM actlog.cause_progress AS g
    WHERE g.id = 1 AND g.before_at IS NULL AND (SELECT COALESCE(max(c.seq), 0) FROM actlog.change AS c) - g.seq < 10000
),
touched AS MATERIALIZED (
    SELECT c.root_plan_id FROM made CROSS JOIN LATERAL (SELECT x.root_plan_id FROM actlog.change AS x WHERE x.seq > made.seq OFFSET 0) AS c
)
SELECT
    p.id, p.root_plan_id, p.began_at, p.executor, p.name, CASE WHEN octet_length(p.title) > 1000 THEN left(p.title, 1000) ELSE p.title END AS title, p.project, p.user_id, p.tags,
    p.environment, p.release, p.conversation_id, p.trace_id, p.state, p.start_time, p.end_time, p.model_name,
    CASE WHEN octet_length(p.error_message) > 1000 THEN left(p.error_message, 1000) ELSE p.error_message END AS error_message, p.error_kind, p.last_seen_at, p.forked_from, p.truncated,
    p.placeholder,
    CASE WHEN NOT p.completed THEN GREATEST(f.latest, (
        SELECT max(GREATEST(x.last_seen_at, x.start_time, x.end_time))
        FROM actlog.plan_execution_record AS x
        WHERE x.root_plan_id = p.root_plan_id
    ), (
        SELECT max(GREATEST(w.start_time, w.end_time))
        FROM actlog.wait_state AS w
        WHERE w.root_plan_id = p.root_plan_id
    ), (
        SELECT max(h.time)
        FROM actlog.thought AS h
        WHERE h.root_plan_id = p.root_plan_id
    )) END AS last_sign_of_life,
    f.steps, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens, f.cache_read_input_tokens,
    f.cache_creation_input_tokens, f.reasoning_tokens, f.cost_usd, f.think_ms, f.tool_ms, s.agent,
    k.document AS cause_document, CASE WHEN NOT k.made THEN actlog.cause_evidence(p.root_plan_id, p.part) END AS cause_rows
FROM (
    -- The cheapest conditions stand first. A placeholder is in no state.
    SELECT x.*
    FROM (
        -- No condition may stand here: Postgres would read all plans before it sorts them.
        SELECT r.*, actlog.is_placeholder(r) AS placeholder, COALESCE(r.start_time, r.first_seen_at) AS began_at, false AS is_found
        FROM actlog.plan_execution_record AS r
        UNION ALL
        SELECT y.*
        FROM unnest(sqlc.narg('found')::text[]) AS u (id)
        CROSS JOIN LATERAL ( -- one by one, by the primary key
            SELECT r.*, actlog.is_placeholder(r) AS placeholder, COALESCE(r.start_time, r.first_seen_at) AS began_at, true AS is_found
            FROM actlog.plan_execution_record AS r
            WHERE r.root_plan_id = u.id AND r.current_plan_id = u.id
            OFFSET 0
        ) AS y
    ) AS x
    WHERE x.is_found = (sqlc.narg('found')::text[] IS NOT NULL)
        AND x.root_plan_id = x.current_plan_id
        AND (x.began_at, x.root_plan_id) < (@before_time::timestamptz, @before_id::text)
        AND (x.began_at, x.root_plan_id) > (@after_time::timestamptz, @after_id::text)
        AND (sqlc.narg('state')::text IS NULL OR x.state = sqlc.narg('state')::text AND NOT x.placeholder)
        AND (sqlc.narg('project')::text IS NULL OR COALESCE(x.project, 'default') = sqlc.narg('project')::text)
        AND (sqlc.narg('name')::text IS NULL OR x.name = sqlc.narg('name')::text)
        AND (sqlc.narg('user_id')::text IS NULL OR x.user_id = sqlc.narg('user_id')::text)
        AND (sqlc.narg('conversation_id')::text IS NULL OR x.conversation_id = sqlc.narg('conversation_id')::text)
        AND (sqlc.narg('started_by')::text IS NULL OR x.started_by ->> 'planId' = sqlc.narg('started_by')::text)
        AND (sqlc.narg('tag')::text IS NULL OR x.tags @> ARRAY[sqlc.narg('tag')::text])
        AND (sqlc.narg('agent')::text IS NULL OR EXISTS (
            SELECT FROM actlog.agent_execution_record AS a
            WHERE a.root_plan_id = x.root_plan_id AND a.agent_name = sqlc.narg('agent')::text
        ))
        AND (sqlc.narg('min_ms')::bigint IS NULL OR x.end_time >= x.start_time + sqlc.narg('min_ms')::bigint * INTERVAL '1 ms')
        AND (sqlc.narg('max_ms')::bigint IS NULL OR x.end_time >= x.start_time AND x.end_time <= x.start_time + sqlc.narg('max_ms')::bigint * INTERVAL '1 ms')
        AND (sqlc.narg('min_cost')::numeric IS NULL OR (
            SELECT sum(a.cost_usd) FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = x.root_plan_id
        ) >= sqlc.narg('min_cost')::numeric)
        AND (sqlc.narg('max_cost')::numeric IS NULL OR (
            SELECT sum(a.cost_usd) FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = x.root_plan_id
        ) <= sqlc.narg('max_cost')::numeric)
        AND (sqlc.narg('failed')::boolean IS NULL OR sqlc.narg('failed')::boolean = (EXISTS (
            SELECT FROM actlog.plan_execution_record AS y WHERE y.root_plan_id = x.root_plan_id AND y.told_state IN ('FAILED', 'INTERRUPTED')
                AND (y.forked_from IS NULL OR y.current_plan_id = y.root_plan_id)
        ) OR EXISTS (
            SELECT FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = x.root_plan_id AND (a.failures > 0 OR a.told_state IN ('FAILED', 'INTERRUPTED') AND a.forked_from IS NULL)
        )))
        AND (sqlc.narg('model')::text IS NULL OR EXISTS (
            SELECT FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = x.root_plan_id AND a.model_name = sqlc.narg('model')::text
        ) OR EXISTS (
            SELECT FROM actlog.think_act_record AS c WHERE c.root_plan_id = x.root_plan_id AND c.part = x.part AND c.model_name = sqlc.narg('model')::text
        ))
        AND (sqlc.narg('tool')::text IS NULL OR EXISTS (
            SELECT FROM actlog.act_tool_info AS t WHERE t.root_plan_id = x.root_plan_id AND t.part = x.part AND t.name = sqlc.narg('tool')::text
        ))
    ORDER BY x.began_at DESC, x.root_plan_id DESC
    LIMIT @page_size::integer
) AS p
CROSS JOIN LATERAL (
    SELECT
        (count(*) FILTER (WHERE a.forked_from IS NULL))::bigint AS steps,
        COALESCE(sum(a.model_calls), 0)::bigint AS model_calls,
        COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.failures), 0)::bigint AS failures,
        COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens,
        COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens,
        COALESCE(sum(a.cache_read_input_tokens), 0)::bigint AS cache_read_input_tokens,
        COALESCE(sum(a.cache_creation_input_tokens), 0)::bigint AS cache_creation_input_tokens,
        COALESCE(sum(a.reasoning_tokens), 0)::bigint AS reasoning_tokens,
        sum(a.cost_usd) AS cost_usd,
        COALESCE(sum(a.think_ms), 0)::bigint AS think_ms,
        COALESCE(sum(a.tool_ms), 0)::bigint AS tool_ms,
        max(GREATEST(a.last_seen_at, a.start_time, a.end_time)) AS latest
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id
) AS f
LEFT JOIN LATERAL ( -- of the first step of the plan itself
    SELECT a.agent_name AS agent
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id AND a.agent_name IS NOT NULL
    ORDER BY a.shown_plan_id <> a.root_plan_id, a.step_index, a.id
    LIMIT 1
) AS s ON true
CROSS JOIN LATERAL (
    SELECT m.made, CASE WHEN m.made THEN y.document END AS document
    FROM (SELECT) AS one
    LEFT JOIN LATERAL (SELECT x.document, x.detail FROM actlog.cause AS x WHERE x.root_plan_id = p.root_plan_id OFFSET 0) AS y ON true
    CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM made) AND p.root_plan_id NOT IN (SELECT t.root_plan_id FROM touched AS t)
            AND NOT (COALESCE(y.detail, false) AND EXISTS (SELECT FROM actlog.dropped_detail AS d WHERE p.part >= d.from_day AND p.part < d.to_day)) AS made
    ) AS m
    OFFSET 0
) AS k
ORDER BY p.began_at DESC, p.root_plan_id DESC;

-- name: PlanHome :one
-- Returns the root and the part of the tree of a plan. If several roots have a plan of that
-- id and no root is given, that of the runtime wins, then the root plan of that id, then the newest.
SELECT root_plan_id, part
FROM actlog.plan_execution_record AS x
WHERE x.current_plan_id = @plan_id::text AND (sqlc.narg('root_plan_id')::text IS NULL OR x.root_plan_id = sqlc.narg('root_plan_id')::text)
ORDER BY EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.current_plan_id) DESC,
    x.root_plan_id = x.current_plan_id DESC, x.first_seen_at DESC, x.root_plan_id DESC
LIMIT 1;

-- name: PlanPlace :one
-- Returns the root of the tree that a plan belongs to, as PlanHome does, and the state of the
-- plan.
SELECT root_plan_id, state
FROM actlog.plan_execution_record AS x
WHERE x.current_plan_id = @plan_id::text AND (sqlc.narg('root_plan_id')::text IS NULL OR x.root_plan_id = sqlc.narg('root_plan_id')::text)
ORDER BY EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.current_plan_id) DESC,
    x.root_plan_id = x.current_plan_id DESC, x.first_seen_at DESC, x.root_plan_id DESC
LIMIT 1;

-- name: PlanIDs :exec
-- Returns ids of plans from one id up to another, in order: of all plans, or of root plans only. Postgres has to plan it for that.
SELECT DISTINCT current_plan_id
FROM actlog.plan_execution_record
WHERE current_plan_id >= @from_id::text AND current_plan_id < @to_id::text AND (root_plan_id = current_plan_id OR NOT @roots_only::boolean)
ORDER BY current_plan_id
LIMIT @most::integer;

-- name: PlanStartedBy :many
-- Returns root plans that say that a plan, or a tool call of it, started them, oldest first.
SELECT p.root_plan_id, COALESCE("left"(p.title, 200), '')::text AS title
FROM actlog.plan_execution_record AS p
WHERE p.started_by ->> 'planId' = @plan_id::text AND p.root_plan_id = p.current_plan_id
    AND (sqlc.narg('tool_call_id')::text IS NULL OR p.started_by ->> 'toolCallId' = sqlc.narg('tool_call_id')::text)
ORDER BY COALESCE(p.start_time, p.first_seen_at), p.root_plan_id
LIMIT @most::integer;

-- name: PlanSize :one
-- Returns what a plan can be called by, and how many steps, cycles and calls the tree has that it
-- belongs to, of each kind up to a number.
SELECT p.title, p.name, COALESCE("left"(p.user_request, 200), '')::text AS user_request,
    (SELECT count(*) FROM (SELECT FROM actlog.agent_execution_record AS s WHERE s.root_plan_id = p.root_plan_id LIMIT @most::integer) AS s)
    + (SELECT count(*) FROM (SELECT FROM actlog.think_act_record AS c WHERE c.root_plan_id = p.root_plan_id LIMIT @most::integer) AS c)
    + (SELECT count(*) FROM (SELECT FROM actlog.act_tool_info AS t WHERE t.root_plan_id = p.root_plan_id LIMIT @most::integer) AS t) AS rows
FROM actlog.plan_execution_record AS p
WHERE p.current_plan_id = @plan_id::text AND (sqlc.narg('root_plan_id')::text IS NULL OR p.root_plan_id = sqlc.narg('root_plan_id')::text)
ORDER BY EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = p.root_plan_id AND o.plan_id = p.current_plan_id) DESC,
    p.root_plan_id = p.current_plan_id DESC, p.first_seen_at DESC, p.root_plan_id DESC
LIMIT 1;

-- name: PlanGlance :exec
-- Returns root plans with the figures of their whole trees, without texts: the named ones, and
-- the newest live ones, up to a number.
WITH live AS MATERIALIZED ( -- unsorted: sorting here would scan plans that have ended
    SELECT x.root_plan_id, COALESCE(x.start_time, x.first_seen_at) AS began_at
    FROM actlog.plan_execution_record AS x
    WHERE NOT x.completed AND x.current_plan_id = x.root_plan_id AND @live::integer > 0
),
asked AS MATERIALIZED (
    SELECT u.id AS root_plan_id
    FROM unnest(@root_plan_ids::text[]) AS u (id)
    UNION ALL
    (
        SELECT l.root_plan_id
        FROM live AS l
        ORDER BY l.began_at DESC, l.root_plan_id DESC
        LIMIT @live::integer
    )
)
SELECT
    p.root_plan_id, p.name, p.project, p.state, p.start_time, p.end_time, p.last_seen_at, p.error_kind, p.placeholder,
    f.steps, f.model_calls, f.tool_calls, f.failures, f.input_tokens, f.output_tokens, f.cache_read_input_tokens,
    f.cache_creation_input_tokens, f.reasoning_tokens, f.cost_usd, f.think_ms, f.tool_ms
FROM asked
CROSS JOIN LATERAL ( -- one by one, by the primary key
    SELECT x.*, actlog.is_placeholder(x) AS placeholder
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = asked.root_plan_id AND x.current_plan_id = asked.root_plan_id
    LIMIT 1
) AS p
CROSS JOIN LATERAL (
    SELECT
        (count(*) FILTER (WHERE a.forked_from IS NULL))::bigint AS steps,
        COALESCE(sum(a.model_calls), 0)::bigint AS model_calls,
        COALESCE(sum(a.tool_calls), 0)::bigint AS tool_calls,
        COALESCE(sum(a.failures), 0)::bigint AS failures,
        COALESCE(sum(a.input_tokens), 0)::bigint AS input_tokens,
        COALESCE(sum(a.output_tokens), 0)::bigint AS output_tokens,
        COALESCE(sum(a.cache_read_input_tokens), 0)::bigint AS cache_read_input_tokens,
        COALESCE(sum(a.cache_creation_input_tokens), 0)::bigint AS cache_creation_input_tokens,
        COALESCE(sum(a.reasoning_tokens), 0)::bigint AS reasoning_tokens,
        sum(a.cost_usd) AS cost_usd,
        COALESCE(sum(a.think_ms), 0)::bigint AS think_ms,
        COALESCE(sum(a.tool_ms), 0)::bigint AS tool_ms
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = p.root_plan_id
) AS f
ORDER BY COALESCE(p.start_time, p.first_seen_at), p.root_plan_id;

-- name: PlanOfAgent :many
-- Returns the trees of steps of an agent, in the order of an index, up to a number of steps.
SELECT a.root_plan_id
FROM actlog.agent_execution_record AS a
WHERE a.agent_name COLLATE "C" = @agent::text
LIMIT @most::integer;
