package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

var (
	forever   = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	beginning = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastOfAll = "\U0010FFFF"
)

// ErrSlow means that a list was given up because it took too long.
var ErrSlow = errors.New("the list takes too long")

// PlanCursor is the place of a plan in the list of all.
type PlanCursor struct {
	// BeganAt is when the plan started or, if that is not known, was first seen: as the reports count.
	BeganAt    time.Time
	RootPlanID string
}

// compareCursors orders places; later plans are greater.
func compareCursors(a, b PlanCursor) int {
	return cmp.Or(a.BeganAt.Compare(b.BeganAt), strings.Compare(a.RootPlanID, b.RootPlanID))
}

// PlanSummary is a root plan in a list, with the figures of its whole tree. Its texts are cut to
// 1,000 characters. It has no request, summary and metadata.
type PlanSummary struct {
	ID          int64
	Record      record.Plan
	Placeholder bool // see [tree.Plan]
	Truncated   []string
	Cursor      PlanCursor
	Steps       int64
	Total       tree.Figures
	// LastSignOfLife is that of [tree.Plan].
	LastSignOfLife *time.Time
	// Agent is the agent of its first step; nil: no step names one.
	Agent *string
	Cause
}

type causeColumns struct{ CauseDocument, CauseRows json.RawMessage }

var planListRead = fieldsql.NewRead(db.PlanList)

// listPlans reads a page of root plans. Postgres makes a query plan for these filters each time (force_custom_plan): a
// generic one is slow for rare values.
func (r *Reader) listPlans(
	ctx context.Context, params db.PlanListParams, deadline time.Time,
) (plans []PlanSummary, err error) {
	args := []any{params.Found, params.BeforeTime, params.BeforeID, params.AfterTime, params.AfterID, params.State,
		params.Project, params.Name, params.UserID, params.ConversationID, params.StartedBy, params.Tag, params.Agent,
		params.MinMs, params.MaxMs, params.MinCost, params.MaxCost, params.Failed, params.Model, params.Tool, params.PageSize}

	err = r.QueryBefore(ctx, deadline, "force_custom_plan", planListRead.SQL, args, func(rows pgx.Rows) error {
		plans = []PlanSummary{}
		var p *PlanSummary
		var more causeColumns
		return planListRead.Rows(rows, func(record.Kind) ([]any, error) {
			plans = append(plans, PlanSummary{})
			p, more = &plans[len(plans)-1], causeColumns{}
			return []any{&p.Record, &p.Cursor, p, &p.Total, &more}, nil
		}, func() error {
			p.Record.CurrentPlanID, p.Cursor.RootPlanID = p.Record.RootPlanID, p.Record.RootPlanID
			p.Truncated = field.StillCut(&p.Record, p.Truncated)
			p.Total.DurationMs = tree.Duration(p.Record.StartTime, p.Record.EndTime)

			// A run whose rows cannot be read is listed without a cause. Upkeep logs why.
			if cause, err := causeOf(p.Record.RootPlanID, more.CauseDocument, more.CauseRows); err == nil {
				p.Cause = cause
			}
			return nil
		})
	})
	return plans, err
}

// How Postgres plans a statement, as settings of a transaction: for the given values, or once for any.
const (
	customPlan  = "set_config('plan_cache_mode', 'force_custom_plan', true)"
	genericPlan = "set_config('plan_cache_mode', 'force_generic_plan', true)"
)

// collectBefore reads the rows of a query that has to end before a deadline, with settings as beforeWith has them.
func collectBefore[T any](
	ctx context.Context, r *Reader, deadline time.Time, settings string, row pgx.RowToFunc[T], sql string, args ...any,
) (out []T, err error) {
	err = r.beforeWith(ctx, deadline, settings, sql, args, func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, row)
		return err
	})
	return out, err
}

// QueryBefore runs a query that has to end before a deadline, in one round trip: a batch is a
// transaction. The error is [ErrSlow] if it does not.
func (r *Reader) QueryBefore(
	ctx context.Context, deadline time.Time, planned, sql string, args []any, read func(pgx.Rows) error,
) error {
	return r.beforeWith(ctx, deadline, "set_config('plan_cache_mode', '"+planned+"', true)", sql, args, read)
}

// beforeWith is QueryBefore with settings of the transaction: calls of set_config.
func (r *Reader) beforeWith(
	ctx context.Context, deadline time.Time, settings, sql string, args []any, read func(pgx.Rows) error,
) error {
	left := time.Until(deadline)
	if left < time.Millisecond {
		return ErrSlow
	}

	var q pgx.Batch
	q.Queue("SELECT "+settings+", set_config('statement_timeout', $1, true)", strconv.FormatInt(left.Milliseconds(), 10))
	q.Queue(sql, args...).Query(read)

	err := r.db.Send(ctx, &q)
	if pg.TimedOut(err) && ctx.Err() == nil {
		return ErrSlow
	}
	return err
}
