package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Tx is a transaction of [Store.InTx]: writes to the record, and other statements. It has the
// methods of a connection that sqlc's queries take. It is for one goroutine.
type Tx struct {
	store  *Store
	tx     pgx.Tx
	relies assumed // what its batches rely on
	sent   []*sent
}

// InTx runs f in one transaction. When f returns nil, everything that it wrote is committed
// together, and the feed learns of it. The transaction is rolled back if f returns an error.
//
// InTx calls f again, in a new transaction, if Postgres was away or another session was in the
// way, for RetryFor; so f must have no effect but on the Tx. f is given a context that also ends
// when the store is closed, or after a minute. The errors are those of Write, or f's own. If the
// connection is lost during the commit, nobody knows whether it happened: InTx does not repeat
// it, and returns [record.ErrUnavailable].
func (s *Store) InTx(ctx context.Context, f func(context.Context, *Tx) error) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	defer s.goroutines.Done()

	committing := false
	soon := retryFor(s.config.RetryFor)
	again := func(err error) bool { return (!committing || !pg.ConnectionLost(err)) && soon(err) }
	err := s.ladder.try(ctx, again, func(g givenUp) (err error) {
		committing, err = s.inTx(ctx, g, f)
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	return pg.Translate(err)
}

// inTx is one transaction. committing reports that only the commit can have failed.
func (s *Store) inTx(ctx context.Context, g givenUp, f func(context.Context, *Tx) error) (committing bool, err error) {
	if err := s.sender.room(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	defer context.AfterFunc(s.ladder.sending, cancel)()

	start := time.Now()
	t := &Tx{store: s, relies: assumed{contents: !g.memory}}
	err = s.db.Transact(ctx, func(tx pgx.Tx) error {
		t.tx, t.sent = tx, nil
		if err := f(ctx, t); err != nil {
			return err
		}

		touched := feed.Touched{}
		for _, out := range t.sent {
			touched.AddAll(out.touched)
		}
		if len(touched) > 0 {
			var q pgx.Batch
			touched.Append(&q)
			if err := tx.SendBatch(ctx, &q).Close(); err != nil {
				return err
			}
		}
		committing = true
		return nil
	})
	if err != nil {
		return committing, err
	}

	for _, out := range t.sent {
		s.sender.places.learn(out.batch, nil)
		s.sender.learn(out, time.Since(start))
	}
	return true, nil
}

// Write writes changes as [Store.Write] does, in the transaction: nothing is on record before
// it commits. Changes that are not valid are named in the result, and the others are written.
// If Postgres refuses a change that passed every check, the whole transaction fails.
//
// A transaction that writes to several trees locks them in the order of its writes. Write to
// them in one call, or in the order of their ids, or Postgres may end it as a deadlock.
func (t *Tx) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	return t.write(ctx, changes, nil)
}

// Mark is Write for rows that are on record, in trees that are not owned. They may name plans that are: a record could
// do so before there was such a plan.
func (t *Tx) Mark(ctx context.Context, changes []record.Change) (record.Result, error) {
	return t.write(ctx, changes, trusted)
}

// write is Write. locked is that of the batch.
func (t *Tx) write(ctx context.Context, changes []record.Change, locked func(*pgx.Batch)) (record.Result, error) {
	entries, requests := t.store.prepare(changes)
	result, err := t.store.result(entries)
	if err != nil || len(requests) == 0 {
		return result, err
	}
	valid := slices.DeleteFunc(entries, func(e *entry) bool { return e.err != nil })
	b := newBatch(valid)
	b.locked = locked

	var q pgx.Batch
	out := t.store.sender.queueBatch(&q, b, t.relies)
	err = t.tx.SendBatch(ctx, &q).Close()
	if err == nil && out.marked {
		out, err = t.store.sender.unmark(ctx, t.tx, b, t.relies)
	}
	if err != nil {
		return record.Result{}, fmt.Errorf("write %d changes: %w", len(changes), err)
	}

	t.sent = append(t.sent, out)
	return result, nil
}

// WriteOwned is Write for who owns the trees, see [Store.WriteOwned]. A change that is not valid is an error.
func (t *Tx) WriteOwned(ctx context.Context, changes []record.Change) error {
	result, err := t.write(ctx, changes, trusted)
	if err == nil && len(result.Rejected) > 0 {
		err = result.Rejected[0].Err
	}
	return err
}

// Lock locks root plans that are on record, as every writer to their trees does.
func (t *Tx) Lock(ctx context.Context, rootPlanIDs ...string) error {
	_, err := t.tx.Exec(ctx, db.PlanLock, rootPlanIDs)
	return err
}

// SendBatch sends statements in one round trip.
func (t *Tx) SendBatch(ctx context.Context, q *pgx.Batch) pgx.BatchResults {
	return t.tx.SendBatch(ctx, q)
}

// Exec runs a statement in the transaction.
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.tx.Exec(ctx, sql, args...)
}

// Query runs a query in the transaction.
func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.tx.Query(ctx, sql, args...)
}

// QueryRow runs a query of one row in the transaction.
func (t *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.tx.QueryRow(ctx, sql, args...)
}
