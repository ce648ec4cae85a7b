package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// planTree reads everything that the hierarchy of a plan needs, in one statement, flat: its
// plans, its steps with their roll-ups, the tool calls that started sub-plans, and the open
// waits. The plan that was asked for also has the last tool result, if it is completed. $1 is
// the plan's id. $2 is the part: as a parameter, it keeps Postgres from opening the other
// partitions. The caller compares it with the part of the plans. $3 is the root, or NULL.
var planTree = planRead(
	fieldsql.Section{
		Kind: record.KindPlan,
		Columns: append(fieldsql.Readable(record.KindPlan, "p"),
			fieldsql.Column{Name: "part", Type: "date", SQL: "p.part"},
			fieldsql.Column{Name: "parent_step_id", Type: "text", SQL: "p.parent_step_id"},
			fieldsql.Column{Name: "exception_waits", Type: "boolean", SQL: exceptionWaits},
			fieldsql.Column{Name: "placeholder", Type: "boolean", SQL: "actlog.is_placeholder(p)"},
			fieldsql.Column{Name: "last_attached_at", Type: "timestamptz", SQL: lastAttachedAt},
			fieldsql.Column{
				Name: "also_under", Type: "text[]",
				SQL: "CASE WHEN p.current_plan_id = $1::text THEN (SELECT also_under FROM asked) END",
			},
			fieldsql.Column{Name: "structure_result", Type: "text", SQL: structureResult}),
		From: `FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)`,
	},
	fieldsql.Section{
		Kind: record.KindAgentExecution,
		Columns: append(fieldsql.Readable(record.KindAgentExecution, "a"),
			fieldsql.Column{Name: "last_seen_at", Type: "timestamptz", SQL: "a.last_seen_at"}),
		From: `FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked)`,
	},
	fieldsql.Section{
		Kind:    record.KindActTool,
		Columns: fieldsql.Readable(record.KindActTool, "t"),
		From: `FROM actlog.plan_execution_record AS p
CROSS JOIN LATERAL (
    SELECT *
    FROM actlog.act_tool_info AS c
    WHERE c.root_plan_id = p.root_plan_id AND c.tool_call_id = p.tool_call_id AND c.part = $2::date
    OFFSET 0 -- a plan made while the table was small would scan all calls of the tree
) AS t
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)`,
	},
	// The condition is state = 'WAITING', but not by name: of that there is an index of all trees, which a plan made while
	// few runs waited would read.
	fieldsql.Section{
		Kind: record.KindWait,
		Columns: fieldsql.Only(fieldsql.Readable(record.KindWait, "w"),
			"root_plan_id", "plan_id", "wait_id", "type", "title", "form_description", "form_inputs", "start_time"),
		From: `FROM actlog.wait_state AS w
WHERE w.root_plan_id = (SELECT root_plan_id FROM asked) AND COALESCE(w.told_state, 'WAITING') = 'WAITING' AND w.forked_from IS NULL`,
	},
)

const (
	exceptionWaits = `p.exception IS NOT NULL AND p.exception_served_at IS NULL AND p.state <> 'COMPLETED' AND p.exception_at > now() - INTERVAL '10 minutes'`
	// lastAttachedAt is the latest time of the waits and thoughts of a plan. It is not read once all plans of
	// the tree have ended.
	lastAttachedAt = `CASE WHEN EXISTS (SELECT FROM actlog.plan_execution_record AS l WHERE l.root_plan_id = (SELECT root_plan_id FROM asked) AND NOT l.completed) THEN GREATEST(
        (SELECT max(GREATEST(w.start_time, w.end_time)) FROM actlog.wait_state AS w WHERE w.root_plan_id = p.root_plan_id AND w.plan_id = p.current_plan_id),
        (SELECT max(h.time) FROM actlog.thought AS h WHERE h.root_plan_id = p.root_plan_id AND h.plan_id = p.current_plan_id)
    ) END`
	// structureResult is the last tool result of the last step.
	structureResult = `CASE WHEN p.completed AND p.current_plan_id = $1::text THEN (
        SELECT z.result
        FROM (
            SELECT s.step_id, s.latest_round
            FROM actlog.agent_execution_record AS s
            WHERE s.root_plan_id = p.root_plan_id AND s.shown_plan_id = p.current_plan_id
            ORDER BY s.step_index DESC NULLS FIRST, LEAST(s.start_time, actlog.first_start(s.attempts)) DESC NULLS FIRST, s.step_id DESC
            LIMIT 1
        ) AS step
        JOIN actlog.act_tool_info AS z ON z.root_plan_id = p.root_plan_id AND z.step_id = step.step_id AND z.seq = step.latest_round - 1
        WHERE z.part = $2::date
        ORDER BY z.call_index DESC NULLS FIRST, LEAST(z.start_time, actlog.first_start(z.attempts)) DESC NULLS FIRST, z.tool_call_id DESC
        LIMIT 1
    ) END`
)

// PlanTree reads the hierarchy of a plan, root or not, in one statement. rootPlanID is the root
// that the plan is under. If it is empty and several roots have a plan of that id, one that the runtime runs
// comes first, then the root plan of that id, then the newest. exceptionWaits reports that the plan has an
// exception that no reader was served yet, see [Store.ServeException]. The error is
// [record.ErrNotFound] if there is no such plan.
func (r *Reader) PlanTree(
	ctx context.Context, rootPlanID, planID string,
) (plan *tree.Plan, exceptionWaits bool, err error) {
	n, err := r.nodes(ctx, planTree, rootPlanID, planID)
	if err != nil {
		return nil, false, err
	}

	plan = n.build(planID)
	if plan == nil {
		return nil, false, record.ErrNotFound
	}

	for _, p := range n.plans {
		if p.Record.CurrentPlanID == planID {
			exceptionWaits, p.Wait = p.ExceptionWaits, openWait(n)
		}
	}
	return plan, exceptionWaits, nil
}

// openWait returns the first open wait of a tree, or nil. When the root has ended, only waits of
// plans that still run count: nobody waits for the answers to the others any more.
func openWait(n *nodes) *record.Wait {
	if len(n.waits) == 0 {
		return nil
	}

	rootEnded, runs := false, make(map[string]bool, len(n.plans))
	for _, p := range n.plans {
		rootEnded = rootEnded || p.Record.IsRoot() && p.Record.State.Terminal()
		runs[p.Record.CurrentPlanID] = p.Record.State.Status() == record.StatusRunning
	}

	waits := slices.DeleteFunc(n.waits, func(w *record.Wait) bool { return rootEnded && !runs[w.PlanID] })
	if len(waits) == 0 {
		return nil
	}
	return slices.MinFunc(waits, compareWaits)
}

// ServeException takes the waiting exception of a plan: one caller gets its message, the others
// find none.
func (r *Reader) ServeException(
	ctx context.Context, rootPlanID, planID string,
) (message string, found bool, err error) {
	message, err = pg.Read(ctx, r.db, func() (string, error) {
		return r.queries.PlanExceptionServe(ctx, r.db, db.PlanExceptionServeParams{
			RootPlanID: rootPlanID, CurrentPlanID: planID,
		})
	})

	if errors.Is(err, record.ErrNotFound) {
		return "", false, nil
	}
	return message, err == nil, err
}

// StartedPlan is a root plan that says what started it.
type StartedPlan = db.PlanStartedByRow

// maxStarted bounds the plans that [Reader.StartedBy] returns: the first.
const maxStarted = 20

// StartedBy returns the root plans that say that a plan, or if its id is not empty a tool call of it, started them:
// the first, in the order in which they began. Titles are cut to 200 characters.
func (r *Reader) StartedBy(ctx context.Context, planID, toolCallID string) (started []StartedPlan, err error) {
	started, err = pg.Read(ctx, r.db, func() ([]StartedPlan, error) {
		return r.queries.PlanStartedBy(ctx, r.db, db.PlanStartedByParams{
			PlanID: planID, ToolCallID: orNil(toolCallID), Most: maxStarted,
		})
	})
	return started, pg.Wrap(err, "read what plan %s started", planID)
}

// PlanFilter narrows a list of root plans. Empty fields do not narrow it.
type PlanFilter struct {
	State          record.State
	Project        string
	Name           string
	UserID         string
	ConversationID string
	// StartedBy is a plan that root plans say to have been started by.
	StartedBy string
	// Agent is one that worked on a step, anywhere in the tree.
	Agent string
	// Tag is one of the plan's.
	Tag string
	// Query has words that must all stand in the searchable texts of the tree, in any case. See
	// package search.
	Query string
	// Model and Tool are ones that were used, anywhere in the tree.
	Model, Tool string
	// Failed says whether anything failed in the tree: a plan or a step, or one was left behind by a process that died; a
	// cycle or a tool call.
	Failed *bool
	// MinCostUSD and MaxCostUSD bound the cost of the tree, MinDuration and MaxDuration how long the plan took. A plan
	// whose cost or duration is not known is not listed then.
	MinCostUSD, MaxCostUSD   *float64
	MinDuration, MaxDuration *time.Duration
	// Since and Until bound when a plan started or, if that is not known, was first seen. The
	// time of Since is included, that of Until is not.
	Since, Until *time.Time
	// Before continues a list behind a plan. After ends it there.
	Before, After *PlanCursor
	// Limit bounds the list.
	Limit int
	// Timeout is how long the list may take, with the wait for a connection: filters may scan
	// all plans. Default 10 s.
	Timeout time.Duration
}

// listTimeout is how long a list may take if nothing else is said.
const listTimeout = 10 * time.Second

// Narrows reports whether the list has a filter. Without any, it is read from an index.
func (f *PlanFilter) Narrows() bool {
	return f.Since != nil || f.Until != nil || f.Failed != nil || f.MinCostUSD != nil || f.MaxCostUSD != nil ||
		f.MinDuration != nil || f.MaxDuration != nil ||
		cmp.Or(string(f.State), f.Project, f.Name, f.UserID, f.ConversationID, f.StartedBy, f.Agent, f.Tag, f.Query, f.Model,
			f.Tool) != ""
}

// between returns places between which the list is. The place of a time is below all plans that began then. Postgres
// knows microseconds.
func (f *PlanFilter) between() (before, after PlanCursor) {
	before, after = PlanCursor{forever, lastOfAll}, PlanCursor{BeganAt: beginning}
	if f.Until != nil {
		before = PlanCursor{BeganAt: f.Until.Truncate(time.Microsecond)}
	}
	if f.Since != nil {
		after = PlanCursor{BeganAt: f.Since.Truncate(time.Microsecond)}
	}

	if f.Before != nil && compareCursors(*f.Before, before) < 0 {
		before = *f.Before
	}
	if f.After != nil && compareCursors(*f.After, after) > 0 {
		after = *f.After
	}
	return before, after
}

// Plans lists root plans, newest first by when they began. The error is [ErrSlow] if the filters scan too many, and a
// [*record.InvalidError] if the query cannot be searched for.
func (r *Reader) Plans(ctx context.Context, f PlanFilter) ([]PlanSummary, error) {
	params := db.PlanListParams{
		PageSize: int32(f.Limit), State: orNil(string(f.State)), Project: orNil(f.Project), Name: orNil(f.Name),
		UserID: orNil(f.UserID), ConversationID: orNil(f.ConversationID), StartedBy: orNil(f.StartedBy), Tag: orNil(f.Tag),
		Agent: orNil(f.Agent),
		Model: orNil(f.Model), Tool: orNil(f.Tool), Failed: f.Failed, MinCost: f.MinCostUSD, MaxCost: f.MaxCostUSD,
		MinMs: milliseconds(f.MinDuration), MaxMs: milliseconds(f.MaxDuration),
	}

	before, after := f.between()
	params.BeforeTime, params.BeforeID = before.BeganAt, before.RootPlanID
	params.AfterTime, params.AfterID = after.BeganAt, after.RootPlanID

	f.Timeout = cmp.Or(f.Timeout, listTimeout)
	deadline := time.Now().Add(f.Timeout)
	// The statement has its own time-out, a second earlier: so Postgres cancels it, and the connection stays usable.
	bounded, cancel := context.WithDeadline(ctx, deadline.Add(time.Second))
	defer cancel()

	plans, err := pg.Read(bounded, r.db, func() (_ []PlanSummary, err error) {
		if f.Query != "" {
			return r.searchPlans(bounded, f.Query, params, deadline)
		}
		if f.Agent != "" {
			if params.Found, err = r.plansOfRareAgent(bounded, f.Agent, deadline); err != nil {
				return nil, err
			}
		}
		return r.listPlans(bounded, params, deadline)
	})
	if errors.Is(err, ErrSlow) || err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: over %v", ErrSlow, f.Timeout)
	}
	return plans, err
}

// rareAgent is how many steps an agent may have whose plans are looked up one by one. Those of others are found among
// all, newest first.
const rareAgent = 5_000

// plansOfRareAgent returns the root plans in whose trees an agent works that has few steps; nil if it has many.
func (r *Reader) plansOfRareAgent(ctx context.Context, agent string, deadline time.Time) ([]string, error) {
	roots, err := collectBefore(ctx, r, deadline, genericPlan, pgx.RowTo[string], db.PlanOfAgent, agent,
		int32(rareAgent+1))
	if err != nil || len(roots) > rareAgent {
		return nil, err
	}

	slices.Sort(roots)
	return append([]string{}, slices.Compact(roots)...), nil // never nil, which stands for all plans
}

// PlansAt returns the root plans with these ids that are on record, as a list has them, newest first.
func (r *Reader) PlansAt(ctx context.Context, rootPlanIDs []string) ([]PlanSummary, error) {
	params := db.PlanListParams{
		Found: rootPlanIDs, BeforeTime: forever, BeforeID: lastOfAll, AfterTime: beginning, PageSize: int32(len(rootPlanIDs)),
	}
	return pg.Read(ctx, r.db, func() ([]PlanSummary, error) {
		return r.listPlans(ctx, params, time.Now().Add(listTimeout))
	})
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

// behindAll is what no id goes on with.
const behindAll = string(utf8.MaxRune) + string(utf8.MaxRune)

// PlanIDs returns the ids that a shortened id may stand for, in order, at most so many: the id itself if a plan has it,
// else the root plans whose ids begin so, else the other plans. The error is [ErrSlow] if there is none before a
// deadline.
func (r *Reader) PlanIDs(
	ctx context.Context, shortened string, most int32, deadline time.Time,
) (ids []string, err error) {
	asks := []db.PlanIDsParams{
		{FromID: shortened, ToID: shortened + "\x01", Most: 1},
		{FromID: shortened, ToID: shortened + behindAll, RootsOnly: true, Most: most},
		{FromID: shortened, ToID: shortened + behindAll, Most: most},
	}

	for _, p := range asks {
		ids, err = pg.Read(ctx, r.db, func() ([]string, error) {
			return collectBefore(ctx, r, deadline, customPlan, pgx.RowTo[string], db.PlanIDs, p.FromID, p.ToID, p.RootsOnly,
				p.Most)
		})
		if err != nil {
			return nil, fmt.Errorf("look for ids of plans: %w", err)
		}

		if len(ids) > 0 {
			return ids, nil
		}
	}
	return nil, nil
}

// PlanPlace returns the root of the tree that a plan belongs to, chosen as by [Store.PlanTree], and
// the plan's state. The error is [record.ErrNotFound] if there is no such plan.
func (r *Reader) PlanPlace(
	ctx context.Context, underRoot, planID string,
) (rootPlanID string, state record.State, err error) {
	p, err := pg.Read(ctx, r.db, func() (db.PlanPlaceRow, error) {
		return r.queries.PlanPlace(ctx, r.db, db.PlanPlaceParams{PlanID: planID, RootPlanID: orNil(underRoot)})
	})
	return p.RootPlanID, record.State(p.State), err
}

// PlanSize returns what a plan can be called by, and how many steps, cycles and calls the tree has that it belongs to,
// of each kind counted up to most. The plan is chosen as by [Store.PlanTree]; the error may be [record.ErrNotFound].
func (r *Reader) PlanSize(
	ctx context.Context, underRoot, planID string, most int32,
) (named record.Plan, rows int64, err error) {
	p, err := pg.Read(ctx, r.db, func() (db.PlanSizeRow, error) {
		return r.queries.PlanSize(ctx, r.db, db.PlanSizeParams{PlanID: planID, RootPlanID: orNil(underRoot), Most: most})
	})
	return record.Plan{CurrentPlanID: planID, Title: p.Title, Name: p.Name, UserRequest: &p.UserRequest}, p.Rows, err
}

// PlanGlance is a root plan with the figures of its whole tree, and no texts.
type PlanGlance struct {
	Record      record.Plan
	Placeholder bool // see [tree.Plan]
	Steps       int64
	Total       tree.Figures
}

// MaxLive is how many live plans [Store.LivePlans] returns.
const MaxLive = 500

// LivePlans returns the newest root plans that have not ended, oldest first.
func (r *Reader) LivePlans(ctx context.Context) ([]PlanGlance, error) {
	return r.glance(ctx, nil, MaxLive)
}

// GlanceAt returns the root plans with these ids that are on record.
func (r *Reader) GlanceAt(ctx context.Context, rootPlanIDs []string) ([]PlanGlance, error) {
	return r.glance(ctx, rootPlanIDs, 0)
}

var planGlance = fieldsql.NewRead(db.PlanGlance)

func (r *Reader) glance(ctx context.Context, roots []string, live int32) ([]PlanGlance, error) {
	plans, err := pg.Read(ctx, r.db, func() (plans []PlanGlance, err error) {
		rows, err := r.db.Query(ctx, planGlance.SQL, live, roots)
		if err != nil {
			return nil, err
		}

		var p *PlanGlance
		err = planGlance.Rows(rows, func(record.Kind) ([]any, error) {
			plans = append(plans, PlanGlance{})
			p = &plans[len(plans)-1]
			return []any{&p.Record, p, &p.Total}, nil
		}, func() error {
			p.Record.CurrentPlanID = p.Record.RootPlanID
			p.Total.DurationMs = tree.Duration(p.Record.StartTime, p.Record.EndTime)
			return nil
		})
		return plans, err
	})
	return plans, pg.Wrap(err, "read plans at a glance")
}
