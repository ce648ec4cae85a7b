package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Position is the place of a row in a list of records that are attached to a plan. The zero value is
// before the first. Lists that are not in order of time use the ID only.
type Position struct {
	Time   time.Time
	Number int64
	ID     string
}

// attachedPageBytes bounds the texts of a page: a row may hold megabytes.
const attachedPageBytes = 16 << 20

// Rows without a time or a number come last: no field can hold these values.
var noTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

const noNumber = 1<<31 - 1

// attachedKey is a part of the order in which the rows of a kind are listed.
type attachedKey struct {
	sql, kind string // an expression of the row t without NULL, and its type
	value     func(Position) any
}

func byTime(column string) attachedKey {
	return attachedKey{"COALESCE(t." + column + ", TIMESTAMPTZ '10000-01-01 00:00:00+00')", "timestamptz",
		func(p Position) any {
			return p.Time
		}}
}

func byNumber(column string) attachedKey {
	return attachedKey{"COALESCE(t." + column + ", 2147483647)", "integer",
		func(p Position) any {
			return int32(p.Number)
		}}
}

func byID(column string) attachedKey {
	return attachedKey{"t." + column, "text", func(p Position) any { return p.ID }}
}

var attachedOrders = map[record.Kind][]attachedKey{
	record.KindThought:  {byTime("time"), byNumber("iteration"), byID("thought_id")},
	record.KindArtifact: {byID("name")},
	record.KindSource:   {byID("source_id")},
	record.KindWait:     {byTime("start_time"), byID("wait_id")},
}

// positionOf returns the place of a row in its list.
func positionOf(c record.Change) *Position {
	p := Position{Time: noTime, Number: noNumber, ID: c.Key().ID}

	var at *time.Time
	switch r := c.(type) {
	case *record.Thought:
		at = r.Time
		if r.Iteration != nil {
			p.Number = *r.Iteration
		}
	case *record.Wait:
		at = r.StartTime
	}

	if at != nil {
		p.Time = *at
	}
	return &p
}

// attachedPages reads a page of the rows that are attached to a plan. $1 is the plan, $2 the limit, $3 the root
// or NULL, and from $4 on the position after which the page begins. A plan without such rows gives a row
// without values.
var attachedPages = func() map[record.Kind]*fieldsql.Read {
	all := map[record.Kind]*fieldsql.Read{}
	for kind, keys := range attachedOrders {
		var order, after []string
		for i, key := range keys {
			order, after = append(order, key.sql), append(after, fmt.Sprintf("$%d::%s", i+4, key.kind))
		}

		rows := fieldsql.Page{
			Kind: kind,
			Where: "t.root_plan_id = asked.root_plan_id AND t.plan_id = asked.current_plan_id AND (" +
				strings.Join(order, ", ") + ") > (" + strings.Join(after, ", ") + ")",
			Order: order, Limit: "$2::integer", Bytes: fmt.Sprint(attachedPageBytes),
		}

		all[kind] = fieldsql.NewRead(`WITH asked AS MATERIALIZED (
    SELECT x.root_plan_id, x.current_plan_id
    FROM actlog.plan_execution_record AS x
    WHERE x.current_plan_id = $1::text AND ($3::text IS NULL OR x.root_plan_id = $3::text)
    ORDER BY ` + planOrder + `
    LIMIT 1
)
SELECT i.found, ` + fieldsql.Select(fieldsql.Readable(kind, "i")) + `
FROM asked
LEFT JOIN LATERAL (` + rows.SQL() + `) AS i ON true
ORDER BY i.place`)
	}
	return all
}()

// Attached lists the thoughts, artifacts, sources or waits of a plan: up to limit rows after a position, ordered by
// time, number and id. next is the position of the last returned row if others follow, else nil. The root is chosen as
// by [Store.PlanTree]. The error is [record.ErrNotFound] if there is no such plan.
func (r *Reader) Attached(
	ctx context.Context, kind record.Kind, rootPlanID, planID string, after Position, limit int,
) (rows []Row, next *Position, err error) {
	var found int
	_, err = pg.Read(ctx, r.db, func() (_ struct{}, err error) {
		args := []any{planID, int32(limit) + 1, orNil(rootPlanID)}
		for _, key := range attachedOrders[kind] {
			args = append(args, key.value(after))
		}

		from, err := r.Query(ctx, attachedPages[kind].SQL, args...)
		if err != nil {
			return struct{}{}, err
		}
		rows, found, err = readPage(attachedPages[kind], from, kind)
		return struct{}{}, err
	})

	switch {
	case err != nil:
		return nil, nil, err
	case len(rows) == 0:
		return nil, nil, record.ErrNotFound
	case found == 0: // the plan exists and has no such row
		return nil, nil, nil
	}

	if rows = rows[:min(limit, len(rows))]; found > len(rows) {
		next = positionOf(rows[len(rows)-1].Record)
	}
	return rows, next, nil
}

const attachedPage = 1000

// EachAttached calls take with each thought, artifact, source or wait of a plan, in the order of [Reader.Attached], and
// has its errors.
func (r *Reader) EachAttached(
	ctx context.Context, kind record.Kind, rootPlanID, planID string, take func(record.Change),
) error {
	for after := new(Position); after != nil; {
		rows, next, err := r.Attached(ctx, kind, rootPlanID, planID, *after, attachedPage)
		if err != nil {
			return err
		}
		for _, each := range rows {
			take(each.Record)
		}
		after = next
	}
	return nil
}
