package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/actlog/actlog/record"
)

// sendTimeout bounds one try of a transaction: a network may swallow the answer.
const sendTimeout = time.Minute

// Write puts changes on record and returns when they are committed. It is the
// only way in. Changes that are not valid are named in the result and do not keep
// the others from being written; an error means that it is not known what was
// written, and that writing the same again does no harm.
//
// Callers at the same time share a transaction. When the queue is full, Write
// waits. [record.ErrUnavailable] comes after Postgres was away for RetryFor.
func (s *Store) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	entries := make([]*entry, len(changes))
	var requests []*request
	// Requests may be committed in any order; what is said about one row may not.
	homes := map[record.Key]*request{}
	for i, c := range changes {
		row, err := record.NewRow(c)
		entries[i] = &entry{row: row, err: err}
		if err == nil {
			s.price(row.Change)
			entries[i].size = rowBytes(row)
			requests = add(requests, homes, entries[i])
		}
	}
	for i, r := range requests {
		if err := s.queue.push(ctx, r); err != nil {
			return record.Result{}, errors.Join(fmt.Errorf("writing %d changes: %w", len(changes), err), s.await(ctx, requests[:i]))
		}
	}
	if err := s.await(ctx, requests); err != nil {
		return record.Result{}, fmt.Errorf("writing %d changes: %w", len(changes), err)
	}
	var result record.Result
	for i, e := range entries {
		var invalid *record.InvalidError
		switch {
		case e.err == nil:
			result.Accepted++
		case errors.As(e.err, &invalid):
			s.counters.refused.Add(1)
			result.Rejected = append(result.Rejected, record.Rejection{Index: i, Err: invalid})
		default:
			return record.Result{}, fmt.Errorf("writing %d changes: %w", len(changes), e.err)
		}
	}
	return result, nil
}

// add puts an entry into the request that its row is in already, else into the
// last one, or into a new one when that is full.
func add(requests []*request, homes map[record.Key]*request, e *entry) []*request {
	key := e.row.Change.Key()
	home := homes[key]
	if home == nil {
		if n := len(requests); n > 0 && len(requests[n-1].entries) < maxBatchRows && requests[n-1].bytes+e.size <= maxBatchBytes {
			home = requests[n-1]
		} else {
			home = &request{done: make(chan struct{})}
			requests = append(requests, home)
		}
		homes[key] = home
	}
	home.entries = append(home.entries, e)
	home.bytes += e.size
	return requests
}

func (s *Store) await(ctx context.Context, requests []*request) error {
	for _, r := range requests {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// writeQueue is a writer: it commits what is queued, batch by batch, until the
// store is closed.
func (s *Store) writeQueue() {
	for taken := s.queue.take(); taken != nil; taken = s.queue.take() {
		var entries []*entry
		for _, r := range taken {
			entries = append(entries, r.entries...)
		}
		s.commit(entries)
		s.queue.release(taken)
	}
}

// commit writes entries in one transaction. Everything that Postgres could refuse
// is checked before; should it refuse something all the same, the batch is split
// by root, then halved, until the entry at fault stands alone. It is split, too,
// where someone holds a row of one of its trees, for the others' sake.
func (s *Store) commit(entries []*entry) {
	several := slices.ContainsFunc(entries, func(e *entry) bool { return compareRoots(e.row.Change, entries[0].row.Change) != 0 })
	held := func(err error) bool { return several && sqlState(err) == "55P03" }
	err := s.retry(held, func() error {
		ctx, cancel := context.WithTimeout(s.writing, sendTimeout)
		defer cancel()
		return s.send(ctx, entries)
	})
	switch {
	case err == nil:
	case !refused(err) && !held(err):
		if !errors.Is(err, record.ErrClosed) {
			s.counters.givenUp.Add(uint64(len(entries)))
		}
		for _, e := range entries {
			e.err = translate(err)
		}
	case len(entries) == 1:
		s.log.Warn("a change passed every check, yet the database refused it", "key", entries[0].row.Change.Key(), "error", err)
		entries[0].err = refusal(err)
	default:
		slices.SortStableFunc(entries, func(a, b *entry) int { // the order of one root's stays
			return compareRoots(a.row.Change, b.row.Change)
		})
		half := splitAt(entries)
		s.commit(entries[:half])
		s.commit(entries[half:])
	}
}

// splitAt halves sorted entries, at a change of root where there is one.
func splitAt(entries []*entry) int {
	half := len(entries) / 2
	for d := range half {
		for _, i := range []int{half - d, half + d} {
			if i > 0 && i < len(entries) && compareRoots(entries[i-1].row.Change, entries[i].row.Change) != 0 {
				return i
			}
		}
	}
	return half
}

// retry tries again what may succeed then, with growing pauses, for RetryFor; an
// error that unless is true of comes back at once.
func (s *Store) retry(unless func(error) bool, try func() error) error {
	deadline := time.Now().Add(s.config.RetryFor)
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || s.writing.Err() != nil || !transient(err) || unless(err) {
			if err != nil && s.writing.Err() != nil {
				return record.ErrClosed
			}
			return err
		}
		if !time.Now().Before(deadline) {
			s.log.Error("writing was given up", "attempts", attempt+1, "error", err)
			return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
		}
		s.counters.retries.Add(1)
		s.log.Warn("writing is tried again", "attempt", attempt+1, "error", err)
		if pause(s.writing, backoff(attempt)) != nil {
			return record.ErrClosed
		}
	}
}

// backoff grows from 20 ms to 1 s, with jitter so that writers do not meet again.
func backoff(attempt int) time.Duration {
	ceiling := min(time.Second, 20*time.Millisecond<<min(attempt, 10))
	return ceiling/2 + rand.N(ceiling/2)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
