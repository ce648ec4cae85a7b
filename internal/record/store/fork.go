package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// Fork says which rows of a tree are copied into another one, and under which ids. With those that Opens the copy goes
// on: they have no outcome yet, and all but cycles are its own.
type Fork struct {
	From, To string // root plans
	Plans    []ForkedPlan
	Steps    []ForkedStep
	Cycles   []ForkedCycle
	Calls    []ForkedCall
	Attached []ForkedAttached // of which plans, also of the root
}

// ForkedPlan is a plan below the root: what it is called in the copy, and what began it there.
type ForkedPlan struct {
	ID, NewID            string
	ParentID, ToolCallID string
	Opens                bool
}

// ForkedStep is a step, and the plan in which its copy is.
type ForkedStep struct {
	ID, NewID string
	PlanID    string
	Opens     bool
}

// ForkedCycle is a cycle. If it Opens, its model has answered, but not all of its calls have been made.
type ForkedCycle struct {
	StepID    string
	Seq       int64
	NewStepID string
	Opens     bool
}

// ForkedCall is a tool call. One that Opens has begun a plan, which goes on.
type ForkedCall struct {
	StepID           string
	Seq              int64
	ID               string
	NewStepID, NewID string
	Opens            bool
}

// ForkedAttached is a plan whose attached rows are copied. Until is from when on nothing is copied that belongs to no
// tool call; nil: all is.
type ForkedAttached struct {
	PlanID, NewPlanID string
	Until             *time.Time
}

// forkStatements are the statements that copy rows.
var forkStatements = func() map[record.Kind]string {
	all := map[record.Kind]string{}
	for _, k := range record.Kinds {
		all[k] = fieldsql.Fork(k)
	}
	return all
}()

var forkContents = fieldsql.ForkContents()

// forkRounds says of steps that go on how far their copied cycles came.
const forkRounds = `UPDATE actlog.agent_execution_record AS a
SET latest_round = c.latest_round
FROM (
    SELECT u.step_id, max(u.seq) + 1 AS latest_round
    FROM unnest($2::text[], $3::bigint[]) AS u (step_id, seq)
    GROUP BY u.step_id
) AS c
WHERE a.root_plan_id = $1::text AND a.step_id = c.step_id AND COALESCE(a.latest_round, 0) < c.latest_round`

// Fork copies rows of a tree into another one, whose root plan is on record. The caller holds both root plans.
func (t *Tx) Fork(ctx context.Context, f Fork) error {
	var q pgx.Batch
	f.queue(&q)
	if err := t.tx.SendBatch(ctx, &q).Close(); err != nil {
		return fmt.Errorf("copy rows of tree %s: %w", f.From, err)
	}
	return nil
}

func (f *Fork) queue(q *pgx.Batch) {
	copyRows := func(k record.Kind, columns ...any) {
		q.Queue(forkStatements[k], append([]any{f.From, f.To}, columns...)...)
	}

	plan, planTo := columns(f.Plans, func(p ForkedPlan) (string, string) { return p.ID, p.NewID })
	parent, by := columns(f.Plans, func(p ForkedPlan) (string, string) { return p.ParentID, p.ToolCallID })
	_, planOpens := columns(f.Plans, func(p ForkedPlan) (string, bool) { return "", p.Opens })
	copyRows(record.KindPlan, plan, planTo, parent, by, planOpens)

	step, stepTo := columns(f.Steps, func(s ForkedStep) (string, string) { return s.ID, s.NewID })
	of, stepOpens := columns(f.Steps, func(s ForkedStep) (string, bool) { return s.PlanID, s.Opens })
	copyRows(record.KindAgentExecution, step, stepTo, of, stepOpens)

	in, inTo := columns(f.Cycles, func(c ForkedCycle) (string, string) { return c.StepID, c.NewStepID })
	seq, cycleOpens := columns(f.Cycles, func(c ForkedCycle) (int64, bool) { return c.Seq, c.Opens })
	copyRows(record.KindThinkAct, in, seq, inTo, cycleOpens)
	q.Queue(forkContents, f.From, f.To, in, seq)
	q.Queue(forkRounds, f.To, inTo, seq)

	call, callTo := columns(f.Calls, func(c ForkedCall) (string, string) { return c.ID, c.NewID })
	from, to := columns(f.Calls, func(c ForkedCall) (string, string) { return c.StepID, c.NewStepID })
	round, callOpens := columns(f.Calls, func(c ForkedCall) (int64, bool) { return c.Seq, c.Opens })
	copyRows(record.KindActTool, from, round, call, to, callTo, callOpens)

	into, intoTo := columns(f.Attached, func(p ForkedAttached) (string, string) { return p.PlanID, p.NewPlanID })
	until, _ := columns(f.Attached, func(p ForkedAttached) (*time.Time, bool) { return p.Until, false })
	copyRows(record.KindThought, into, intoTo, until, step, stepTo, stepOpens)
	for _, k := range []record.Kind{record.KindWait, record.KindArtifact, record.KindSource} {
		copyRows(k, into, intoTo, until, step, stepTo, call, callTo)
	}
}

// columns returns two columns of rows.
func columns[T, A, B any](rows []T, of func(T) (A, B)) (a []A, b []B) {
	a, b = make([]A, len(rows)), make([]B, len(rows))
	for i, r := range rows {
		a[i], b[i] = of(r)
	}
	return a, b
}
