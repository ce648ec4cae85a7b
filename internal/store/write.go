package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/record"
)

const (
	// sendTimeout bounds one try of a transaction: a network may swallow the answer.
	sendTimeout = time.Minute
	// heldTimeout is how long a tree that may be held is waited for.
	heldTimeout = 20 * time.Millisecond
)

// Write puts changes on record and returns when they are committed. It is the
// only way in. Changes that are not valid are named in the result and do not keep
// the others from being written; an error means that it is not known what was
// written, and that writing the same again does no harm.
//
// Callers at the same time share a transaction. When the queue is full, Write
// waits. [record.ErrUnavailable] comes after RetryFor, from when Write was called
// (where that is more than the queue holds: from when the last part of it was
// committed), because Postgres is away, its disk is full ([ErrDiskFull]) or
// another session holds a row ([LockedError]).
func (s *Store) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	entries := make([]*entry, len(changes))
	var sorted sorter
	for i, c := range changes {
		row, err := record.NewRow(c)
		entries[i] = &entry{row: row, err: err}
		if err == nil {
			s.price(row.Change)
			entries[i].size = rowBytes(row)
			sorted.add(entries[i])
		}
	}
	for _, c := range s.queue.cut(sorted.requests) {
		if err := s.queue.wait(ctx, c); err != nil {
			return record.Result{}, fmt.Errorf("writing %d changes: %w", len(changes), err)
		}
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

// sorter makes requests of entries. They may be committed in any order; what is
// said about one row may not.
type sorter struct {
	requests []*request
	last     map[string]*request     // by root
	homes    map[record.Key]*request // by row
}

// add puts an entry into the request that its row is in already, else into the
// last one of its tree, or into a new one when that is full.
func (s *sorter) add(e *entry) {
	if s.last == nil {
		s.last, s.homes = map[string]*request{}, map[record.Key]*request{}
	}
	key := e.row.Change.Key()
	home := s.homes[key]
	if home == nil {
		home = s.last[key.Root]
		if home == nil || len(home.entries) >= maxBatchRows || home.bytes+e.size > maxBatchBytes {
			home = &request{root: key.Root}
			s.requests = append(s.requests, home)
			s.last[key.Root] = home
		}
		s.homes[key] = home
	}
	home.entries = append(home.entries, e)
	home.bytes += e.size
}

// writeQueue is a writer: it commits what is queued, batch by batch, until the
// store is closed. What meets a lock goes aside.
func (s *Store) writeQueue() {
	for taken := s.queue.take(); taken != nil; taken = s.queue.take() {
		s.queue.hold(s.commit(taken, 0), false)
	}
}

// writeHeld commits what went aside, for as long as the queue is not empty. It
// hardly waits for a lock: there may be many.
func (s *Store) writeHeld() {
	for taken := s.queue.takeHeld(s.writing); taken != nil; taken = s.queue.takeHeld(s.writing) {
		held := s.commit(taken, heldTimeout)
		if len(held) > 0 && s.heldLogged.due() {
			s.log.Warn("rows are locked by another session of the database; what is told of their plans waits", "plan", held[0].root)
		}
		s.queue.hold(held, true)
	}
}

// commit writes requests in one transaction and answers them. Everything that
// Postgres could refuse is checked before; should it refuse something all the
// same, the batch is split by root, then halved, until the entry at fault stands
// alone. What met a lock is given back: all of it, or, where lockTimeout is set,
// that of the trees that are held.
func (s *Store) commit(requests []*request, lockTimeout time.Duration) (held []*request) {
	requests, err := s.try(requests, lockTimeout)
	if len(requests) == 0 {
		return nil
	}
	several := slices.ContainsFunc(requests, func(r *request) bool { return r.root != requests[0].root })
	first := requests[0].entries
	switch {
	case err == nil:
		s.queue.answer(requests)
	case locked(err) && (lockTimeout == 0 || !several):
		return requests
	case !refused(err) && !locked(err):
		for _, r := range requests {
			if !errors.Is(err, record.ErrClosed) {
				s.queue.givenUp.Add(uint64(len(r.entries)))
			}
			for _, e := range r.entries {
				e.err = translate(err)
			}
		}
		s.queue.answer(requests)
	case len(requests) > 1:
		slices.SortStableFunc(requests, func(a, b *request) int { return cmp.Compare(a.root, b.root) })
		half := splitAt(requests)
		return append(s.commit(requests[:half], lockTimeout), s.commit(requests[half:], lockTimeout)...)
	case len(first) > 1:
		a, b := s.queue.halve(requests[0])
		if held := s.commit([]*request{a}, lockTimeout); len(held) > 0 {
			return append(held, b) // what is said of one row stays in its order
		}
		return s.commit([]*request{b}, lockTimeout)
	default:
		s.log.Warn("a change passed every check, yet the database refused it", "key", first[0].row.Change.Key(), "error", err)
		first[0].err = refusal(err)
		s.queue.answer(requests)
	}
	return nil
}

// splitAt halves sorted requests, at a change of root where there is one.
func splitAt(requests []*request) int {
	half := len(requests) / 2
	for d := range half {
		for _, i := range []int{half - d, half + d} {
			if i > 0 && i < len(requests) && requests[i-1].root != requests[i].root {
				return i
			}
		}
	}
	return half
}

// try sends requests until they are committed, again and again where that may
// help, with growing pauses, for as long as someone waits for them. It gives those
// that someone does.
func (s *Store) try(requests []*request, lockTimeout time.Duration) ([]*request, error) {
	for attempt := 0; ; attempt++ {
		requests = s.queue.awaited(requests)
		if len(requests) == 0 {
			return nil, nil
		}
		err := s.send(requests, lockTimeout)
		switch {
		case err == nil:
			s.queue.note(nil)
			return requests, nil
		case s.writing.Err() != nil:
			return requests, record.ErrClosed
		case !transient(err) || locked(err):
			return requests, err
		}
		s.queue.note(translate(err))
		if s.again(s.writing, attempt, err) != nil {
			return requests, record.ErrClosed
		}
	}
}

// again waits before a transaction is tried again, ever longer, until ctx ends.
func (s *Store) again(ctx context.Context, attempt int, err error) error {
	s.counters.retries.Add(1)
	if s.retryLogged.due() {
		s.log.Warn("writing is tried again", "attempt", attempt+1, "error", err)
	}
	return pause(ctx, backoff(attempt))
}

// seldom holds back lines of the log that could come all the time.
type seldom struct{ last atomic.Int64 }

// due is true at first, then every ten seconds at most.
func (l *seldom) due() bool {
	now, last := time.Now().UnixNano(), l.last.Load()
	return now-last >= int64(10*time.Second) && l.last.CompareAndSwap(last, now)
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
