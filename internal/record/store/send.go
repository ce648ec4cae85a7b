package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// sendTimeout bounds one try of a transaction: a network may swallow the answer.
const sendTimeout = time.Minute

type sender struct {
	db           *pg.DB
	feed         *feed.Feed
	tuning       *tuning
	statements   *statements
	places       *places
	searchMemory *searchMemory
	contents     *contents
	counters     *counters
	checkRoom    func() error // see Config.CheckRoom
}

// room returns the reason if the disk has no room for a transaction.
func (s *sender) room() error {
	if s.checkRoom == nil {
		return nil
	}
	if err := s.checkRoom(); err != nil {
		return fmt.Errorf("%w: %w", record.ErrDiskFull, err)
	}
	return nil
}

// sent is what a transaction with a batch found out. What is remembered between batches learns from it.
type sent struct {
	batch       *batch
	touched     feed.Touched // the batch's, and what was undone
	fresh       newTrees     // trees that the batch began; nil: not known
	contents    []uint64     // see contentPlan.onRecord
	queuedTexts *queuedTexts
	marked      bool  // some trees are marked in which the batch undoes marks
	follows     *sent // what was sent of the batch that followed; nil: none did
}

// send commits a batch in one transaction. Locks are waited for as long as the connection
// says, or as lockTimeout does.
func (s *sender) send(ctx context.Context, b *batch, g givenUp, lockTimeout time.Duration) error {
	if err := s.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()

	start := time.Now()
	out, err := s.sendBatch(ctx, b, g, lockTimeout)
	if err != nil {
		return err
	}
	if out.marked && !g.marks {
		return errMarked
	}

	s.places.learn(b, out.fresh)
	s.learn(out, time.Since(start))
	return nil
}

// learn remembers what a committed transaction found out. It took a time.
func (s *sender) learn(out *sent, took time.Duration) {
	for part := out; part != nil; part = part.follows {
		s.searchMemory.learn(part.queuedTexts)
		s.contents.learn(part.contents)
	}
	s.feed.Grew()
	s.counters.committed(len(out.batch.rows), out.batch.folded, took)
}

// sendBatch writes a batch in the way that is the likely one, but for what is given up.
func (s *sender) sendBatch(ctx context.Context, b *batch, g givenUp, lockTimeout time.Duration) (*sent, error) {
	nothing := assumed{contents: !g.memory}
	switch {
	case g.marks:
		return s.sendUnmarked(ctx, b, nothing, lockTimeout)
	case b.ask == nil && !g.copying && s.places.unknown(b) >= s.tuning.manyRows:
		return s.sendMany(ctx, b, nothing, lockTimeout)
	case g.memory:
		return s.sendFew(ctx, b, nothing, lockTimeout)
	default:
		return s.sendFew(ctx, b, s.places.of(b), lockTimeout)
	}
}

// sendFew takes one round trip: a batch without begin and commit is one implicit transaction. One that asks for
// something takes more.
func (s *sender) sendFew(ctx context.Context, b *batch, a assumed, lockTimeout time.Duration) (out *sent, err error) {
	if b.ask != nil {
		out, err = s.sendAsking(ctx, b, a, lockTimeout)
	} else {
		var q pgx.Batch
		setLockTimeout(&q, lockTimeout)
		out = s.queueBatch(&q, b, a)
		s.queueLast(&q, out)
		err = s.db.Send(ctx, &q)
	}

	if pg.State(err) == fieldsql.StaleGuess {
		s.places.doubt(b, a)
	}
	return out, err
}

// sendAsking sends a batch and what it asks for, then what follows from the answers.
func (s *sender) sendAsking(
	ctx context.Context, b *batch, a assumed, lockTimeout time.Duration,
) (out *sent, err error) {
	err = s.db.Transact(ctx, func(tx pgx.Tx) error {
		var q pgx.Batch
		setLockTimeout(&q, lockTimeout)
		out = s.queueBatch(&q, b, a)

		b.ask(&q)
		if err := tx.SendBatch(ctx, &q).Close(); err != nil {
			return err
		}
		if out.marked {
			return errMarked
		}
		return s.sendAnswered(ctx, tx, out, a)
	})
	return out, err
}

// sendAnswered sends what follows once the answers are there to what a batch asked for.
func (s *sender) sendAnswered(ctx context.Context, tx pgx.Tx, out *sent, a assumed) error {
	follows, err := out.batch.then()
	if err != nil {
		return err
	}

	var q pgx.Batch
	if follows != nil {
		out.follows = s.queueBatch(&q, follows, assumed{contents: a.contents, partition: a.partition})
		touched := feed.Touched{}
		touched.AddAll(out.touched)
		touched.AddAll(out.follows.touched)
		out.touched = touched
	}
	s.queueLast(&q, out)
	return tx.SendBatch(ctx, &q).Close()
}

// queueLast queues what comes after all rows.
func (s *sender) queueLast(q *pgx.Batch, out *sent) {
	if out.batch.last != nil {
		out.batch.last(q)
	}
	out.touched.Append(q)
}

// sendMany first finds which trees are new, and copies what belongs to them.
func (s *sender) sendMany(ctx context.Context, b *batch, a assumed, lockTimeout time.Duration) (*sent, error) {
	out := &sent{batch: b, touched: b.touched, fresh: newTrees{}}
	err := s.db.Transact(ctx, func(tx pgx.Tx) error {
		var roots, rest pgx.Batch
		passes := b.passes(a)
		setLockTimeout(&roots, lockTimeout)
		s.queueRoots(&roots, passes[0], a, out)
		out.fresh.queueNew(&roots, passes[0])
		if err := tx.SendBatch(ctx, &roots).Close(); err != nil {
			return err
		}

		contents, err := s.contents.planContents(b, a, out.fresh).copy(ctx, tx, out.fresh)
		if err != nil {
			return err
		}
		left, err := out.fresh.copy(ctx, tx, native, passes[1:])
		if err != nil {
			return err
		}

		out.contents = contents.onRecord
		contents.queue(&rest, time.Time{})
		s.queuePasses(&rest, left, a)
		out.queuedTexts = s.searchMemory.queue(&rest, passes)
		s.queueLast(&rest, out)
		return tx.SendBatch(ctx, &rest).Close()
	})
	return out, err
}

// setLockTimeout queues the statement that bounds the waits for locks of a transaction, unless d is
// 0.
func setLockTimeout(q *pgx.Batch, d time.Duration) {
	if d > 0 {
		q.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// queueBatch queues the statements of a batch that write its rows. It returns what they find out, once they are sent.
func (s *sender) queueBatch(q *pgx.Batch, b *batch, a assumed) *sent {
	out := &sent{batch: b, touched: b.touched}
	passes := b.passes(a)
	s.queueRoots(q, passes[0], a, out)

	shared := s.contents.planContents(b, a, nil)
	out.contents = shared.onRecord
	shared.queue(q, a.partition)

	s.queuePasses(q, passes[1:], a)
	out.queuedTexts = s.searchMemory.queue(q, passes)
	return out
}

// queueRoots queues the first pass. Root plans that the batch does not write to are only locked if all should be on
// record: then all are locked first, in their order. Only a statement after the locks sees every mark.
func (s *sender) queueRoots(q *pgx.Batch, roots []*field.Row, a assumed, out *sent) {
	b := out.batch
	placed := !a.partition.IsZero()
	var traces []string
	if !placed || a.writesRoots {
		traces = lockTraces(q, roots)
	}
	if !placed || a.begins {
		s.statements.merge(q, roots, assumed{})
	}

	ids := slices.Sorted(maps.Keys(b.touched))
	switch outside := b.locked == nil; {
	case placed && outside:
		q.Queue(db.PlanLockOutside, ids, b.plans(), a.partition)
	case placed:
		q.Queue(db.PlanLockPlaced, ids, a.partition)
	case outside:
		b.refuseOwned(q)
	}
	if b.locked != nil {
		b.locked(q)
	}
	if written := written(roots); placed && !a.begins && len(written) > 0 {
		s.statements.merge(q, written, assumed{})
	}

	if doubted := b.doubted(); len(doubted) > 0 {
		q.Queue(db.InterruptedAny, doubted).QueryRow(func(row pgx.Row) error { return row.Scan(&out.marked) })
	}
	if len(traces) > 0 {
		q.Queue(db.TraceRecall, traces)
	}
}

// written returns the rows of which more is known than their keys.
func written(rows []*field.Row) []*field.Row {
	return slices.DeleteFunc(slices.Clone(rows), keyOnly)
}

func (s *sender) queuePasses(q *pgx.Batch, passes [][]*field.Row, a assumed) {
	for _, rows := range passes {
		s.statements.merge(q, rows, a)
		if a.grows && rows[0].Change.Kind() == record.KindActTool {
			calls := make([]record.Key, len(rows))
			for i, r := range rows {
				calls[i] = r.Change.Key()
			}
			s.statements.latestTool(q, calls, a)
		}
	}
}

// sendUnmarked commits a batch, after the marks are undone that it undoes.
func (s *sender) sendUnmarked(
	ctx context.Context, b *batch, a assumed, lockTimeout time.Duration,
) (out *sent, err error) {
	err = s.db.Transact(ctx, func(tx pgx.Tx) error {
		var q pgx.Batch
		setLockTimeout(&q, lockTimeout)
		lockTraces(&q, b.passes(a)[0]) // before root plans, as everywhere
		q.Queue(db.PlanLock, slices.Sorted(maps.Keys(b.touched)))
		if err := tx.SendBatch(ctx, &q).Close(); err != nil {
			return err
		}

		if out, err = s.unmark(ctx, tx, b, a); err != nil {
			return err
		}
		if b.ask != nil {
			q = pgx.Batch{}
			b.ask(&q)
			if err := tx.SendBatch(ctx, &q).Close(); err != nil {
				return err
			}
			return s.sendAnswered(ctx, tx, out, a)
		}

		q = pgx.Batch{}
		s.queueLast(&q, out)
		return tx.SendBatch(ctx, &q).Close()
	})
	return out, err
}

// unmark undoes the marks that a batch undoes, in trees whose root plans the transaction holds, and
// writes the batch.
func (s *sender) unmark(ctx context.Context, tx pgx.Tx, b *batch, a assumed) (*sent, error) {
	u := b.undone()
	rows, err := tx.Query(
		ctx, db.InterruptedUndo, u.EndedRoots, u.Kinds, u.StepIds, u.Seqs, u.Ids, u.Attempts, u.RootPlanIds)
	if err != nil {
		return nil, err
	}

	undone := feed.Touched{}
	var steps []*field.Row
	var root, step string
	if _, err := pgx.ForEachRow(rows, []any{&root, &step}, func() error {
		undone.Add(root, record.KindPlan)
		undone.Add(root, record.KindAgentExecution)
		undone.Add(root, record.KindThinkAct)
		undone.Add(root, record.KindActTool)
		if step != "" {
			steps = append(steps, &field.Row{Change: &record.AgentExecution{RootPlanID: root, StepID: step}})
		}
		return nil
	}); err != nil {
		return nil, err
	}

	var q pgx.Batch
	if len(steps) > 0 {
		s.statements.merge(&q, steps, assumed{})
	}
	out := s.queueBatch(&q, b, a)
	undone.AddAll(b.touched)
	out.touched = undone
	return out, tx.SendBatch(ctx, &q).Close()
}

// lockTraces locks the traces that root plans name, and returns their ids: their rows belong
// to the plans' trees and are to be made again. The transaction that makes them waits for the
// locks, and so until the plans are on record.
func lockTraces(q *pgx.Batch, roots []*field.Row) (ids []string) {
	var keys []int64
	for _, r := range roots {
		if p := r.Change.(*record.Plan); p.TraceID != nil && isTraceID(*p.TraceID) {
			ids, keys = append(ids, *p.TraceID), append(keys, traceKey(*p.TraceID))
		}
	}
	if len(ids) > 0 {
		slices.Sort(keys)
		q.Queue(db.PlanLockTable)
		q.Queue(db.TraceLock, keys)
	}
	return ids
}

func isTraceID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

// traceKey is what the advisory lock of a trace is on: the digits of its id that every maker
// of ids draws at random.
func traceKey(id string) int64 {
	n, _ := strconv.ParseUint(id[16:], 16, 64)
	return int64(n)
}
