package store

import (
	"context"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

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
