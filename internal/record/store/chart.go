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

// chartSelects is what is read of the views of schema report, and from which.
var chartSelects = map[ChartBy][2]string{
	ByDay: {`(happened_at AT TIME ZONE 'UTC')::date::text AS name, count(*) AS count, count(*) FILTER (WHERE state = 'FAILED') AS failed,
    sum(total_input_tokens)::bigint AS input_tokens, sum(total_output_tokens)::bigint AS output_tokens, sum(total_cost_usd) AS cost_usd`, "duration_seconds"},
	ByModel: {`model_name AS name, count(*) AS count, count(*) FILTER (WHERE state = 'FAILED') AS failed,
    sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens, sum(cost_usd) AS cost_usd,
    count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced`, "think_seconds"},
	ByAgent: {`agent_name AS name, count(*) AS count, count(*) FILTER (WHERE state = 'FAILED') AS failed,
    sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens, sum(cost_usd) AS cost_usd`, "duration_seconds"},
	ByTool: {
		"tool_name AS name, count(*) AS count, count(*) FILTER (WHERE state = 'FAILED') AS failed", "duration_seconds",
	},
}

var chartViews = map[ChartBy]string{
	ByDay: "plan", ByModel: "think_act", ByAgent: "agent_execution", ByTool: "tool_call",
}

// chartSQL is the statement of a chart. value writes a value into it.
func chartSQL(by ChartBy, f ChartFilter, value func(any) string) string {
	conditions := []string{"happened_at >= " + value(f.Since)}
	if f.Until != nil {
		conditions = append(conditions, "happened_at < "+value(*f.Until))
	}
	if f.Project != "" {
		conditions = append(conditions, "project = "+value(f.Project))
	}

	order := fmt.Sprintf("count DESC, name\nLIMIT %d", chartRows)
	switch by {
	case ByDay:
		conditions, order = append([]string{"is_root"}, conditions...), "name"
	case ByModel: // a cycle of which only tool calls are on record is none
		conditions = append(conditions,
			"COALESCE(think_seconds, input_char_count, output_char_count, input_tokens, output_tokens) IS NOT NULL")
	}

	figures, seconds := chartSelects[by][0], chartSelects[by][1]
	return fmt.Sprintf(`SELECT %s,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY %s) AS p50_seconds,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY %[2]s) AS p95_seconds, count(*) OVER () AS groups
FROM report.%s
WHERE %s
GROUP BY 1
ORDER BY %s`, figures, seconds, chartViews[by], strings.Join(conditions, " AND "), order)
}

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
