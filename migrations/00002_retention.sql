-- Heartbeats, and the figures that stay when detail is dropped. docs/design.md explains how
-- they are used.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

-- Heartbeats. -------------------------------------------------------------------

ALTER TABLE actlog.plan_execution_record
    ADD COLUMN last_seen_at timestamptz,
    ADD COLUMN beat_at timestamptz,
    -- A sub-plan that is written while its tree is deleted must not outlive the tree.
    ADD CONSTRAINT plan_root FOREIGN KEY (root_plan_id, root_plan_id)
        REFERENCES actlog.plan_execution_record (root_plan_id, current_plan_id);
COMMENT ON COLUMN actlog.plan_execution_record.last_seen_at IS 'Latest heartbeat of the process that runs the plan, by the clock of that process; null: it sends none.';
COMMENT ON COLUMN actlog.plan_execution_record.beat_at IS 'When last_seen_at last advanced, by the clock of the database. If this is too old, the run counts as dead.';
-- Heartbeats change no column of these indexes, so they stay heap-only updates, which are cheap.
CREATE INDEX plan_live ON actlog.plan_execution_record (root_plan_id, part) WHERE NOT completed;
CREATE INDEX plan_sub ON actlog.plan_execution_record (part, root_plan_id, current_plan_id) WHERE tool_call_id IS NOT NULL;

-- Figures of dropped detail. -------------------------------------------------------

CREATE TABLE actlog.dropped_detail (
    from_day    date NOT NULL PRIMARY KEY,
    to_day      date NOT NULL,
    dropped_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE actlog.dropped_detail IS 'Periods whose cycles and tool calls were dropped. The roll-ups of the steps in such a period are final.';
COMMENT ON COLUMN actlog.dropped_detail.from_day IS 'First part of the period.';
COMMENT ON COLUMN actlog.dropped_detail.to_day IS 'First part after the period. Periods never overlap.';
COMMENT ON COLUMN actlog.dropped_detail.dropped_at IS 'When the detail was dropped.';

CREATE TABLE actlog.tool_daily (
    day          date NOT NULL,
    tool_name    text COLLATE "C" NOT NULL,
    server_name  text COLLATE "C" NOT NULL,
    project      text COLLATE "C" NOT NULL,
    calls        bigint NOT NULL,
    failures     bigint NOT NULL,
    total_ms     bigint NOT NULL,
    histogram    bigint[] NOT NULL,
    PRIMARY KEY (day, tool_name, server_name, project)
);
COMMENT ON TABLE actlog.tool_daily IS 'Figures of tool calls that were dropped, by day. Calls that are still on record are not counted here.';
COMMENT ON COLUMN actlog.tool_daily.day IS 'UTC day on which the calls began; if that is not known, ended; else the first day of their part.';
COMMENT ON COLUMN actlog.tool_daily.tool_name IS 'The tool; empty if it is not known.';
COMMENT ON COLUMN actlog.tool_daily.server_name IS 'The tool server; empty for tools without one.';
COMMENT ON COLUMN actlog.tool_daily.project IS 'The project of the plan, else of its root plan, else default.';
COMMENT ON COLUMN actlog.tool_daily.calls IS 'Tool calls.';
COMMENT ON COLUMN actlog.tool_daily.failures IS 'Tool calls that failed.';
COMMENT ON COLUMN actlog.tool_daily.total_ms IS 'Milliseconds spent in calls whose start and end are known.';
COMMENT ON COLUMN actlog.tool_daily.histogram IS 'Durations of those calls. Entry b (1 to 120) counts the calls that took at most 2^((b-1)/4) ms and longer than the bound of entry b-1; the last entry has no bound. See percentile_ms.';

-- +goose StatementBegin
CREATE FUNCTION actlog.duration_bucket(ms bigint) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN ms <= 1 THEN 1
        WHEN ms > 1 THEN LEAST(120, 1 + ceil(4 * ln(ms::double precision) / ln(2::double precision) - 1e-9))::integer
    END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.duration_bucket(bigint) IS 'The entry of a tool_daily histogram that counts a call of this many milliseconds.';

-- +goose StatementBegin
CREATE FUNCTION actlog.histogram(buckets integer[], counts bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(
        SELECT COALESCE(sum(u.n), 0)::bigint
        FROM generate_series(1, 120) AS b
        LEFT JOIN unnest(buckets, counts) AS u (bucket, n) ON u.bucket = b
        GROUP BY b ORDER BY b)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.histogram(integer[], bigint[]) IS 'Builds a histogram as in tool_daily from pairs of entry and count.';

-- +goose StatementBegin
CREATE FUNCTION actlog.add_histograms(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT COALESCE(u.x, 0) + COALESCE(u.y, 0) FROM unnest(a, b) WITH ORDINALITY AS u (x, y, i) ORDER BY u.i)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.add_histograms(bigint[], bigint[]) IS 'The sum of two histograms, entry by entry.';

-- +goose StatementBegin
CREATE FUNCTION actlog.percentile_ms(histogram bigint[], fraction double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT power(2, (e.b - 2 + (fraction * e.total - (e.upto - e.n)) / e.n) / 4)
    FROM (
        SELECT u.b, u.n, sum(u.n) OVER (ORDER BY u.b)::double precision AS upto, sum(u.n) OVER ()::double precision AS total
        FROM unnest(histogram) WITH ORDINALITY AS u (n, b)
    ) AS e
    WHERE e.n > 0 AND e.upto >= fraction * e.total
    ORDER BY e.b LIMIT 1
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.percentile_ms(bigint[], double precision) IS 'The percentile (0.95 for p95) of a histogram as in tool_daily, in milliseconds. The error is at most a fifth. Null for an empty histogram.';

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE actlog.tool_daily
            ALTER COLUMN tool_name SET COMPRESSION lz4, ALTER COLUMN server_name SET COMPRESSION lz4, ALTER COLUMN project SET COMPRESSION lz4;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- Finish dropping the partitions that are already detached.
-- +goose StatementBegin
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname LIKE 'dropping\_%' LOOP
        EXECUTE format('DROP TABLE %s', name);
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP FUNCTION actlog.percentile_ms(bigint[], double precision);
DROP FUNCTION actlog.add_histograms(bigint[], bigint[]);
DROP FUNCTION actlog.histogram(integer[], bigint[]);
DROP FUNCTION actlog.duration_bucket(bigint);
DROP TABLE actlog.tool_daily;
DROP TABLE actlog.dropped_detail;
DROP INDEX actlog.plan_sub;
DROP INDEX actlog.plan_live;
ALTER TABLE actlog.plan_execution_record
    DROP CONSTRAINT plan_root,
    DROP COLUMN beat_at,
    DROP COLUMN last_seen_at;
