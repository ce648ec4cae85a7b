package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
)

// ErrNoReports means that the role of the server may not read schema report.
var ErrNoReports = errors.New("the reports may not be read")

// ChartBy says by what the figures of a chart are told apart.
type ChartBy string

// What charts there are.
const (
	ByDay   ChartBy = "day"   // root plans, by the day in UTC on which they began
	ByModel ChartBy = "model" // model calls
	ByAgent ChartBy = "agent" // steps
	ByTool  ChartBy = "tool"  // tool calls
)

// ChartFilter says what counts in a chart.
type ChartFilter struct {
	Since   time.Time
	Until   *time.Time // nil: no end
	Project string     // empty: of all
	// Timeout is how long the chart may take. Default 10 s.
	Timeout time.Duration
}

// ChartRow is a row of a chart. A figure that is not known, or that there is none of, is nil.
type ChartRow struct {
	Name *string // a day such as 2026-11-20, or the name of a model, an agent or a tool
	// Count is how many runs, model calls, steps or tool calls there were, and Failed how many of them failed.
	Count, Failed             int64
	InputTokens, OutputTokens *int64
	CostUSD                   *float64
	Unpriced                  *int64 // model calls without a cost
	P50Seconds, P95Seconds    *float64
	Groups                    int64 // rows of the chart without a bound
}

// chartRows bounds the models, agents and tools of a chart; the others are counted.
const chartRows = 50

// What selects the calls of a chart one by one. A cycle of which only tool calls are on record is no call of a model.
const (
	modelCalls = `SELECT project, model_name, think_seconds, 1, (state = 'FAILED')::integer, input_tokens, output_tokens, cost_usd,
                (cost_usd IS NULL)::integer, happened_at
            FROM report.think_act
            WHERE COALESCE(think_seconds, input_char_count, output_char_count, input_tokens, output_tokens) IS NOT NULL`
	toolCalls = `SELECT project, tool_name, duration_seconds, 1, (state = 'FAILED')::integer, NULL::bigint, NULL::bigint,
                NULL::numeric, NULL::integer, happened_at
            FROM report.tool_call`
)

// chartSQL is the statement of a chart. value writes a value into it.
func chartSQL(by ChartBy, f ChartFilter, value func(any) string) string {
	switch by {
	case ByDay:
		return rowsChart("plan", "(happened_at AT TIME ZONE 'UTC')::date::text", "total_", "name", f, value)
	case ByAgent:
		return rowsChart("agent_execution", "agent_name", "", mostFirst, f, value)
	case ByModel:
		return daysChart("model", modelCalls, f, value)
	default:
		return daysChart("tool", toolCalls, f, value)
	}
}

var mostFirst = fmt.Sprintf("count DESC, name\nLIMIT %d", chartRows)

// rowsChart is a chart of plans or steps: few enough to read each of them. total begins the names of their figures.
func rowsChart(view, name, total, order string, f ChartFilter, value func(any) string) string {
	conditions := []string{"happened_at >= " + value(f.Since)}
	if f.Until != nil {
		conditions = append(conditions, "happened_at < "+value(*f.Until))
	}
	if f.Project != "" {
		conditions = append(conditions, "project = "+value(f.Project))
	}
	if view == "plan" {
		conditions = append(conditions, "is_root")
	}

	return fmt.Sprintf(`SELECT %s AS name, count(*) AS count, count(*) FILTER (WHERE state = 'FAILED') AS failed,
    sum(%[2]sinput_tokens)::bigint AS input_tokens, sum(%[2]soutput_tokens)::bigint AS output_tokens, sum(%[2]scost_usd) AS cost_usd,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_seconds) AS p50_seconds,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_seconds) AS p95_seconds, count(*) OVER () AS groups
FROM report.%[3]s
WHERE %[4]s
GROUP BY 1
ORDER BY %[5]s`, name, total, view, strings.Join(conditions, " AND "), order)
}

// daysChart is a chart of model calls or tool calls: of days that are closed by their figures, and of the time between
// them by the calls themselves. calls selects these.
func daysChart(kind, calls string, f ChartFilter, value func(any) string) string {
	const day = 24 * time.Hour
	first := f.Since.UTC().Truncate(day)
	if first.Before(f.Since) {
		first = first.Add(day)
	}

	since, from := value(f.Since), value(first)
	until, to := "'infinity'", "'infinity'"
	if f.Until != nil {
		until, to = value(*f.Until), value(f.Until.UTC().Truncate(day))
	}
	project := ""
	if f.Project != "" {
		project = "\n    WHERE c.project = " + value(f.Project)
	}
	return fmt.Sprintf(sqlOfDays, kind, from, to, since, until, calls, project, mostFirst)
}

// sqlOfDays is the statement of such a chart: its kind, the start of its first whole day and the end of its last one,
// its own start and end, what selects calls, the condition of a project, and the order.
const sqlOfDays = `SELECT name, sum(count)::bigint AS count, sum(failed)::bigint AS failed,
    sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens, sum(cost_usd) AS cost_usd,
    sum(unpriced)::bigint AS unpriced,
    min(seconds) FILTER (WHERE upto >= 0.5 * timed) AS p50_seconds,
    min(seconds) FILTER (WHERE upto >= 0.95 * timed) AS p95_seconds,
    count(*) OVER () AS groups
FROM (
    SELECT c.*, sum(c.count) FILTER (WHERE c.seconds IS NOT NULL) OVER (PARTITION BY c.name ORDER BY c.seconds) AS upto,
        sum(c.count) FILTER (WHERE c.seconds IS NOT NULL) OVER (PARTITION BY c.name) AS timed
    FROM (
        SELECT project, name, seconds, count, failed, input_tokens, output_tokens, cost_usd, unpriced, day AS happened_at
        FROM report.closed_day
        WHERE kind = '%s' AND day >= %s::timestamptz AND day < %s::timestamptz
        UNION ALL
        SELECT r.*
        FROM (
            SELECT GREATEST(since, %[2]s::timestamptz) AS since, LEAST(until, %[3]s::timestamptz) AS until
            FROM report.open_time
            UNION ALL
            VALUES (%[4]s::timestamptz, LEAST(%[2]s::timestamptz, %[5]s::timestamptz)),
                (GREATEST(%[2]s::timestamptz, %[3]s::timestamptz), %[5]s::timestamptz)
        ) AS o
        CROSS JOIN LATERAL (
            %[6]s
        ) AS r (project, name, seconds, count, failed, input_tokens, output_tokens, cost_usd, unpriced, happened_at)
        WHERE r.happened_at >= o.since AND r.happened_at < o.until
    ) AS c%[7]s
) AS t
GROUP BY name
ORDER BY %[8]s`

// ChartSQL returns the statement of a chart as anyone may run it who can read the reports.
func ChartSQL(by ChartBy, f ChartFilter) string {
	return chartSQL(by, f, func(v any) string {
		if t, ok := v.(time.Time); ok {
			v = t.UTC().Format(time.RFC3339Nano)
		}
		return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
	})
}

// Chart reads the figures of a chart from the views of schema report, with the statement that [ChartSQL] shows. The
// days come in their order, and else what there is most of comes first. The error is [ErrSlow] if that takes too long,
// and [ErrNoReports] if the role of the server must not.
func (r *Reader) Chart(ctx context.Context, by ChartBy, f ChartFilter) (rows []ChartRow, err error) {
	var args []any
	sql := chartSQL(by, f, func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	})

	deadline := time.Now().Add(cmp.Or(f.Timeout, listTimeout))

	rows, err = pg.Read(ctx, r.db, func() ([]ChartRow, error) {
		return collectBefore(ctx, r, deadline, customPlan, pgx.RowToStructByNameLax[ChartRow], sql, args...)
	})

	switch {
	case pg.Denied(err):
		return nil, ErrNoReports
	case err != nil && !errors.Is(err, ErrSlow):
		return nil, fmt.Errorf("read the figures by %s: %w", by, err)
	}
	return rows, err
}
