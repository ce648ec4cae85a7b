package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

var (
	treePlan    = filler[db.PlanTreeRow](record.KindPlan, "", "exception")
	treeStep    = filler[db.PlanTreeRow](record.KindAgentExecution, "A")
	treeRollUps = rollUps[db.PlanTreeRow]("A")
	treeTool    = filler[db.PlanTreeRow](record.KindActTool, "T")
	treeWait    = filler[db.PlanTreeRow](record.KindWait, "W", "stepId", "toolCallId", "state", "decision", "decidedBy", "startTime", "endTime", "expiresAt")
	listPlan    = filler[db.PlanListRow](record.KindPlan, "", "exception", "parentPlanId", "toolCallId", "userRequest", "summary", "metadata")
	forever     = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	lastOfAll   = "\U0010FFFF"
)

// PlanTree reads the hierarchy of a plan, root or not, in one statement.
// exceptionWaits says that the plan has an exception that no reader was told
// yet: see [Store.ServeException]. [record.ErrNotFound] where there is no such
// plan.
func (s *Store) PlanTree(ctx context.Context, planID string) (plan *tree.Plan, exceptionWaits bool, err error) {
	rows, err := read(ctx, s, func(conn db.DBTX) ([]db.PlanTreeRow, error) { return s.reads.PlanTree(ctx, conn, planID) })
	if err != nil {
		return nil, false, err
	}
	var plans []*tree.Plan
	var steps []*tree.Step
	var rootID string
	for i := range rows {
		r := &rows[i]
		if r.PlanRow == nil {
			steps = append(steps, stepOfTree(r))
			continue
		}
		rootID = r.RootPlanID
		plans = append(plans, planOfTree(r))
		if r.CurrentPlanID == planID {
			exceptionWaits = r.ExceptionWaits
		}
	}
	for _, st := range steps {
		st.Record.RootPlanID = rootID
	}
	if plan = tree.Build(planID, plans, steps); plan == nil {
		return nil, false, record.ErrNotFound
	}
	return plan, exceptionWaits, nil
}

func planOfTree(r *db.PlanTreeRow) *tree.Plan {
	p := &tree.Plan{
		ID:              *r.PlanRow,
		Record:          record.Plan{RootPlanID: r.RootPlanID, CurrentPlanID: r.CurrentPlanID},
		ParentStepID:    orZero(r.ParentStepID),
		StructureResult: r.StructureResult,
	}
	treePlan(&p.Record, r)
	p.Truncated = record.StillCut(&p.Record, r.Truncated)
	if r.TID != nil {
		p.ToolCall = &tree.ToolCall{ID: *r.TID, Inferred: orZero(r.TInferred), Record: record.ActTool{
			RootPlanID: r.RootPlanID, StepID: orZero(r.TStepID), Seq: int64(orZero(r.TSeq)), ToolCallID: orZero(r.TToolCallID),
		}}
		treeTool(&p.ToolCall.Record, r)
		p.ToolCall.Truncated = record.StillCut(&p.ToolCall.Record, r.TTruncated)
	}
	if r.WWaitID != nil {
		p.Wait = &record.Wait{RootPlanID: r.RootPlanID, PlanID: orZero(r.WPlanID), WaitID: *r.WWaitID}
		treeWait(p.Wait, r)
	}
	return p
}

func stepOfTree(r *db.PlanTreeRow) *tree.Step {
	st := &tree.Step{
		ID:     orZero(r.AgentRow),
		Record: record.AgentExecution{StepID: r.AStepID},
	}
	treeStep(&st.Record, r)
	treeRollUps(st, r)
	st.Truncated = record.StillCut(&st.Record, r.ATruncated)
	return st
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
