package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actlog/actlog/record"
)

// enqueue starts to wait for a ticket of one request, and returns when the queue has the ticket. It
// is called within a synctest bubble.
func enqueue(t *testing.T, q *queue, root string, rows int) (*ticket, <-chan error) {
	t.Helper()
	ticket, done := newTicket([]*request{{root: root, entries: make([]*entry, rows)}}), make(chan error, 1)
	go func() { done <- q.wait(t.Context(), ticket) }()
	synctest.Wait()
	return ticket, done
}

// TestTicketsExpireAlone checks that only the tickets of a batch whose time is up end. The others
// are tried again.
func TestTicketsExpireAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10, 1<<20, time.Hour)
		old, oldDone := enqueue(t, q, "a", 3)
		young, youngDone := enqueue(t, q, "a", 4)
		batch := q.take()
		if len(batch) != 2 {
			t.Fatalf("a batch of %d requests", len(batch))
		}

		trouble := errors.New("away")
		q.note(trouble)
		q.expire(old)
		if err := <-oldDone; !errors.Is(err, trouble) {
			t.Errorf("the expired ticket: %v", err)
		}

		batch = q.awaited(batch)
		if len(batch) != 1 || batch[0].ticket != young || q.rows != 4 || q.givenUp.Load() != 3 {
			t.Fatalf("%d requests are still awaited, %d rows queued, %d given up", len(batch), q.rows, q.givenUp.Load())
		}
		q.answer(batch)
		if err := <-youngDone; err != nil || q.rows != 0 {
			t.Errorf("the other ticket: %v, %d rows queued", err, q.rows)
		}

		aside, done := enqueue(t, q, "a", 1)
		q.putAside(q.take(), true)
		q.expire(aside)
		var locked *record.LockedError
		if err := <-done; !errors.As(err, &locked) || locked.RootPlanID != "a" || q.rows != 0 {
			t.Errorf("the ticket of a locked tree: %v, %d rows queued", err, q.rows)
		}

		q.unlock("a")
		q.note(nil)
		untried, done := enqueue(t, q, "a", 1)
		q.expire(untried)
		if err := <-done; !errors.Is(err, record.ErrUnavailable) || q.rows != 0 {
			t.Errorf("the ticket that was not tried: %v, %d rows queued", err, q.rows)
		}
		if len(q.pending) != 0 {
			t.Error("an expired request would still be written")
		}
	})
}

// TestCloseWritesRequestsAside checks that requests of a locked tree are written after close, even
// if they are more than a batch.
func TestCloseWritesRequestsAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4*maxBatchRows, 1<<20, time.Hour)
		for range 2 {
			go func() {
				if err := q.wait(t.Context(),
					newTicket([]*request{{root: "a", entries: make([]*entry, maxBatchRows*3/4)}})); err != nil {
					t.Error(err)
				}
			}()
		}

		synctest.Wait()
		q.putAside(append(q.take(), q.take()...), false)
		q.close()
		go func() { // a writer
			for taken := q.take(); taken != nil; taken = q.take() {
				q.answer(taken)
			}
		}()

		synctest.Wait()
		q.answer(q.waitForDue(t.Context())) // the tree is free, so the writer takes the rest
		synctest.Wait()
		if q.rows != 0 {
			t.Errorf("%d rows are left", q.rows)
		}
	})
}

// TestExpiredRequestMakesRoom checks that an expired request that met a lock makes room for a large
// ticket at the head of the line.
func TestExpiredRequestMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10, 1<<20, time.Hour)
		old, oldDone := enqueue(t, q, "a", 6)
		_, largeDone := enqueue(t, q, "b", 8)
		taken := q.take()
		q.expire(old)
		if err := <-oldDone; !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("the expired ticket: %v", err)
		}

		q.putAside(taken, true)
		if len(q.line) > 0 || q.rows != 8 {
			t.Fatalf("%d tickets in line, %d rows queued", len(q.line), q.rows)
		}

		q.answer(q.take())
		if err := <-largeDone; err != nil {
			t.Error(err)
		}
	})
}
