package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// ownedTimeout is how long writes of owners to several trees wait for a lock. It is short, because all wait for one: a
// tree that is locked for longer is put aside.
const ownedTimeout = 100 * time.Millisecond

// ownedWriters is how many transactions write for owners at once: while one is large, or waits for a lock or for the
// disk, there is another one.
const ownedWriters = 2

// ownedBytes bounds what owners write in one transaction. A larger write is alone in it.
const ownedBytes = 1 << 20

// OwnedWrite is what the owner of a tree writes to it, in one piece. Its functions may be called again.
type OwnedWrite struct {
	RootPlanID string
	Hold       *Hold // nil: the write begins the tree
	Fence      Fence // the same of all writes to a store
	Changes    []record.Change
	// Asks queues what is asked once the changes are written, and Then returns the changes that follow from the answers.
	// They are written in the same transaction. Its error is that of the write. nil: nothing follows.
	Asks func(*pgx.Batch)
	Then func() ([]record.Change, error)
	// Last queues what comes after all rows. nil: nothing.
	Last func(*pgx.Batch)
	// Err is why it cannot be written, if a statement of its own finds that, and fails for that reason.
	Err error
}

// Hold says for whom a plan is written: who holds it, and since which claim.
type Hold struct {
	PlanID   string
	HolderID string
	Epoch    int64
	Wanted   string // what the plan should do, or the write fails; empty: anything
	Desired  string // what the plan should do; the fence sets it
}

// Fence queues one statement for writes that share a transaction, once their root plans are locked and before any row.
// It locks what is held in the order of the writes, which is that of the ids, and sets what each plan should do. If
// some are not held it sets Err of these writes, and fails.
type Fence func(q *pgx.Batch, writes []*OwnedWrite)

// WriteOwned writes to the tree of a root plan for who owns it: all of it or nothing. Writes that come while others are
// being written share the next transaction, with one fence for all. A write fails alone if its plan is not held, or if
// Postgres refuses something of it.
//
// The error is a [*record.InvalidError] if a change is not valid, Err of the write, or that of Postgres if a statement
// of the caller fails: then nothing is written. Else it is one of [Store.Write]. After an error of the last kind, or
// when ctx has ended, it is not known whether it was written; to do the same again does no harm. What is not being sent
// when ctx ends is never written.
func (s *Store) WriteOwned(ctx context.Context, w *OwnedWrite) error {
	entries, _ := s.prepare(w.Changes)
	result, err := s.result(entries)
	switch {
	case err != nil:
		return err
	case len(result.Rejected) > 0:
		return result.Rejected[0].Err
	}

	if len(entries) == 0 {
		root := &record.Plan{RootPlanID: w.RootPlanID, CurrentPlanID: w.RootPlanID}
		entries = []*entry{{row: &field.Row{Change: root}, size: emptyRowBytes}}
	}
	r := &request{root: w.RootPlanID, entries: entries, owned: w}
	for _, e := range entries {
		r.bytes += e.size
	}

	t := newTicket([]*request{r})
	t.forgets = true
	if err := s.owned.writeTicket(ctx, t); err != nil {
		return err
	}
	return entries[0].err
}

// writeTicket writes what a caller waits for. If nothing else is to be written, the caller does that itself: a run that
// is alone does not wait until a writer has woken up.
func (w *writer) writeTicket(ctx context.Context, t *ticket) error {
	if !w.queue.alone(t) {
		return w.queue.wait(ctx, t)
	}

	sending, stop := context.WithCancel(ctx)
	defer context.AfterFunc(w.ladder.sending, stop)()
	defer stop()
	w.queue.putAside(w.commit(sending, t.requests, false), false)
	w.queue.wrote()
	return w.queue.await(ctx, t)
}

// own makes a batch of requests that of the owners of its trees.
func (w *writer) own(b *batch, requests []*request) {
	var held []*OwnedWrite
	asks := false
	for _, r := range requests {
		r.owned.Err = nil
		asks = asks || r.owned.Asks != nil
		if r.owned.Hold != nil {
			held = append(held, r.owned)
		}
	}
	slices.SortStableFunc(held, func(x, y *OwnedWrite) int {
		return cmp.Or(cmp.Compare(x.RootPlanID, y.RootPlanID), cmp.Compare(x.Hold.PlanID, y.Hold.PlanID))
	})

	b.locked = func(q *pgx.Batch) {
		if len(held) > 0 {
			held[0].Fence(q, held)
		}
	}
	if asks {
		b.ask = queueEach(requests, func(o *OwnedWrite) func(*pgx.Batch) { return o.Asks })
		b.then = func() (*batch, error) { return w.then(requests) }
	}
	b.last = queueEach(requests, func(o *OwnedWrite) func(*pgx.Batch) { return o.Last })
}

// queueEach returns what queues the statements of each request, if it has some.
func queueEach(requests []*request, of func(*OwnedWrite) func(*pgx.Batch)) func(*pgx.Batch) {
	return func(q *pgx.Batch) {
		for _, r := range requests {
			if queue := of(r.owned); queue != nil {
				queue(q)
			}
		}
	}
}

// errUnwritten means that a request says that it cannot be written.
var errUnwritten = errors.New("a request cannot be written")

// then returns what follows from what requests asked for; nil: nothing does.
func (w *writer) then(requests []*request) (*batch, error) {
	var all []*entry
	for _, r := range requests {
		if r.owned.Then == nil {
			continue
		}

		changes, err := r.owned.Then()
		entries, _ := w.prepare(changes)
		for _, e := range entries {
			err = cmp.Or(err, e.err)
		}
		if err != nil {
			r.owned.Err = err
			return nil, errUnwritten
		}
		all = append(all, entries...)
	}

	if len(all) == 0 {
		return nil, nil
	}
	b := newBatch(all)
	b.locked = trusted
	return b, nil
}

// failOwned answers those requests of owners that cannot be written, after an error, and returns the others. If it is
// not known which of several are at fault, they are written one half after the other.
func (w *writer) failOwned(requests []*request, err error) (rest [][]*request) {
	var failed, others []*request
	for _, r := range requests {
		switch {
		case r.owned.Err == nil:
			others = append(others, r)
			continue
		case r.unsure:
			r.fail(fmt.Errorf("%w: the connection was lost, perhaps during the commit, and then: %w", record.ErrUnavailable,
				r.owned.Err))
		default:
			r.fail(r.owned.Err)
		}
		failed = append(failed, r)
	}

	switch {
	case len(failed) > 0 && len(others) > 0:
		rest = [][]*request{others}
	case len(others) > 1:
		rest = [][]*request{others[:len(others)/2], others[len(others)/2:]}
	case len(others) == 1:
		others[0].fail(pg.Translate(err))
		failed = others
	}
	w.queue.answer(failed)
	return rest
}

// racesOfOwners is how often writes of owners are sent that lose a race, before they are sent apart: what loses again
// and again must not keep others waiting.
const racesOfOwners = 3

// lostRace reports whether another session was in the way, or seems to have been.
func lostRace(err error) bool {
	code := pg.State(err)
	return strings.HasPrefix(code, "40") || strings.HasPrefix(code, "23")
}

// ofOne reports whether a write may be at fault for an error, rather than Postgres or the way there.
func ofOne(err error) bool {
	return errors.Is(err, errUnwritten) || lostRace(err) || pg.State(err) != "" && !pg.Transient(err)
}

// byPlace groups requests of owners by where their trees should lie: those of which that is not known, or was wrong,
// are a group of their own. A single tree elsewhere would make the statements for all others dearer.
func (w *writer) byPlace(requests []*request) (groups [][]*request) {
	if !w.ofOwners {
		return [][]*request{requests}
	}
	at := map[time.Time]int{}
	for _, r := range requests {
		partition := w.sender.places.sure(r.root)
		i, ok := at[partition]
		if !ok {
			i = len(groups)
			at[partition], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}
