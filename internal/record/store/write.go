package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// lockedTimeout is how long the writer of locked trees waits for a lock: there may be many.
const lockedTimeout = 20 * time.Millisecond

// writer is the write path: callers queue what they write, and a few goroutines commit what
// has gathered.
type writer struct {
	*sender
	prices *prices
	queue  *queue
	log    *slog.Logger

	retrying, blocked pg.Seldom // limit log lines

	// sending is cancelled when Close can wait no longer.
	sending    context.Context
	stop       context.CancelFunc
	goroutines sync.WaitGroup
}

// start starts the goroutines that commit.
func (w *writer) start(ctx context.Context, writers int) {
	w.sending, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	for range writers {
		w.goroutines.Go(w.writeQueue)
	}
	w.goroutines.Go(w.writeLocked)
}

// close lets the queue run empty. When ctx ends first, what is still queued is answered with
// [record.ErrClosed].
func (w *writer) close(ctx context.Context) error {
	w.queue.close()
	done := make(chan struct{})
	go func() {
		w.goroutines.Wait()
		close(done)
	}()
	defer w.stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		w.stop()
		<-done
		return fmt.Errorf("close the record: %w", ctx.Err())
	}
}

// Write puts changes on record and returns when they are committed. It is the only way in.
// Changes that are not valid are named in the result and do not keep the others from being
// written. After an error it is not known what was written; to write the same again does no
// harm.
//
// Concurrent callers share a transaction. Write waits while the queue is full. The error is
// [record.ErrUnavailable] if Postgres is away, its disk is full ([record.ErrDiskFull]) or
// another session holds a row ([record.LockedError]) for RetryFor since the call; for a call
// that the queue cannot hold, since the last part of it was committed.
func (w *writer) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	entries, requests := w.prepare(changes)
	for _, t := range w.queue.cut(requests) {
		if err := w.queue.wait(ctx, t); err != nil {
			return record.Result{}, fmt.Errorf("write %d changes: %w", len(changes), err)
		}
	}
	return w.result(entries)
}

// prepare cleans changes and sorts those that are valid into requests.
func (w *writer) prepare(changes []record.Change) ([]*entry, []*request) {
	entries := make([]*entry, len(changes))
	var sorted sorter
	for i, c := range changes {
		row, err := field.NewRow(c)
		entries[i] = &entry{row: row, err: err}
		if err == nil {
			w.prices.apply(row.Change)
			row.CutTexts(w.contents.sizes)
			entries[i].size = rowBytes(row)
			sorted.add(entries[i])
		}
	}
	return entries, sorted.requests
}

// result says what became of entries.
func (w *writer) result(entries []*entry) (result record.Result, err error) {
	for i, e := range entries {
		var invalid *record.InvalidError
		switch {
		case e.err == nil:
			result.Accepted++
		case errors.As(e.err, &invalid):
			w.counters.refused.Add(1)
			result.Rejected = append(result.Rejected, record.Rejection{Index: i, Err: invalid})
		default:
			return record.Result{}, fmt.Errorf("write %d changes: %w", len(entries), e.err)
		}
	}
	return result, nil
}

// sorter makes requests of entries. Requests may be committed in any order, so all changes to
// one row are in one request.
type sorter struct {
	requests []*request
	last     map[string]*request     // by root
	homes    map[record.Key]*request // by row
}

// add puts an entry into the request that has its row already, else into the last one of its
// tree, or into a new one if that is full.
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

// writeQueue commits what is queued, batch by batch, until the store is closed. What meets a
// lock is put aside.
func (w *writer) writeQueue() {
	for taken := w.queue.take(); taken != nil; taken = w.queue.take() {
		w.queue.putAside(w.commit(taken, 0), false)
	}
}

// writeLocked commits what was put aside, until the queue is closed and empty.
func (w *writer) writeLocked() {
	for taken := w.queue.takeAside(w.sending); taken != nil; taken = w.queue.takeAside(w.sending) {
		locked := w.commit(taken, lockedTimeout)
		if len(locked) > 0 && w.blocked.Due() {
			w.log.Warn("another database session holds locks on these plans; writes to them wait", "plan", locked[0].root)
		}
		w.queue.putAside(locked, true)
	}
}

// commit writes requests in one transaction and answers them. Everything that Postgres could
// refuse is checked before. Should it refuse something all the same, the batch is split by
// root, then halved, until the entry at fault stands alone. What met a lock is returned: all
// of it, or, with a lockTimeout, the requests of the trees that are locked.
func (w *writer) commit(requests []*request, lockTimeout time.Duration) (locked []*request) {
	requests, err := w.try(requests, lockTimeout)
	if len(requests) == 0 {
		return nil
	}
	several := slices.ContainsFunc(requests, func(r *request) bool { return r.root != requests[0].root })
	first := requests[0].entries
	switch {
	case err == nil:
		w.queue.answer(requests)
	case pg.Locked(err) && (lockTimeout == 0 || !several):
		return requests
	case pg.State(err) == owned && nameOwned(requests, ownedPlans(err)):
		return w.commit(w.refuse(requests, ownedPlans(err)), lockTimeout)
	case !pg.Refused(err) && !pg.Locked(err):
		for _, r := range requests {
			if !errors.Is(err, record.ErrClosed) {
				w.queue.givenUp.Add(uint64(len(r.entries)))
			}
			for _, e := range r.entries {
				e.err = pg.Translate(err)
			}
		}
		w.queue.answer(requests)
	case len(requests) > 1:
		slices.SortStableFunc(requests, func(a, b *request) int { return cmp.Compare(a.root, b.root) })
		half := splitAt(requests)
		return append(w.commit(requests[:half], lockTimeout), w.commit(requests[half:], lockTimeout)...)
	case len(first) > 1:
		a, b := w.queue.halve(requests[0])
		if locked := w.commit([]*request{a}, lockTimeout); len(locked) > 0 {
			return append(locked, b) // changes to one row stay in their order
		}
		return w.commit([]*request{b}, lockTimeout)
	default:
		w.log.Warn("the database refused a change that passed every check", "key", first[0].row.Change.Key(), "error", err)
		first[0].err = pg.Refusal(err)
		w.queue.answer(requests)
	}
	return nil
}

// nameOwned reports whether an entry of some requests names one of some plans.
func nameOwned(requests []*request, plans map[string]bool) bool {
	return slices.ContainsFunc(requests, func(r *request) bool {
		return slices.ContainsFunc(r.entries, func(e *entry) bool { return namesOwned(e.row.Change, plans) != "" })
	})
}

// refuse answers the entries of requests that name one of some plans, and returns requests with the others.
func (w *writer) refuse(requests []*request, plans map[string]bool) (others []*request) {
	var refused []*request
	for _, r := range requests {
		var bad, good []*entry
		for _, e := range r.entries {
			if field := namesOwned(e.row.Change, plans); field != "" {
				e.err = errOwned(field)
				bad = append(bad, e)
			} else {
				good = append(good, e)
			}
		}

		switch {
		case len(bad) == 0:
			others = append(others, r)
		case len(good) == 0:
			refused = append(refused, r)
		default:
			first, second := w.queue.split(r, bad, good)
			refused, others = append(refused, first), append(others, second)
		}
	}
	w.queue.answer(refused)
	return others
}

// splitAt halves sorted requests, at a change of root if there is one.
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

// try sends requests until they are committed, again and again if that may help, with growing
// pauses, as long as a caller waits for them. It returns the requests for which one does.
func (w *writer) try(requests []*request, lockTimeout time.Duration) ([]*request, error) {
	for attempt := 0; ; attempt++ {
		requests = w.queue.awaited(requests)
		if len(requests) == 0 {
			return nil, nil
		}
		var entries []*entry
		for _, r := range requests {
			entries = append(entries, r.entries...)
		}
		err := w.send(w.sending, newBatch(entries), lockTimeout)
		switch {
		case err == nil:
			w.queue.note(nil)
			return requests, nil
		case w.sending.Err() != nil:
			return requests, record.ErrClosed
		case !pg.Transient(err) || pg.Locked(err):
			return requests, err
		}
		w.queue.note(pg.Translate(err))
		if w.pauseBeforeRetry(w.sending, attempt, err) != nil {
			return requests, record.ErrClosed
		}
	}
}

// pauseBeforeRetry waits before a transaction is tried again. The error is that of ctx.
func (w *writer) pauseBeforeRetry(ctx context.Context, attempt int, err error) error {
	w.counters.retries.Add(1)
	if w.retrying.Due() {
		w.log.Warn("write failed; it is tried again", "attempt", attempt+1, "error", err)
	}
	return pg.Pause(ctx, pg.Backoff(attempt))
}

// enter keeps close waiting until the caller calls w.goroutines.Done.
func (w *writer) enter() error {
	if !w.queue.open(func() { w.goroutines.Add(1) }) {
		return record.ErrClosed
	}
	return nil
}
