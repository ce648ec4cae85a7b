package store

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/internal/tree"
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

// nodes are the rows of a tree, or of a part of it, in no order.
type nodes struct {
	part  time.Time // where the detail of the tree lies; zero if there is no such tree
	plans []*planNode
	steps []*tree.Step
	calls []*tree.ToolCall
	waits []*record.Wait
}

type planNode struct {
	tree.Plan
	ExceptionWaits bool
}

// nodes runs a statement of sections for an id. The statement takes the part in which the
// detail lies, so that Postgres opens one partition only. If the likely part was wrong, it
// runs once more.
func (r *Reader) nodes(ctx context.Context, of *fieldsql.Read, id string) (*nodes, error) {
	part := likelyPart(id, time.Now(), r.partitionDays)
	run := func() (*nodes, error) { return r.readNodes(ctx, of, id, part) }
	n, err := pg.Read(ctx, r.db, run)
	if err == nil && !n.part.IsZero() && !n.part.Equal(part) {
		part = n.part
		n, err = pg.Read(ctx, r.db, run)
	}
	return n, err
}

func (r *Reader) readNodes(ctx context.Context, of *fieldsql.Read, id string, part time.Time) (*nodes, error) {
	rows, err := counted(ctx, r.db, r.within, of.SQL, id, part)
	if err != nil {
		return nil, err
	}
	n := new(nodes)
	home := new(struct{ Part time.Time }) // from the section that has it
	var into []any
	err = of.Rows(rows, func(kind record.Kind) ([]any, error) {
		into = into[:0]
		switch kind {
		case record.KindPlan:
			p := added(&n.plans)
			into = append(into, &p.Record, &p.Plan, p, home)
		case record.KindAgentExecution:
			st := added(&n.steps)
			into = append(into, &st.Record, st, &st.Figures, home)
		case record.KindActTool:
			t := added(&n.calls)
			into = append(into, &t.Record, t)
		case record.KindWait:
			into = append(into, added(&n.waits))
		default:
			return nil, fmt.Errorf("read a row of kind %q", kind)
		}
		return into, nil
	}, nil)
	n.part = home.Part
	return n, err
}

func added[T any](to *[]*T) *T {
	node := new(T)
	*to = append(*to, node)
	return node
}
