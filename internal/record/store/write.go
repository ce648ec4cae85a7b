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
// has gathered. A store has one for what comes from outside, and one for the owners of trees.
type writer struct {
	sender      *sender
	ladder      *ladder
	prices      *prices
	queue       *queue
	ofOwners    bool
	lockTimeout time.Duration // how long several trees wait for a lock; 0: as long as the connection says
	log         *slog.Logger
	blocked     pg.Seldom // limits log lines

	goroutines sync.WaitGroup
}

func (w *writer) start(writers int) {
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

	select {
	case <-done:
		return nil
	case <-ctx.Done():
		w.ladder.stop()
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

func (w *writer) prepare(changes []record.Change) ([]*entry, []*request) {
	entries := make([]*entry, len(changes))
	var sorted sorter
	for i, c := range changes {
		row, err := field.NewRow(c)
		entries[i] = &entry{row: row, err: err}
		if err == nil {
			w.prices.apply(row.Change)
			row.CutTexts(w.sender.contents.sizes)
			entries[i].size = rowBytes(row)
			sorted.add(entries[i])
		}
	}
	return entries, sorted.requests
}

func (w *writer) result(entries []*entry) (result record.Result, err error) {
	for i, e := range entries {
		var invalid *record.InvalidError
		switch {
		case e.err == nil:
			result.Accepted++
		case errors.As(e.err, &invalid):
			w.sender.counters.refused.Add(1)
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
		w.queue.putAside(w.commit(w.ladder.sending, taken, false), false)
		w.queue.wrote()
	}
}

// writeLocked commits what was put aside, until the queue is closed and empty.
func (w *writer) writeLocked() {
	for taken := w.queue.waitForDue(w.ladder.sending); taken != nil; taken = w.queue.waitForDue(w.ladder.sending) {
		locked := w.commit(w.ladder.sending, taken, true)
		if len(locked) > 0 && w.blocked.Due() {
			w.log.Warn("another database session holds locks on these plans; writes to them wait", "plan", locked[0].root)
		}
		w.queue.putAside(locked, true)
	}
}

// commit writes requests and answers them. It returns those that met a lock: all that were in a transaction with them,
// or, if each tree is tried apart, those of the trees that are locked.
func (w *writer) commit(ctx context.Context, requests []*request, apart bool) (locked []*request) {
	aside, groups := new(lockMet), [][]*request{requests}
	if w.ofOwners {
		groups = byPlace(w.sender.places, requests)
	}
	for _, group := range groups {
		all := &requestLoad{writer: w, requests: group, apart: apart, aside: aside}
		_ = w.ladder.write(ctx, all) // each request has an answer of its own
	}
	return aside.requests
}

// requestLoad is requests on their way into a transaction. Everything that Postgres could refuse is checked before.
// Should it refuse something all the same, the load is split by root, then halved, until the entry at fault is alone.
type requestLoad struct {
	writer   *writer
	requests []*request // for which somebody waits
	apart    bool       // if some tree is locked, each is tried apart, and not for long
	aside    *lockMet   // shared with the loads that it is split into
	lost     int        // tries that lost a race
}

// lockMet is requests that met a lock, and the error that said so.
type lockMet struct {
	requests []*request
	err      error
}

func (l *requestLoad) send(ctx context.Context, g givenUp) error {
	l.requests = l.writer.queue.awaited(l.requests)
	if len(l.requests) == 0 {
		return nil
	}
	if slices.ContainsFunc(l.aside.requests, func(r *request) bool { return r.root == l.requests[0].root }) {
		return l.aside.err // changes to one row stay in their order
	}

	var entries []*entry
	for _, r := range l.requests {
		entries = append(entries, r.entries...)
	}
	b := newBatch(entries)
	if l.writer.ofOwners {
		b.own(l.requests, l.writer.prepare)
	}

	var lockTimeout time.Duration
	switch {
	case l.apart:
		lockTimeout = lockedTimeout
	case len(b.touched) > 1:
		lockTimeout = l.writer.lockTimeout
	}
	err := l.writer.sender.send(ctx, b, g, lockTimeout)
	if pg.MayBeCommitted(err) {
		for _, r := range l.requests {
			r.unsure = true
		}
	}
	return err
}

func (l *requestLoad) again(err error) bool {
	if pg.Locked(err) {
		return false
	}
	if l.writer.ofOwners && lostRace(err) {
		l.lost++
		if l.lost == racesOfOwners {
			return false
		}
	}
	l.writer.queue.note(pg.Translate(err))
	return true
}

func (l *requestLoad) finish(err error) ([]load, error) {
	w, requests := l.writer, l.requests
	if len(requests) == 0 {
		return nil, nil
	}
	several := slices.ContainsFunc(requests, func(r *request) bool { return r.root != requests[0].root })
	first := requests[0].entries

	switch {
	case err == nil:
		w.queue.note(nil)
		w.queue.answer(requests)
	case pg.Locked(err) && (!l.apart || !several):
		l.aside.requests, l.aside.err = append(l.aside.requests, requests...), err
	case pg.State(err) == owned && nameOwned(requests, ownedPlans(err)):
		return l.loads(w.refuse(requests, ownedPlans(err))), nil
	case w.ofOwners && ofOne(err):
		return l.loads(failOwned(w.queue, requests, err)...), nil
	case !pg.Refused(err) && !pg.Locked(err):
		w.giveUp(requests, err)
	case len(requests) > 1:
		slices.SortStableFunc(requests, func(a, b *request) int { return cmp.Compare(a.root, b.root) })
		half := splitAt(requests)
		return l.loads(requests[:half], requests[half:]), nil
	case len(first) > 1:
		a, b := w.queue.halve(requests[0])
		return l.loads([]*request{a}, []*request{b}), nil
	default:
		w.log.Warn("the database refused a change that passed every check", "key", first[0].row.Change.Key(), "error", err)
		first[0].err = pg.Refusal(err)
		w.queue.answer(requests)
	}
	return nil, nil
}

// loads returns loads that are written in place of this one.
func (l *requestLoad) loads(groups ...[]*request) (loads []load) {
	for _, requests := range groups {
		loads = append(loads, &requestLoad{
			writer: l.writer, requests: requests, apart: l.apart, aside: l.aside, lost: max(0, l.lost-1), // one more try
		})
	}
	return loads
}

// giveUp answers requests of which it is not known that they are on record.
func (w *writer) giveUp(requests []*request, err error) {
	for _, r := range requests {
		if !errors.Is(err, record.ErrClosed) && !errors.Is(err, context.Canceled) {
			w.queue.givenUp.Add(uint64(len(r.entries)))
		}
		r.fail(pg.Translate(err))
	}
	w.queue.answer(requests)
}

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

// enter keeps close waiting until the caller calls w.goroutines.Done.
func (w *writer) enter() error {
	if !w.queue.open(func() { w.goroutines.Add(1) }) {
		return record.ErrClosed
	}
	return nil
}
