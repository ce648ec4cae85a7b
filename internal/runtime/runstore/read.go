package runstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// RunDetail is a run with what is on record of its plan.
type RunDetail struct {
	Plan      record.Plan
	Executor  string
	Name      *string
	Starter   string       // who began the tree; empty: not known
	State     record.State // see [RunSummary]
	Desired   Desired
	Done      bool
	Takeovers int64
	// PastAttempts are those before the present one, in their order.
	PastAttempts []record.Attempt
	AgainOf      *string // the run whose input it has, perhaps changed
	// RunForkedFrom is the run that it goes on from, RunForkedAt the first row of that which it makes anew; nil: none.
	RunForkedFrom, RunForkedAt *string
	// Priority is from 0 to 9, and ConcurrencyKey that of the start; nil: none.
	Priority       int64
	ConcurrencyKey *string
	CreatedAt      *time.Time
	UpdatedAt      *time.Time // when it was last started, claimed or ended
	// Figures are those of the plan itself. Total includes all plans below it.
	Figures, Total tree.Figures
	// Waits are those of the run, and of the runs below it, that a human may still decide, oldest first.
	Waits []*record.Wait
	// WaitingFor is what runs that are due need and no live worker provides, of the run and of those below it. If
	// each need is met by some worker but all of them by none, it is all of them. Models that are away come with why.
	// Of a run whose code does not fit its record it is <executor>:<name>@<release> with the release on which it last
	// went on, a blank, and what differs.
	WaitingFor []string
	// DueAt is when the run, or one below it, goes on at the latest without that something happens; nil: a worker
	// carries them, or none does so.
	DueAt *time.Time
	// StartAt is when the run may begin, ExpiresAt when it ends if nobody has begun it; nil: at once, and never.
	StartAt, ExpiresAt *time.Time
	// Schedule is that which started the run, TickAt the tick that did; nil: none did.
	Schedule *string
	TickAt   *time.Time
}

// RunSummary is a root run in a list. Its error is cut to 1,000 characters.
//
// The state is that of the plan, but for one that goes on: it is WAITING while the tree waits for a
// human and nothing in it goes on, PAUSED if that waits for other code, else RUNNING.
type RunSummary struct {
	Plan      record.Plan // with title, state of the record, times, error
	Executor  string
	Name      *string
	State     record.State
	Takeovers int64
	// Priority and ConcurrencyKey are as in [RunDetail].
	Priority       int64
	ConcurrencyKey *string
	CreatedAt      *time.Time
	// StartAt, ExpiresAt, Schedule and TickAt are as in [RunDetail].
	StartAt, ExpiresAt *time.Time
	Schedule           *string
	TickAt             *time.Time
}

// RunFilter narrows a list of root runs. Empty fields do not narrow it.
type RunFilter struct {
	State    record.State
	Executor string
	Name     string
	Project  string
	// ErrorKind is why it failed, or cannot go on.
	ErrorKind string
	// ConcurrencyKey is that of the start.
	ConcurrencyKey string
	Schedule       string
	// Before continues a list behind a run.
	Before *RunCursor
	// Limit bounds the list.
	Limit int
	// Timeout is how long the list may take. Default 10 s.
	Timeout time.Duration
}

// Narrows reports whether the filter asks for some runs only, so that all may have to be read to find them.
func (f RunFilter) Narrows() bool {
	return f != RunFilter{Before: f.Before, Limit: f.Limit, Timeout: f.Timeout}
}

// RunCursor is the place of a run in the list of all.
type RunCursor struct {
	CreatedAt time.Time
	PlanID    string
}

// newest is before all runs of the list.
var newest = RunCursor{CreatedAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), PlanID: "\U0010FFFF"}

// Of the run r, whose plan is p. below says which runs x of its tree count: itself and those below it.
const (
	runErrorKind = `COALESCE(p.error_kind, CASE WHEN NOT r.done AND r.mismatch IS NOT NULL THEN '` + RecordMismatch + `' END)`

	runState = `CASE
        WHEN NOT r.done AND p.state = 'PAUSED' AND r.desired = 'RUN' AND r.first_claimed_at IS NULL THEN 'PENDING'
        WHEN r.done OR p.state = 'PENDING' THEN p.state
        WHEN p.state IN ('RUNNING', 'WAITING') AND EXISTS (
            SELECT FROM actlog.run AS x
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND (x.worker_id IS NOT NULL OR x.due_at <= now() AND x.mismatch IS NULL)
                AND %[1]s
        ) THEN 'RUNNING'
        WHEN EXISTS (SELECT FROM actlog.run AS x WHERE x.root_plan_id = r.root_plan_id AND ` + isBlocked + ` AND %[1]s) THEN 'PENDING'
        WHEN p.state NOT IN ('RUNNING', 'WAITING') THEN p.state
        WHEN EXISTS (
            SELECT FROM actlog.run AS x
            JOIN actlog.wait_state AS w ON w.root_plan_id = x.root_plan_id AND w.plan_id = x.plan_id
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND ` + store.IsOpenWait + ` AND %[1]s
        ) OR EXISTS (
            SELECT FROM actlog.run AS x
            JOIN actlog.event_wait AS w ON w.root_plan_id = x.root_plan_id AND w.plan_id = x.plan_id
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND %[1]s
        ) THEN 'WAITING'
        WHEN EXISTS (
            SELECT FROM actlog.run AS x
            JOIN actlog.model_wait AS w ON w.root_plan_id = x.root_plan_id AND w.plan_id = x.plan_id
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND %[1]s
        ) OR EXISTS (
            SELECT FROM actlog.run AS x WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.mismatch IS NOT NULL AND %[1]s
        ) THEN 'PAUSED'
        ELSE p.state
    END`
	// isBlocked says that a run x waits for a place.
	isBlocked = `x.blocked IS NOT NULL AND x.due_at IS NULL AND x.worker_id IS NULL AND NOT x.done`
	// nextDay is when the next day begins, in UTC.
	nextDay = `(date_trunc('day', now(), 'UTC') + INTERVAL '1 day')`
	// waitingFor is what runs that are due need, without a live worker all of that, the models that are awaited, the
	// code that fits the record of runs, the time at which a run is to begin, the schedule whose other runs come first,
	// and the events and times for which tool calls wait.
	waitingFor = `(
        SELECT array_agg(DISTINCT f.what ORDER BY f.what)
        FROM (
            SELECT n.need AS what
            FROM actlog.run AS x
            CROSS JOIN LATERAL unnest(x.needs) AS n (need)
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.worker_id IS NULL AND x.due_at <= now() AND %[1]s
                AND NOT EXISTS (SELECT FROM live AS l WHERE x.needs <@ l.provides)
                AND (NOT EXISTS (SELECT FROM live AS l WHERE n.need = ANY (l.provides))
                    OR NOT EXISTS (SELECT FROM unnest(x.needs) AS o (need) WHERE NOT EXISTS (SELECT FROM live AS l WHERE o.need = ANY (l.provides))))
                AND n.need NOT LIKE 'release:%%'
            UNION ALL
            SELECT 'model:' || w.model || ' is away since ' || to_char(COALESCE(m.since, w.since) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                || ': ' || w.error_kind || ': ' || left(w.error_message, 300)
            FROM actlog.run AS x
            JOIN actlog.model_wait AS w ON w.root_plan_id = x.root_plan_id AND w.plan_id = x.plan_id
            LEFT JOIN actlog.model_away AS m ON m.model = w.model
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.worker_id IS NULL AND x.desired = 'RUN' AND %[1]s
            UNION ALL
            SELECT CASE WHEN left(x.blocked, 4) = 'key:' THEN 'key:' || COALESCE(k.concurrency_key, '') ELSE x.blocked END
                || COALESCE(' has ' || q.taken || ' of ' || q.most, '')
                || COALESCE(' has spent ' || trim_scale(round(d.cost_usd, 6)) || ' of ' || trim_scale(round(d.budget_usd::numeric, 6))
                    || ' US dollars today, the next day begins at ' || to_char(` + nextDay + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
            FROM actlog.run AS x
            LEFT JOIN actlog.run AS k ON k.root_plan_id = x.root_plan_id AND k.plan_id = x.root_plan_id
            LEFT JOIN actlog.place AS q ON q.place = x.blocked
            LEFT JOIN actlog.project_day AS d ON x.blocked = 'budget:' || d.project AND d.day = (now() AT TIME ZONE 'UTC')::date
            WHERE x.root_plan_id = r.root_plan_id AND ` + isBlocked + ` AND %[1]s
            UNION ALL
            SELECT x.executor || ':' || COALESCE(x.name, '') || '@' || COALESCE(x.release, '') || ' ' || x.mismatch
            FROM actlog.run AS x
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.mismatch IS NOT NULL AND %[1]s
            UNION ALL
            SELECT 'time:' || to_char(x.start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            FROM actlog.run AS x
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.first_claimed_at IS NULL AND x.desired = 'RUN' AND x.start_at > now() AND %[1]s
            UNION ALL
            SELECT 'schedule:' || x.schedule
            FROM actlog.run AS x
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.queued AND x.desired = 'RUN' AND %[1]s
            UNION ALL
            SELECT t.what
            FROM actlog.run AS x
            JOIN actlog.event_wait AS w ON w.root_plan_id = x.root_plan_id AND w.plan_id = x.plan_id
            CROSS JOIN LATERAL (VALUES
                ('event:' || w.key), ('time:' || to_char(w.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
            ) AS t (what)
            WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.worker_id IS NULL AND x.desired = 'RUN' AND t.what IS NOT NULL AND %[1]s
        ) AS f
    )`
	// dueAt is when the first of them goes on: what waits for a model, when that is asked next; what waits for a budget,
	// on the next day.
	dueAt = `(
        SELECT min(COALESCE((
            SELECT min(m.probe_at)
            FROM actlog.model_wait AS w
            JOIN actlog.model_away AS m ON m.model = w.model
            WHERE w.root_plan_id = x.root_plan_id AND w.plan_id = x.plan_id AND x.desired = 'RUN'
        ), CASE WHEN left(x.blocked, 7) = 'budget:' AND ` + isBlocked + ` THEN ` + nextDay + ` ELSE x.due_at END))
        FROM actlog.run AS x
        WHERE x.root_plan_id = r.root_plan_id AND NOT x.done AND x.worker_id IS NULL AND %[1]s
    )`
	liveWorkers = `live AS MATERIALIZED (
    SELECT w.provides FROM actlog.worker AS w WHERE w.lease_until > now() AND w.stopped_at IS NULL
)`
)

// The kinds of the rows of runDetail.
const (
	rowRun     = record.KindPlan
	rowWait    = record.KindWait
	rowFigures = record.KindAgentExecution
)

// runDetail reads a run: its plan, the open waits of the runs below it, and figures, twice: of the plan and
// of all below it. $1 is the plan. As in [Store.Control], it is the newest run of that id.
var runDetail = fieldsql.Union(`WITH RECURSIVE asked AS MATERIALIZED (
    SELECT r.root_plan_id, r.plan_id FROM actlog.run AS r WHERE r.plan_id = $1::text ORDER BY r.created_at DESC LIMIT 1
),
below AS (
    SELECT a.root_plan_id, a.plan_id FROM asked AS a
    UNION
    SELECT x.root_plan_id, x.plan_id
    FROM below AS b
    CROSS JOIN LATERAL (
        SELECT r.root_plan_id, r.plan_id FROM actlog.run AS r WHERE r.root_plan_id = b.root_plan_id AND r.parent_plan_id = b.plan_id OFFSET 0
    ) AS x
),
`+liveWorkers+"\n",
	fieldsql.Section{
		Kind: rowRun,
		Columns: append(fieldsql.Readable(record.KindPlan, "p"),
			fieldsql.Column{Name: "run_executor", Type: "text", SQL: "r.executor"},
			fieldsql.Column{Name: "run_name", Type: "text", SQL: "r.name"},
			fieldsql.Column{Name: "starter", Type: "text", SQL: "r.starter"},
			fieldsql.Column{Name: "run_state", Type: "text", SQL: fmt.Sprintf(runState, inBelow)},
			fieldsql.Column{Name: "run_desired", Type: "text", SQL: "r.desired"},
			fieldsql.Column{Name: "run_done", Type: "boolean", SQL: "r.done"},
			fieldsql.Column{Name: "run_mismatch", Type: "text", SQL: "CASE WHEN NOT r.done THEN r.mismatch END"},
			fieldsql.Column{Name: "takeovers", Type: "bigint", SQL: "r.takeovers::bigint"},
			fieldsql.Column{Name: "run_attempts", Type: "jsonb", SQL: "p.attempts"},
			fieldsql.Column{Name: "again_of", Type: "text", SQL: "r.again_of"},
			fieldsql.Column{Name: "run_forked_from", Type: "text", SQL: "r.forked_from"},
			fieldsql.Column{Name: "run_forked_at", Type: "text", SQL: "r.forked_at"},
			fieldsql.Column{Name: "priority", Type: "bigint", SQL: "r.priority::bigint"},
			fieldsql.Column{Name: "concurrency_key", Type: "text", SQL: "r.concurrency_key"},
			fieldsql.Column{Name: "created_at", Type: "timestamptz", SQL: "r.created_at"},
			fieldsql.Column{Name: "updated_at", Type: "timestamptz", SQL: "GREATEST(r.created_at, r.claimed_at, r.done_at)"},
			fieldsql.Column{Name: "waiting_for", Type: "text[]", SQL: fmt.Sprintf(waitingFor, inBelow)},
			fieldsql.Column{Name: "due_at", Type: "timestamptz", SQL: fmt.Sprintf(dueAt, inBelow)},
			fieldsql.Column{Name: "start_at", Type: "timestamptz", SQL: "r.start_at"},
			fieldsql.Column{Name: "expires_at", Type: "timestamptz", SQL: "r.expires_at"},
			fieldsql.Column{Name: "schedule", Type: "text", SQL: "r.schedule"},
			fieldsql.Column{Name: "tick_at", Type: "timestamptz", SQL: "r.tick_at"}),
		From: `FROM asked AS a
JOIN actlog.run AS r ON r.root_plan_id = a.root_plan_id AND r.plan_id = a.plan_id
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id`,
	},
	fieldsql.Section{
		Kind:    rowWait,
		Columns: fieldsql.Readable(record.KindWait, "w"),
		From: `FROM asked AS a
JOIN actlog.wait_state AS w ON w.root_plan_id = a.root_plan_id
JOIN actlog.run AS x ON x.root_plan_id = w.root_plan_id AND x.plan_id = w.plan_id
WHERE NOT x.done AND ` + store.IsOpenWait + ` AND ` + inBelow,
	},
	fieldsql.Section{
		Kind:    rowFigures,
		Columns: append(sums(), fieldsql.Column{Name: "whole_tree", Type: "boolean", SQL: "v.whole_tree"}),
		From: `FROM asked AS a
CROSS JOIN (VALUES (false), (true)) AS v (whole_tree)
JOIN actlog.agent_execution_record AS s ON s.root_plan_id = a.root_plan_id AND (
    s.shown_plan_id = a.plan_id OR v.whole_tree AND (a.plan_id = a.root_plan_id OR s.shown_plan_id IN (SELECT b.plan_id FROM below AS b))
)
GROUP BY v.whole_tree`,
	},
)

// inBelow selects the runs x of a tree that are the run a or below it. Of a root these are all, which needs
// no recursion. OR makes Postgres hash the others.
const inBelow = `(a.plan_id = a.root_plan_id OR x.plan_id IN (SELECT b.plan_id FROM below AS b))`

// sums are the figures of the steps s, summed up.
func sums() (columns []fieldsql.Column) {
	for _, name := range []string{
		"model_calls", "tool_calls", "failures", "input_tokens", "output_tokens", "cache_read_input_tokens",
		"cache_creation_input_tokens", "reasoning_tokens", "think_ms", "tool_ms",
	} {
		columns = append(columns, fieldsql.Column{
			Name: name, Type: "bigint", SQL: "COALESCE(sum(s." + name + "), 0)::bigint",
		})
	}
	return append(columns, fieldsql.Column{Name: "cost_usd", Type: "double precision", SQL: "sum(s.cost_usd)"})
}

type runColumns struct {
	RunExecutor string
	RunName     *string
	RunState    string
	RunDesired  string
	RunDone     bool
	RunMismatch *string
	RunAttempts json.RawMessage
}

// RecordMismatch is the error kind of a run whose code does other things than are on record. It has not failed: it
// waits for other code.
const RecordMismatch = "record_mismatch"

// explain sets the error of a plan whose run waits for other code.
func (c *runColumns) explain(p *record.Plan) {
	if c.RunMismatch != nil && p.ErrorKind == nil {
		p.ErrorKind, p.ErrorMessage = new(RecordMismatch), c.RunMismatch
	}
}

// RunDetail reads a run, in one statement. The error is [record.ErrNotFound] if there is no run of that
// plan.
func (r *Reader) RunDetail(ctx context.Context, planID string) (*RunDetail, error) {
	d, err := pg.Read(ctx, r.DB(), func() (*RunDetail, error) { return r.runDetail(ctx, planID) })
	if err == nil && d.Executor == "" {
		err = record.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", planID, err)
	}
	return d, nil
}

func (r *Reader) runDetail(ctx context.Context, planID string) (*RunDetail, error) {
	rows, err := r.Query(ctx, runDetail.SQL, planID)
	if err != nil {
		return nil, err
	}

	d, run := new(RunDetail), new(runColumns)
	var sum tree.Figures
	of := new(struct{ WholeTree *bool })
	err = runDetail.Rows(rows, func(kind record.Kind) ([]any, error) {
		switch kind {
		case rowRun:
			return []any{&d.Plan, run, d}, nil
		case rowWait:
			d.Waits = append(d.Waits, new(record.Wait))
			return []any{d.Waits[len(d.Waits)-1]}, nil
		default:
			sum = tree.Figures{}
			return []any{of, &sum}, nil
		}
	}, func() error {
		if of.WholeTree != nil {
			*map[bool]*tree.Figures{false: &d.Figures, true: &d.Total}[*of.WholeTree] = sum
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	d.Executor, d.Name = run.RunExecutor, run.RunName
	d.State, d.Desired = record.State(run.RunState), Desired(run.RunDesired)
	d.Done = run.RunDone
	run.explain(&d.Plan)
	if d.PastAttempts, err = field.PastAttempts(record.KindPlan, run.RunAttempts); err != nil {
		return nil, err
	}
	d.Figures.DurationMs = tree.Duration(d.Plan.StartTime, d.Plan.EndTime)
	d.Total.DurationMs = d.Figures.DurationMs

	slices.SortFunc(d.Waits, func(a, b *record.Wait) int {
		if c := tree.CompareNullsLast(a.StartTime, b.StartTime, time.Time.Compare); c != 0 {
			return c
		}
		return strings.Compare(a.PlanID+" "+a.WaitID, b.PlanID+" "+b.WaitID)
	})
	return d, nil
}

// runList reads root runs, newest first, behind a cursor. With a state it may read many: then its plan
// depends on the filter.
var runList = fieldsql.NewRead(`SELECT
    ` + fieldsql.Select(append(fieldsql.Only(fieldsql.Readable(record.KindPlan, "p"), "root_plan_id", "current_plan_id", "start_time", "end_time", "error_kind"),
	fieldsql.Column{Name: "title", SQL: "left(p.title, 1000)"},
	fieldsql.Column{Name: "error_message", SQL: "left(p.error_message, 1000)"},
	fieldsql.Column{Name: "run_executor", SQL: "r.executor"},
	fieldsql.Column{Name: "run_name", SQL: "r.name"},
	fieldsql.Column{Name: "run_state", SQL: fmt.Sprintf(runState, "true")},
	fieldsql.Column{Name: "run_mismatch", SQL: "CASE WHEN NOT r.done THEN left(r.mismatch, 1000) END"},
	fieldsql.Column{Name: "takeovers", SQL: "r.takeovers::bigint"},
	fieldsql.Column{Name: "priority", SQL: "r.priority::bigint"},
	fieldsql.Column{Name: "concurrency_key", SQL: "r.concurrency_key"},
	fieldsql.Column{Name: "created_at", SQL: "r.created_at"},
	fieldsql.Column{Name: "start_at", SQL: "r.start_at"},
	fieldsql.Column{Name: "expires_at", SQL: "r.expires_at"},
	fieldsql.Column{Name: "schedule", SQL: "r.schedule"},
	fieldsql.Column{Name: "tick_at", SQL: "r.tick_at"})) + `
FROM actlog.run AS r
CROSS JOIN LATERAL ( -- one by one, in the order of the list
    SELECT * FROM actlog.plan_execution_record AS y WHERE y.root_plan_id = r.root_plan_id AND y.current_plan_id = r.plan_id OFFSET 0
) AS p
WHERE r.plan_id = r.root_plan_id AND (r.created_at, r.plan_id) < ($1::timestamptz, $2::text)
    AND ($3::text IS NULL OR r.executor = $3::text)
    AND ($4::text IS NULL OR r.name = $4::text)
    AND ($5::text IS NULL OR r.done = $6::boolean AND ` + fmt.Sprintf(runState, "true") + ` = $5::text)
    AND ($8::text IS NULL OR r.concurrency_key = $8::text)
    AND ($9::text IS NULL OR r.schedule = $9::text)
    AND ($10::text IS NULL OR r.project = $10::text)
    AND ($11::text IS NULL OR ` + runErrorKind + ` = $11::text)
ORDER BY r.created_at DESC, r.plan_id DESC
LIMIT $7::integer`)

// Runs lists root runs, newest first. The error is [store.ErrSlow] if the filter scans too many.
func (r *Reader) Runs(ctx context.Context, f RunFilter) ([]RunSummary, error) {
	before := newest
	if f.Before != nil {
		before = *f.Before
	}
	if f.Timeout == 0 {
		f.Timeout = 10 * time.Second
	}

	args := []any{
		before.CreatedAt, before.PlanID, optional.Pointer(f.Executor), optional.Pointer(f.Name),
		optional.Pointer(string(f.State)), f.State.Terminal(),
		int32(f.Limit), optional.Pointer(f.ConcurrencyKey), optional.Pointer(f.Schedule),
		optional.Pointer(f.Project), optional.Pointer(f.ErrorKind),
	}

	deadline := time.Now().Add(f.Timeout)
	runs, err := pg.Read(ctx, r.DB(), func() (runs []RunSummary, err error) {
		err = r.QueryBefore(ctx, deadline, "force_custom_plan", runList.SQL, args, func(rows pgx.Rows) error {
			runs = []RunSummary{}
			run := new(runColumns)
			return runList.Rows(rows, func(record.Kind) ([]any, error) {
				runs, *run = append(runs, RunSummary{}), runColumns{}
				s := &runs[len(runs)-1]
				return []any{&s.Plan, run, s}, nil
			}, func() error {
				s := &runs[len(runs)-1]
				s.Executor, s.Name = run.RunExecutor, run.RunName
				s.State = record.State(run.RunState)
				run.explain(&s.Plan)
				return nil
			})
		})
		return runs, err
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// RunWait returns the place of a wait of a run, or of a run below it: the open one, if several have the
// id. The error is [record.ErrNotFound] if there is none, and [ErrDecided] if the run that waited has
// ended.
func (r *Reader) RunWait(ctx context.Context, planID, waitID string) (record.Key, error) {
	row, err := read(ctx, r.DB(), queries.RunWait, db.RunWaitParams{PlanID: planID, WaitID: waitID})
	if err != nil {
		return record.Key{}, fmt.Errorf("find wait %s of run %s: %w", waitID, planID, err)
	}

	if row.Done {
		return record.Key{}, ErrDecided
	}
	return record.Key{Kind: record.KindWait, Root: row.RootPlanID, Parent: row.PlanID, ID: waitID}, nil
}

// Standing is how a run stands.
type Standing struct {
	Desired Desired
	Done    bool // it has ended
	// Mismatched says that the code of the last worker did other things than are on record.
	Mismatched bool
	AgainOf    string // the run whose input it has, perhaps changed; empty: none
	ForkedFrom string // the run that it goes on from; empty: none
}

// RunStands returns how a run stands. The error is [record.ErrNotFound] if the plan is not that of a run of the
// runtime. An empty root means any, else another tree has no such run.
func (r *Reader) RunStands(ctx context.Context, rootPlanID, planID string) (Standing, error) {
	row, err := read(ctx, r.DB(), queries.RunStands, planID)
	switch {
	case err != nil:
		return Standing{}, fmt.Errorf("read how run %s stands: %w", planID, err)
	case rootPlanID != "" && row.RootPlanID != rootPlanID:
		return Standing{}, record.ErrNotFound
	}
	return Standing{
		Desired: Desired(row.Desired), Done: row.Done, Mismatched: row.Mismatched, AgainOf: optional.Value(row.AgainOf),
		ForkedFrom: optional.Value(row.ForkedFrom),
	}, nil
}

// RunHadForm reports whether a run, or a run below it, ever showed a form.
func (r *Reader) RunHadForm(ctx context.Context, planID string) (bool, error) {
	had, err := read(ctx, r.DB(), queries.RunHadForm, planID)
	if err != nil {
		return false, fmt.Errorf("look for forms of run %s: %w", planID, err)
	}
	return had, nil
}

// RunDefinition is the definition of a run.
type RunDefinition struct {
	Body    json.RawMessage
	Changes json.RawMessage // of it; nil: none
}

// RunDefinition returns the definition of a run. The error is [record.ErrNotFound] if it has none.
func (r *Reader) RunDefinition(ctx context.Context, rootPlanID, planID string) (RunDefinition, error) {
	row, err := read(ctx, r.DB(), queries.RunDefinition, db.RunDefinitionParams{RootPlanID: rootPlanID, PlanID: planID})
	if err != nil {
		return RunDefinition{}, fmt.Errorf("read the definition of run %s: %w", planID, err)
	}
	return RunDefinition{row.Body, row.Changes}, nil
}
