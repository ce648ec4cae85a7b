package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// Reader reads the record, each time in one statement.
type Reader struct {
	db            *pg.DB
	queries       *db.Queries
	partitionDays int
	within        Room
}

// Within returns a reader that asks for room. Other readers have any.
func (r *Reader) Within(room Room) *Reader {
	other := *r
	other.within = room
	return &other
}

// DB returns the connections of the reader.
func (r *Reader) DB() *pg.DB { return r.db }

// Query runs a query whose rows ask for room.
func (r *Reader) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := counted(ctx, r.db, r.within, sql, args...)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// nodes are the rows of a tree, or of a part of it, in no order.
type nodes struct {
	partition time.Time // where the detail of the tree lies; zero if there is no such tree
	plans     []*planNode
	steps     []*tree.Step
	cycles    []*tree.Cycle
	calls     []*tree.ToolCall
	waits     []*record.Wait
	texts     texts
}

type planNode struct {
	tree.Plan
	ExceptionWaits bool
}

// The orders of plans x, and of steps x, of one id under several roots. What is owned comes first, so that no
// record from outside can be read in its place; then the root plan of that id, then the newest.
const (
	planOrder = `EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.current_plan_id) DESC,
    x.root_plan_id = x.current_plan_id DESC, x.first_seen_at DESC, x.root_plan_id DESC`
	stepOrder = `EXISTS (SELECT FROM actlog.run AS o WHERE o.root_plan_id = x.root_plan_id AND o.plan_id = x.root_plan_id) DESC,
    x.part DESC, x.id DESC`
)

// maxAlsoUnder bounds the roots that are named besides the first.
const maxAlsoUnder = 20

// planRead returns a statement of sections that reads the tree of a plan.
func planRead(sections ...fieldsql.Section) *fieldsql.Read {
	return fieldsql.Union(rootsOfID("plan_execution_record", "current_plan_id", planOrder), sections...)
}

// rootsOfID returns the first CTE of a statement, asked: root_plan_id is the root under which the id $1 is read,
// also_under are the other roots with that id. $3 is the root that the request names, or NULL.
func rootsOfID(table, key, order string) string {
	return fmt.Sprintf(`WITH asked AS MATERIALIZED (
    SELECT found.roots[1] AS root_plan_id, found.roots[2:] AS also_under
    FROM (
        SELECT ARRAY(
            SELECT x.root_plan_id
            FROM actlog.%s AS x
            WHERE x.%s = $1::text AND ($3::text IS NULL OR x.root_plan_id = $3::text)
            ORDER BY %s
            LIMIT %d
        ) AS roots
        OFFSET 0 -- else the array is made twice
    ) AS found
)
`, table, key, order, maxAlsoUnder+1)
}

// nodes runs a statement of sections for an id, under a root if one is given. The statement
// takes the partition of the detail, so that Postgres opens one partition only. If the
// likely partition was wrong, it runs once more.
func (r *Reader) nodes(ctx context.Context, of *fieldsql.Read, rootPlanID, id string) (*nodes, error) {
	partition := likelyPartition(cmp.Or(rootPlanID, id), time.Now(), r.partitionDays)
	for {
		n, err := pg.Read(ctx, r.db, func() (*nodes, error) { return r.readNodes(ctx, of, rootPlanID, id, partition) })
		if err != nil || n.partition.IsZero() || n.partition.Equal(partition) {
			return n, err
		}
		partition = n.partition
	}
}

// errElsewhere ends the reading of rows: the detail lies in another partition.
var errElsewhere = errors.New("the detail lies elsewhere")

// readNodes runs a statement once. If the detail lies in another partition than the one given, nothing
// but that partition is returned.
func (r *Reader) readNodes(
	ctx context.Context, of *fieldsql.Read, rootPlanID, id string, partition time.Time,
) (*nodes, error) {
	rows, err := r.Query(ctx, of.SQL, id, partition, orNil(rootPlanID))
	if err != nil {
		return nil, err
	}

	n := new(nodes)
	home := new(struct{ Part time.Time }) // from the section that has it
	var into []any
	var earlier earlierAttempts
	err = of.Rows(rows, func(kind record.Kind) ([]any, error) {
		into = into[:0]
		switch kind {
		case record.KindPlan:
			p := added(&n.plans)
			into = append(into, &p.Record, &p.Plan, p, home, earlier.of(kind, &p.PastAttempts))
		case record.KindAgentExecution:
			st := added(&n.steps)
			into = append(into, &st.Record, st, &st.Figures, home, earlier.of(kind, &st.PastAttempts))
		case record.KindThinkAct:
			c := added(&n.cycles)
			into = append(into, &c.Record, c, earlier.of(kind, &c.PastAttempts))
		case record.KindActTool:
			t := added(&n.calls)
			into = append(into, &t.Record, t, earlier.of(kind, &t.PastAttempts))
		case record.KindWait:
			into = append(into, added(&n.waits))
		case kindContent:
			into = append(into, n.texts.next())
		default:
			return nil, fmt.Errorf("read a row of kind %q", kind)
		}
		return into, nil
	}, func() error {
		if !home.Part.IsZero() && !home.Part.Equal(partition) {
			return errElsewhere
		}
		n.texts.read()
		return earlier.read()
	})

	if errors.Is(err, errElsewhere) {
		n, err = new(nodes), nil
	}
	n.partition = home.Part
	return n, err
}

// earlierAttempts reads the earlier attempts of a row. Few rows have any.
type earlierAttempts struct {
	Attempts json.RawMessage // the column
	kind     record.Kind
	to       *[]record.Attempt
}

// of makes room for those of the next row.
func (e *earlierAttempts) of(kind record.Kind, to *[]record.Attempt) *earlierAttempts {
	*e = earlierAttempts{kind: kind, to: to}
	return e
}

func (e *earlierAttempts) read() (err error) {
	if e.Attempts != nil {
		*e.to, err = field.PastAttempts(e.kind, e.Attempts)
		e.Attempts = nil
	}
	return err
}

func orNil(s string) *string { return optional.Pointer(s) }

func added[T any](to *[]*T) *T {
	node := new(T)
	*to = append(*to, node)
	return node
}

// build nests the plans and steps, and returns the plan that was asked for; nil: it is not among them.
func (n *nodes) build(planID string) *tree.Plan {
	for _, st := range n.steps {
		st.Truncated = field.StillCut(&st.Record, st.Truncated)
	}

	calls := firstCalls(n)
	plans := make([]*tree.Plan, len(n.plans))
	for i, p := range n.plans {
		plans[i] = &p.Plan
		p.Truncated = field.StillCut(&p.Record, p.Truncated)
		if p.Record.ToolCallID != nil {
			p.ToolCall = calls[*p.Record.ToolCallID]
		}
	}
	return tree.Build(planID, plans, n.steps)
}

// whole nests the rows, with cycles, calls and waits, and returns the plan that was asked for; nil: it is not among
// them.
func (n *nodes) whole(planID string) *tree.Plan {
	plan := n.build(planID)
	if plan == nil {
		return nil
	}
	tree.Nest(n.steps, n.cycles, n.calls)

	slices.SortFunc(n.waits, compareWaits)
	plans := make(map[string]*planNode, len(n.plans))
	for _, p := range n.plans {
		plans[p.Record.CurrentPlanID] = p
	}
	for _, w := range n.waits {
		p := plans[w.PlanID] // every wait has one: it was there, or is made with the wait
		p.Waits = append(p.Waits, w)
	}
	return plan
}

// compareWaits orders waits: those for input first, then the oldest.
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

// firstCalls returns the tool calls by their id. If an id stands twice, it is that of the step
// that started first.
func firstCalls(n *nodes) map[string]*tree.ToolCall {
	if len(n.calls) == 0 {
		return nil
	}

	started := make(map[string]*time.Time, len(n.steps))
	for _, st := range n.steps {
		started[st.Record.StepID] = st.Began()
	}

	calls := make(map[string]*tree.ToolCall, len(n.calls))
	for _, t := range n.calls {
		t.Truncated = field.StillCut(&t.Record, t.Truncated)
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
