-- name: PlanLockTable :exec
-- Takes the lock on the table of plans with which every writer begins. A session that adds a
-- partition waits for this lock first, so it never blocks a writer that holds other locks.
UPDATE actlog.plan_execution_record SET origin = origin WHERE false;

-- name: TraceLock :exec
-- Locks traces, and waits for their other writers. The keys are sorted.
SELECT pg_advisory_xact_lock(u.key) FROM unnest(@keys::bigint[]) AS u (key);

-- name: TraceLockRoots :exec
-- Locks the root plans of traces, in the same order as other writers: the roots of the trees
-- that have their rows, and the native root plans that name the traces.
SELECT 1
FROM (
    SELECT x.id
    FROM (
        SELECT unnest(@trace_ids::text[]) AS id
        UNION
        SELECT t.root_plan_id FROM actlog.otlp_trace AS t WHERE t.trace_id = ANY (@trace_ids::text[])
            AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = t.root_plan_id AND o.plan_id = t.root_plan_id)
        UNION
        SELECT n.root_plan_id
        FROM unnest(@trace_ids::text[]) AS q (id)
        CROSS JOIN LATERAL (
            SELECT x.root_plan_id, x.current_plan_id, x.origin FROM actlog.plan_execution_record AS x WHERE x.trace_id = q.id OFFSET 0
        ) AS n
        WHERE n.root_plan_id = n.current_plan_id AND n.origin = 'native'
            AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = n.root_plan_id AND o.plan_id = n.root_plan_id)
    ) AS x
    ORDER BY x.id COLLATE "C"
) AS u
CROSS JOIN LATERAL (
    SELECT FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id
    OFFSET 0
    FOR UPDATE
) AS p;

-- name: TraceHold :exec
-- Locks the traces that are on record, so that they are not deleted.
SELECT 1 FROM actlog.otlp_trace WHERE trace_id = ANY (@trace_ids::text[]) ORDER BY trace_id FOR UPDATE;

-- name: TraceStates :many
-- Returns what is known of traces, the native root plan that names each and is none of the runtime, where the detail of its own
-- root plan lies (the year 1: it has none), and the first and the last of its chunks.
SELECT
    u.trace_id::text AS trace_id, (t.trace_id IS NOT NULL)::boolean AS known,
    (CASE
        WHEN t.root_plan_id IS NULL OR EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = t.root_plan_id AND o.plan_id = t.root_plan_id) THEN ''
        ELSE t.root_plan_id
    END)::text AS root_plan_id,
    COALESCE(t.spans, 0)::bigint AS spans, COALESCE(t.complete, false)::boolean AS complete, COALESCE(t.projected, 0)::integer AS projected,
    COALESCE(extract(epoch FROM t.due_at - now()), 'infinity')::double precision AS due_seconds,
    COALESCE(t.last_seen_at <= now() - make_interval(secs => @quiet_seconds::double precision), false)::boolean AS quiet,
    COALESCE(n.root_plan_id, '')::text AS native_root,
    COALESCE(r.part, '0001-01-01')::date AS root_part,
    COALESCE((SELECT s.id FROM actlog.otlp_span AS s WHERE s.trace_id = t.trace_id AND s.part = t.part ORDER BY s.id LIMIT 1), 0)::bigint AS first_chunk,
    COALESCE((SELECT s.id FROM actlog.otlp_span AS s WHERE s.trace_id = t.trace_id AND s.part = t.part ORDER BY s.id DESC LIMIT 1), 0)::bigint AS last_chunk
FROM unnest(@trace_ids::text[]) AS u (trace_id)
LEFT JOIN LATERAL (SELECT * FROM actlog.otlp_trace AS x WHERE x.trace_id = u.trace_id OFFSET 0) AS t ON true
LEFT JOIN LATERAL (
    SELECT x.part FROM actlog.plan_execution_record AS x WHERE x.root_plan_id = u.trace_id AND x.current_plan_id = u.trace_id OFFSET 0
) AS r ON true
LEFT JOIN LATERAL (
    SELECT p.root_plan_id
    FROM (
        SELECT x.root_plan_id, x.current_plan_id, x.origin, x.first_seen_at FROM actlog.plan_execution_record AS x WHERE x.trace_id = u.trace_id OFFSET 0
    ) AS p
    WHERE p.root_plan_id = p.current_plan_id AND p.origin = 'native'
        AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = p.root_plan_id AND o.plan_id = p.root_plan_id)
    ORDER BY p.root_plan_id = u.trace_id, p.first_seen_at, p.root_plan_id
    LIMIT 1
) AS n ON true;

-- name: TraceChunks :many
-- Returns the chunks of traces behind a chunk of each.
SELECT s.trace_id, s.spans
FROM unnest(@trace_ids::text[], @behind::bigint[]) AS u (trace_id, behind)
JOIN actlog.otlp_trace AS t ON t.trace_id = u.trace_id
JOIN actlog.otlp_span AS s ON s.trace_id = t.trace_id AND s.part = t.part AND s.id > u.behind
ORDER BY s.trace_id, s.id;

-- name: TraceRows :many
-- Returns kind and key of the rows in the trees of traces. A row is shared if a native record
-- has written to it, whether or not a trace has, too.
WITH home AS MATERIALIZED (
    SELECT p.root_plan_id, p.part
    FROM (
        SELECT unnest(@trace_ids::text[]) AS id
        UNION
        SELECT t.root_plan_id FROM actlog.otlp_trace AS t WHERE t.trace_id = ANY (@trace_ids::text[])
            AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = t.root_plan_id AND o.plan_id = t.root_plan_id)
        UNION
        SELECT n.root_plan_id
        FROM unnest(@trace_ids::text[]) AS q (id)
        CROSS JOIN LATERAL (
            SELECT x.root_plan_id, x.current_plan_id, x.origin FROM actlog.plan_execution_record AS x WHERE x.trace_id = q.id OFFSET 0
        ) AS n
        WHERE n.root_plan_id = n.current_plan_id AND n.origin = 'native'
            AND NOT EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = n.root_plan_id AND o.plan_id = n.root_plan_id)
    ) AS u
    CROSS JOIN LATERAL (
        SELECT x.root_plan_id, x.part FROM actlog.plan_execution_record AS x WHERE x.root_plan_id = u.id AND x.current_plan_id = u.id OFFSET 0
    ) AS p
)
SELECT r.kind::text AS kind, r.root_plan_id, r.parent::text AS parent, r.seq::bigint AS seq, r.id, r.shared::boolean AS shared
FROM home
CROSS JOIN LATERAL (
    SELECT 'plan' AS kind, p.root_plan_id, '' AS parent, 0::bigint AS seq, p.current_plan_id AS id, p.origin <> 'otlp' OR p.revs IS NOT NULL AS shared
    FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = home.root_plan_id
    UNION ALL
    SELECT 'agentExecution', a.root_plan_id, '', 0, a.step_id, a.origin <> 'otlp' OR a.revs IS NOT NULL
    FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = home.root_plan_id
    UNION ALL
    SELECT 'thinkAct', c.root_plan_id, c.step_id, c.seq, '', c.origin <> 'otlp' OR c.revs IS NOT NULL
    FROM actlog.think_act_record AS c WHERE c.root_plan_id = home.root_plan_id AND c.part = home.part
    UNION ALL
    SELECT 'actTool', c.root_plan_id, c.step_id, c.seq, c.tool_call_id, c.origin <> 'otlp' OR c.revs IS NOT NULL
    FROM actlog.act_tool_info AS c WHERE c.root_plan_id = home.root_plan_id AND c.part = home.part
    OFFSET 0
) AS r;

-- name: TraceShared :one
-- Returns whether a native record has written to any of some rows. Keys of plans have no step.
SELECT EXISTS (
    SELECT FROM unnest(@root_plan_ids::text[], @kinds::text[], @step_ids::text[], @seqs::bigint[], @ids::text[]) AS u (root_plan_id, kind, step_id, seq, id)
    CROSS JOIN LATERAL (
        SELECT p.origin, p.revs FROM actlog.plan_execution_record AS p
        WHERE u.kind = 'plan' AND p.root_plan_id = u.root_plan_id AND p.current_plan_id = u.id
        UNION ALL
        SELECT a.origin, a.revs FROM actlog.agent_execution_record AS a
        WHERE u.kind = 'agentExecution' AND a.root_plan_id = u.root_plan_id AND a.step_id = u.id
        UNION ALL
        SELECT c.origin, c.revs FROM actlog.think_act_record AS c
        WHERE u.kind = 'thinkAct' AND c.root_plan_id = u.root_plan_id AND c.step_id = u.step_id AND c.seq = u.seq AND c.part = @part::date
        UNION ALL
        SELECT c.origin, c.revs FROM actlog.act_tool_info AS c
        WHERE u.kind = 'actTool' AND c.root_plan_id = u.root_plan_id AND c.step_id = u.step_id AND c.seq = u.seq AND c.tool_call_id = u.id AND c.part = @part::date
        OFFSET 0
    ) AS r
    WHERE r.origin <> 'otlp' OR r.revs IS NOT NULL
) AS shared;

-- name: TraceKeep :exec
-- Counts the spans that arrived for traces, and notes which tree has their rows and when the
-- rows must be made again.
INSERT INTO actlog.otlp_trace AS t (trace_id, root_plan_id, spans, due_at, complete, projected)
SELECT u.trace_id, u.root_plan_id, u.spans, now() + make_interval(secs => u.due_seconds), u.complete, u.projected
FROM unnest(@trace_ids::text[], @root_plan_ids::text[], @spans::bigint[], @due_seconds::double precision[], @complete::boolean[], @projected::integer[])
    AS u (trace_id, root_plan_id, spans, due_seconds, complete, projected)
ORDER BY u.trace_id COLLATE "C"
ON CONFLICT (trace_id) DO UPDATE SET
    root_plan_id = excluded.root_plan_id,
    spans = t.spans + excluded.spans,
    last_seen_at = CASE WHEN excluded.spans > 0 THEN GREATEST(t.last_seen_at, excluded.last_seen_at) ELSE t.last_seen_at END,
    due_at = excluded.due_at,
    projected = excluded.projected;

-- name: TraceKeepSpans :many
-- Keeps chunks in the order of their places, and returns their ids.
INSERT INTO actlog.otlp_span (trace_id, part, spans)
SELECT u.trace_id, t.part, u.spans
FROM unnest(@trace_ids::text[], @spans::bytea[]) WITH ORDINALITY AS u (trace_id, spans, place)
LEFT JOIN actlog.otlp_trace AS t ON t.trace_id = u.trace_id
ORDER BY u.place
RETURNING trace_id, id;

-- name: TraceDue :many
-- Returns traces whose rows must be made again.
SELECT trace_id
FROM actlog.otlp_trace
WHERE due_at <= now()
ORDER BY due_at
LIMIT 100;

-- name: TraceRecall :exec
-- Makes the rows of traces due at once, because a native root plan names the traces.
UPDATE actlog.otlp_trace SET due_at = now() WHERE trace_id = ANY (@trace_ids::text[]);

-- name: TracePostpone :exec
-- Postpones a trace whose rows could not be made.
UPDATE actlog.otlp_trace SET due_at = now() + INTERVAL '1 hour' WHERE trace_id = @trace_id;

-- name: TraceForget :execrows
-- Deletes traces for which no span has arrived for trace_days, 1,000 at a time.
DELETE FROM actlog.otlp_trace
WHERE trace_id = ANY (ARRAY(
    SELECT t.trace_id
    FROM actlog.otlp_trace AS t
    WHERE t.part < (now() AT TIME ZONE 'utc')::date - @trace_days::integer
        AND t.last_seen_at < now() - make_interval(days => @trace_days::integer)
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
));

-- The next statements delete rows that the spans of a trace no longer make. A row stays if
-- there is anything below it that the trace did not write.

-- name: TraceDeleteActTools :many
-- moved: the call now stands elsewhere in its tree.
DELETE FROM actlog.act_tool_info AS t
USING unnest(@root_plan_ids::text[], @step_ids::text[], @seqs::bigint[], @tool_call_ids::text[], @moved::boolean[]) AS u (root_plan_id, step_id, seq, tool_call_id, moved),
    actlog.agent_execution_record AS a
WHERE a.root_plan_id = u.root_plan_id AND a.step_id = u.step_id
    AND t.root_plan_id = u.root_plan_id AND t.step_id = u.step_id AND t.seq = u.seq AND t.tool_call_id = u.tool_call_id AND t.part = a.part
    AND t.origin = 'otlp' AND t.revs IS NULL
    AND (u.moved OR NOT EXISTS (
        SELECT FROM actlog.plan_execution_record AS p
        WHERE p.root_plan_id = u.root_plan_id AND p.tool_call_id = u.tool_call_id AND (p.origin = 'native' OR p.revs IS NOT NULL)
        OFFSET 0
    ))
RETURNING t.root_plan_id;

-- name: TraceDeleteThinkActs :many
DELETE FROM actlog.think_act_record AS c
USING unnest(@root_plan_ids::text[], @step_ids::text[], @seqs::bigint[]) AS u (root_plan_id, step_id, seq),
    actlog.agent_execution_record AS a
WHERE a.root_plan_id = u.root_plan_id AND a.step_id = u.step_id
    AND c.root_plan_id = u.root_plan_id AND c.step_id = u.step_id AND c.seq = u.seq AND c.part = a.part
    AND c.origin = 'otlp' AND c.revs IS NULL
    AND NOT EXISTS (
        SELECT FROM actlog.act_tool_info AS t
        WHERE t.root_plan_id = c.root_plan_id AND t.step_id = c.step_id AND t.seq = c.seq AND t.part = c.part
        OFFSET 0
    )
RETURNING c.root_plan_id;

-- name: TraceDeleteSteps :many
DELETE FROM actlog.agent_execution_record AS a
USING unnest(@root_plan_ids::text[], @step_ids::text[]) AS u (root_plan_id, step_id)
WHERE a.root_plan_id = u.root_plan_id AND a.step_id = u.step_id AND a.origin = 'otlp' AND a.revs IS NULL
    AND NOT EXISTS (SELECT FROM actlog.think_act_record AS c WHERE c.root_plan_id = a.root_plan_id AND c.step_id = a.step_id AND c.part = a.part OFFSET 0)
    AND NOT EXISTS (SELECT FROM actlog.act_tool_info AS t WHERE t.root_plan_id = a.root_plan_id AND t.step_id = a.step_id AND t.part = a.part OFFSET 0)
RETURNING a.root_plan_id;

-- name: TraceDeletePlans :many
-- Call it for sub-plans first, then for roots: a statement still sees the rows that it deletes.
DELETE FROM actlog.plan_execution_record AS p
USING unnest(@root_plan_ids::text[], @plan_ids::text[]) AS u (root_plan_id, plan_id)
WHERE p.root_plan_id = u.root_plan_id AND p.current_plan_id = u.plan_id AND p.origin = 'otlp' AND p.revs IS NULL
    AND NOT EXISTS (SELECT FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = p.root_plan_id AND a.shown_plan_id = p.current_plan_id OFFSET 0)
    AND NOT EXISTS (SELECT FROM actlog.thought AS x WHERE x.root_plan_id = p.root_plan_id AND x.plan_id = p.current_plan_id OFFSET 0)
    AND NOT EXISTS (SELECT FROM actlog.artifact AS x WHERE x.root_plan_id = p.root_plan_id AND x.plan_id = p.current_plan_id OFFSET 0)
    AND NOT EXISTS (SELECT FROM actlog.source_reference AS x WHERE x.root_plan_id = p.root_plan_id AND x.plan_id = p.current_plan_id OFFSET 0)
    AND NOT EXISTS (SELECT FROM actlog.wait_state AS x WHERE x.root_plan_id = p.root_plan_id AND x.plan_id = p.current_plan_id OFFSET 0)
    AND NOT EXISTS (
        SELECT FROM actlog.plan_execution_record AS s
        WHERE s.root_plan_id = p.root_plan_id AND s.current_plan_id <> p.current_plan_id
            AND (p.root_plan_id = p.current_plan_id OR (s.origin = 'native' OR s.revs IS NOT NULL) AND s.parent_plan_id = p.current_plan_id)
        OFFSET 0
    )
RETURNING p.root_plan_id;
