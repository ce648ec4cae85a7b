package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// own makes a batch of requests that of the owners of its trees. prepare makes entries of what follows.
func (b *batch) own(requests []*request, prepare func([]record.Change) ([]*entry, []*request)) {
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
		b.then = func() (*batch, error) { return following(requests, prepare) }
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

// following returns what follows from what requests asked for; nil: nothing does.
func following(requests []*request, prepare func([]record.Change) ([]*entry, []*request)) (*batch, error) {
	var all []*entry
	for _, r := range requests {
		if r.owned.Then == nil {
			continue
		}

		changes, err := r.owned.Then()
		entries, _ := prepare(changes)
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
func failOwned(q *queue, requests []*request, err error) (rest [][]*request) {
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
	q.answer(failed)
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
func byPlace(p *places, requests []*request) (groups [][]*request) {
	at := map[time.Time]int{}
	for _, r := range requests {
		partition := p.sure(r.root)
		i, ok := at[partition]
		if !ok {
			i = len(groups)
			at[partition], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}
