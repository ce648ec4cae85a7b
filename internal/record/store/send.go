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

// sender commits batches.
type sender struct {
	db         *pg.DB
	feed       *feed.Feed
	tuning     *tuning
	statements *statements
	places     *places
	said       *said
	contents   *contents
	counters   *counters
	checkRoom  func() error // see Config.Room
}

// room returns the reason if the disk has no room for a transaction.
func (s *sender) room() error {
	if s.checkRoom == nil {
		return nil
	}
	if err := s.checkRoom(); err != nil {
		s.counters.failed()
		return fmt.Errorf("%w: %w", record.ErrDiskFull, err)
	}
	return nil
}

// send commits a batch in one transaction. Locks are waited for as long as the connection
// says, or as lockTimeout does.
func (s *sender) send(ctx context.Context, b *batch, lockTimeout time.Duration) error {
	if err := s.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	start := time.Now()
	fresh, err := s.sendBatch(ctx, b, lockTimeout)
	if err != nil {
		if pg.State(err) != owned { // that is a client's fault
			s.counters.failed()
		}
		return err
	}
	s.places.learn(b, fresh)
	s.said.learn(b)
	s.contents.learn(b)
	s.feed.Grew()
	s.counters.committed(len(b.rows), b.folded, time.Since(start))
	return nil
}

// sendBatch writes a batch, and once more if it turned out that it undoes marks. It returns the trees that are new, if it knows them.
func (s *sender) sendBatch(ctx context.Context, b *batch, lockTimeout time.Duration) (newTrees, error) {
	fresh, err := s.sendLikely(ctx, b, lockTimeout)
	if err == nil && b.marked {
		err = s.sendUnmarked(ctx, b, lockTimeout)
		if pg.State(err) == fieldsql.StaleGuess {
			b.distrusts = true
			err = s.sendUnmarked(ctx, b, lockTimeout)
		}
	}
	return fresh, err
}

// sendLikely writes a batch the likely way. What turns out to be wrong is given up, one thing after
// another. It returns the trees that are new, if it knows them.
func (s *sender) sendLikely(ctx context.Context, b *batch, lockTimeout time.Duration) (newTrees, error) {
	var a assumed
	if s.places.unknown(b) >= s.tuning.manyRows {
		fresh, err := s.sendMany(ctx, b, lockTimeout)
		switch {
		case pg.State(err) == fieldsql.StaleGuess:
			b.distrusts = true
		case !notCopied(err):
			return fresh, err
		}
	} else {
		a = s.places.of(b)
	}
	err := s.sendFew(ctx, b, a, lockTimeout)
	if pg.State(err) == fieldsql.StaleGuess {
		s.places.doubt(b, a)
		b.distrusts = true
		err = s.sendFew(ctx, b, assumed{}, lockTimeout)
	}
	return nil, err
}

// sendFew takes one round trip: a batch without begin and commit is one implicit transaction.
func (s *sender) sendFew(ctx context.Context, b *batch, a assumed, lockTimeout time.Duration) error {
	var q pgx.Batch
	setLockTimeout(&q, lockTimeout)
	s.queueBatch(&q, b, a)
	b.touched.Append(&q)
	return s.db.Send(ctx, &q)
}

// sendMany first finds which trees are new, and copies what belongs to them.
func (s *sender) sendMany(ctx context.Context, b *batch, lockTimeout time.Duration) (newTrees, error) {
	fresh := newTrees{}
	err := s.db.Transact(ctx, func(tx pgx.Tx) error {
		var roots, rest pgx.Batch
		passes := b.passes(assumed{})
		setLockTimeout(&roots, lockTimeout)
		s.queueRoots(&roots, b, passes[0], assumed{})
		fresh.queueNew(&roots, passes[0])
		if err := tx.SendBatch(ctx, &roots).Close(); err != nil {
			return err
		}
		contents, err := s.contents.share(b, fresh).copy(ctx, tx, fresh)
		if err != nil {
			return err
		}
		left, err := fresh.copy(ctx, tx, native, passes[1:])
		if err != nil {
			return err
		}
		contents.queue(&rest, time.Time{})
		s.queuePasses(&rest, left, assumed{})
		s.said.queue(&rest, b, passes)
		if b.written != nil {
			b.written(&rest)
		}
		b.touched.Append(&rest)
		return tx.SendBatch(ctx, &rest).Close()
	})
	return fresh, err
}

// setLockTimeout queues the statement that bounds the waits for locks of a transaction, unless d is
// 0.
func setLockTimeout(q *pgx.Batch, d time.Duration) {
	if d > 0 {
		q.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// queueBatch queues all statements of a batch but the one for the feed.
func (s *sender) queueBatch(q *pgx.Batch, b *batch, a assumed) {
	passes := b.passes(a)
	s.queueRoots(q, b, passes[0], a)
	s.contents.queue(q, b, a.part)
	s.queuePasses(q, passes[1:], a)
	s.said.queue(q, b, passes)
	if b.written != nil {
		b.written(q)
	}
}

// queueRoots queues the first pass. Root plans that the batch does not write to, and that
// should be on record, are only locked. Only a statement after the locks sees every mark.
func (s *sender) queueRoots(q *pgx.Batch, b *batch, roots []*field.Row, a assumed) {
	var traces []string
	if a.part.IsZero() || a.told {
		traces = lockTraces(q, roots)
		s.statements.merge(q, roots, assumed{})
	}
	ids := slices.Sorted(maps.Keys(b.touched))
	switch placed, outside := !a.part.IsZero(), b.locked == nil; {
	case placed && outside:
		q.Queue(db.PlanLockOutside, ids, b.plans(), a.part)
	case placed:
		q.Queue(db.PlanLockPlaced, ids, a.part)
	case outside:
		b.refuseOwned(q)
	}
	if b.locked != nil {
		b.locked(q)
	}
	if doubted := b.doubted(); len(doubted) > 0 {
		q.Queue(db.InterruptedAny, doubted).QueryRow(b.readMarked)
	}
	if len(traces) > 0 {
		q.Queue(db.TraceRecall, traces)
	}
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

// sendUnmarked commits a batch once more, after the marks are undone that it undoes.
func (s *sender) sendUnmarked(ctx context.Context, b *batch, lockTimeout time.Duration) error {
	return s.db.Transact(ctx, func(tx pgx.Tx) error {
		var q pgx.Batch
		setLockTimeout(&q, lockTimeout)
		lockTraces(&q, b.passes(assumed{})[0]) // before root plans, as everywhere
		q.Queue(db.PlanLock, slices.Sorted(maps.Keys(b.touched)))
		if err := tx.SendBatch(ctx, &q).Close(); err != nil {
			return err
		}
		if err := s.unmark(ctx, tx, b); err != nil {
			return err
		}
		q = pgx.Batch{}
		b.touched.Append(&q)
		return tx.SendBatch(ctx, &q).Close()
	})
}

// unmark undoes the marks that a batch undoes, in trees whose root plans the transaction holds, and
// writes the batch.
func (s *sender) unmark(ctx context.Context, tx pgx.Tx, b *batch) error {
	u := b.undone()
	rows, err := tx.Query(ctx, db.InterruptedUndo, u.EndedRoots, u.Kinds, u.StepIds, u.Seqs, u.Ids, u.Attempts, u.RootPlanIds)
	if err != nil {
		return err
	}
	var steps []*field.Row
	var root, step string
	if _, err := pgx.ForEachRow(rows, []any{&root, &step}, func() error {
		for _, kind := range []record.Kind{record.KindPlan, record.KindAgentExecution, record.KindThinkAct, record.KindActTool} {
			b.touched.Add(root, kind)
		}
		if step != "" {
			steps = append(steps, &field.Row{Change: &record.AgentExecution{RootPlanID: root, StepID: step}})
		}
		return nil
	}); err != nil {
		return err
	}
	var q pgx.Batch
	if len(steps) > 0 {
		s.statements.merge(&q, steps, assumed{})
	}
	s.queueBatch(&q, b, assumed{})
	return tx.SendBatch(ctx, &q).Close()
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
