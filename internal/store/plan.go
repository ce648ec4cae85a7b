package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

var (
	planTree  = sectioned{sql: db.PlanTree}
	listPlan  = filler[db.PlanListRow](record.KindPlan, "", "exception", "parentPlanId", "toolCallId", "userRequest", "summary", "metadata")
	forever   = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	lastOfAll = "\U0010FFFF"
)

// PlanTree reads the hierarchy of a plan, root or not, in one statement.
// exceptionWaits says that the plan has an exception that no reader was told
// yet: see [Store.ServeException]. [record.ErrNotFound] where there is no such
// plan.
func (s *Store) PlanTree(ctx context.Context, planID string) (plan *tree.Plan, exceptionWaits bool, err error) {
	n, err := s.nodes(ctx, &planTree, planID)
	if err != nil {
		return nil, false, err
	}
	for _, st := range n.steps {
		st.Truncated = record.StillCut(&st.Record, st.Truncated)
	}
	calls := firstCalls(n)
	plans := make([]*tree.Plan, len(n.plans))
	for i, p := range n.plans {
		plans[i] = &p.Plan
		p.Truncated = record.StillCut(&p.Record, p.Truncated)
		if p.Record.ToolCallID != nil {
			p.ToolCall = calls[*p.Record.ToolCallID]
		}
		if p.Record.CurrentPlanID == planID {
			exceptionWaits = p.ExceptionWaits
			if len(n.waits) > 0 && !p.Record.State.Terminal() {
				p.Wait = slices.MinFunc(n.waits, compareWaits)
			}
		}
	}
	if plan = tree.Build(planID, plans, n.steps); plan == nil {
		return nil, false, record.ErrNotFound
	}
	return plan, exceptionWaits, nil
}

// firstCalls gives the tool calls by their id. Where one stands twice, the first
// has it: that of the step that started first.
func firstCalls(n *nodes) map[string]*tree.ToolCall {
	if len(n.calls) == 0 {
		return nil
	}
	started := make(map[string]*time.Time, len(n.steps))
	for _, st := range n.steps {
		started[st.Record.StepID] = st.Record.StartTime
	}
	calls := make(map[string]*tree.ToolCall, len(n.calls))
	for _, t := range n.calls {
		t.Truncated = record.StillCut(&t.Record, t.Truncated)
		was := calls[t.Record.ToolCallID]
		if was == nil || cmp.Or(
			tree.CompareNullsLast(started[t.Record.StepID], started[was.Record.StepID], time.Time.Compare),
			strings.Compare(t.Record.StepID, was.Record.StepID),
			cmp.Compare(t.Record.Seq, was.Record.Seq),
		) < 0 {
			calls[t.Record.ToolCallID] = t
		}
	}
	return calls
}

// compareWaits puts what the run waits for before all else first: input, then the
// oldest.
func compareWaits(a, b *record.Wait) int {
	input := func(w *record.Wait) int {
		if w.Type == nil || *w.Type == record.WaitUserInput {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(input(a), input(b)),
		tree.CompareNullsLast(a.StartTime, b.StartTime, time.Time.Compare),
		strings.Compare(a.PlanID, b.PlanID),
		strings.Compare(a.WaitID, b.WaitID),
	)
}

// ServeException takes the waiting exception of a plan: one caller gets its
// message, every other one finds none.
func (s *Store) ServeException(ctx context.Context, rootPlanID, planID string) (message string, found bool, err error) {
	message, err = read(ctx, s, func(conn db.DBTX) (string, error) {
		return s.reads.PlanExceptionServe(ctx, conn, db.PlanExceptionServeParams{RootPlanID: rootPlanID, CurrentPlanID: planID})
	})
	if errors.Is(err, record.ErrNotFound) {
		return "", false, nil
	}
	return message, err == nil, err
}

// PlanFilter narrows a list of root plans. Empty fields do not.
type PlanFilter struct {
	State          record.State
	Project        string
	Name           string
	UserID         string
	ConversationID string
	// Agent is one that worked on a step, anywhere in the tree.
	Agent string
	// Tag is one of the plan's.
	Tag string
	// Query is a text that title, request or summary hold, in whatever case.
	Query string
	// Since and Until bound when a plan began; where that was not told, when it was
	// first seen. Since is part of the time between them, Until is not.
	Since, Until *time.Time
	// Before continues a list behind the plan it names.
	Before *PlanCursor
	// Limit bounds the list.
	Limit int
	// Timeout is how long to look for them: filters may lead through all plans that
	// there are. Default 10 s.
	Timeout time.Duration
}

// ErrSlow says that a list was given up because it took too long.
var ErrSlow = errors.New("the list takes too long")

// PlanCursor is the place of a plan in the list of all.
type PlanCursor struct {
	FirstSeenAt time.Time
	RootPlanID  string
}

// PlanSummary is a root plan in a list, with the figures of its whole tree. Its
// texts are cut to 1,000 characters, and its request, summary and metadata left out.
type PlanSummary struct {
	ID        int64
	Record    record.Plan
	Truncated []string
	Cursor    PlanCursor
	Steps     int64
	Total     tree.Figures
}

// Plans lists root plans, newest first. The error is [ErrSlow] where the filters
// lead through too many.
func (s *Store) Plans(ctx context.Context, f PlanFilter) ([]PlanSummary, error) {
	params := db.PlanListParams{
		BeforeTime: forever, BeforeID: lastOfAll, PageSize: int32(f.Limit), Since: f.Since, Until: f.Until,
		State: orNil(string(f.State)), Project: orNil(f.Project), Name: orNil(f.Name), UserID: orNil(f.UserID),
		ConversationID: orNil(f.ConversationID), Tag: orNil(f.Tag), Agent: orNil(f.Agent),
	}
	if f.Timeout == 0 {
		f.Timeout = 10 * time.Second
	}
	if f.Before != nil {
		params.BeforeTime, params.BeforeID = f.Before.FirstSeenAt, f.Before.RootPlanID
	}
	if f.Query != "" {
		params.Pattern = new("%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Query) + "%")
	}
	rows, err := read(ctx, s, func(db.DBTX) ([]db.PlanListRow, error) { return s.planList(ctx, params, f.Timeout) })
	if err != nil {
		return nil, err
	}
	plans := make([]PlanSummary, len(rows))
	for i := range rows {
		r := &rows[i]
		p := &plans[i]
		*p = PlanSummary{
			ID:     orZero(r.ID),
			Record: record.Plan{RootPlanID: r.RootPlanID, CurrentPlanID: r.RootPlanID},
			Cursor: PlanCursor{FirstSeenAt: r.FirstSeenAt.UTC(), RootPlanID: r.RootPlanID},
			Steps:  r.Steps,
			Total: tree.Figures{
				ModelCalls: r.ModelCalls, ToolCalls: r.ToolCalls, Failures: r.Failures,
				InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
				CacheReadInputTokens: r.CacheReadInputTokens, CacheCreationInputTokens: r.CacheCreationInputTokens,
				ReasoningTokens: r.ReasoningTokens, CostUSD: r.CostUSD, ThinkMs: r.ThinkMs, ToolMs: r.ToolMs,
				DurationMs: tree.Duration(r.StartTime, r.EndTime),
			},
		}
		listPlan(&p.Record, r)
		p.Truncated = record.StillCut(&p.Record, r.Truncated)
	}
	return plans, nil
}

// planList runs the list with a plan of its own and a time-out, in one round
// trip: a batch is a transaction.
func (s *Store) planList(ctx context.Context, p db.PlanListParams, timeout time.Duration) (rows []db.PlanListRow, err error) {
	var q pgx.Batch
	q.Queue("SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('statement_timeout', $1, true)", strconv.FormatInt(timeout.Milliseconds(), 10))
	q.Queue(db.PlanList, p.BeforeTime, p.BeforeID, p.State, p.Project, p.Name, p.UserID, p.ConversationID, p.Since, p.Until, p.Tag, p.Agent, p.Pattern, p.PageSize).
		Query(func(r pgx.Rows) (err error) {
			rows, err = pgx.CollectRows(r, pgx.RowToStructByPos[db.PlanListRow])
			return err
		})
	err = s.pool.SendBatch(ctx, &q).Close()
	if sqlState(err) == "57014" && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: over %v", ErrSlow, timeout)
	}
	return rows, err
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// PlanPlace gives the root of the tree that a plan belongs to, and the plan's state.
// [record.ErrNotFound] where there is no such plan.
func (s *Store) PlanPlace(ctx context.Context, planID string) (rootPlanID string, state record.State, err error) {
	p, err := read(ctx, s, func(conn db.DBTX) (db.PlanPlaceRow, error) { return s.reads.PlanPlace(ctx, conn, planID) })
	return p.RootPlanID, record.State(p.State), err
}

// PlanGlance is a root plan with the figures of its whole tree, and no texts.
type PlanGlance struct {
	Record record.Plan
	Steps  int64
	Total  tree.Figures
}

// MaxLive is how many live plans [Store.LivePlans] gives.
const MaxLive = 500

// LivePlans gives the newest root plans that have not ended, oldest first.
func (s *Store) LivePlans(ctx context.Context) ([]PlanGlance, error) {
	return s.glance(ctx, nil, MaxLive)
}

// GlanceAt gives those of some root plans that are on record.
func (s *Store) GlanceAt(ctx context.Context, rootPlanIDs []string) ([]PlanGlance, error) {
	return s.glance(ctx, rootPlanIDs, 0)
}

func (s *Store) glance(ctx context.Context, roots []string, live int32) ([]PlanGlance, error) {
	rows, err := read(ctx, s, func(conn db.DBTX) ([]db.PlanGlanceRow, error) {
		return s.reads.PlanGlance(ctx, conn, db.PlanGlanceParams{RootPlanIds: roots, Live: live})
	})
	if err != nil {
		return nil, fmt.Errorf("glancing at plans: %w", err)
	}
	utc := func(t *time.Time) *time.Time {
		if t == nil {
			return nil
		}
		return new(t.UTC())
	}
	plans := make([]PlanGlance, len(rows))
	for i := range rows {
		r := &rows[i]
		plans[i] = PlanGlance{
			Record: record.Plan{
				RootPlanID: r.RootPlanID, CurrentPlanID: r.RootPlanID, Name: r.Name, Project: r.Project, State: new(record.State(r.State)),
				StartTime: utc(r.StartTime), EndTime: utc(r.EndTime), LastSeenAt: utc(r.LastSeenAt), ErrorKind: r.ErrorKind,
			},
			Steps: r.Steps,
			Total: tree.Figures{
				ModelCalls: r.ModelCalls, ToolCalls: r.ToolCalls, Failures: r.Failures,
				InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
				CacheReadInputTokens: r.CacheReadInputTokens, CacheCreationInputTokens: r.CacheCreationInputTokens,
				ReasoningTokens: r.ReasoningTokens, CostUSD: r.CostUSD, ThinkMs: r.ThinkMs, ToolMs: r.ToolMs,
				DurationMs: tree.Duration(r.StartTime, r.EndTime),
			},
		}
	}
	return plans, nil
}
