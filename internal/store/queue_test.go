package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actlog/actlog/record"
)

// TestEachCallHasItsOwnTime: of a batch, those end whose time is up; the others go
// on being tried.
func TestEachCallHasItsOwnTime(t *testing.T) {
	t.Parallel()
	q := newQueue(10, 1<<20, time.Hour)
	queued := func(rows int) (*call, <-chan error) {
		c, done := newCall([]*request{{root: "a", entries: make([]*entry, rows)}}), make(chan error, 1)
		q.mu.Lock()
		want := q.rows + rows
		q.mu.Unlock()
		go func() { done <- q.wait(t.Context(), c) }()
		for there := false; !there && t.Context().Err() == nil; time.Sleep(time.Millisecond) {
			q.mu.Lock()
			there = q.rows == want
			q.mu.Unlock()
		}
		return c, done
	}
	old, oldDone := queued(3)
	young, youngDone := queued(4)
	batch := q.take()
	if len(batch) != 2 {
		t.Fatalf("a batch of %d", len(batch))
	}
	trouble := errors.New("away")
	q.note(trouble)
	q.expire(old)
	if err := <-oldDone; !errors.Is(err, trouble) {
		t.Errorf("who waited too long got %v", err)
	}
	batch = q.awaited(batch)
	if len(batch) != 1 || batch[0].call != young || q.rows != 4 || q.givenUp.Load() != 3 {
		t.Fatalf("%d requests are still awaited, %d rows queued, %d given up", len(batch), q.rows, q.givenUp.Load())
	}
	q.answer(batch)
	if err := <-youngDone; err != nil || q.rows != 0 {
		t.Errorf("the other got %v, %d rows queued", err, q.rows)
	}

	// Neither before it was tried, nor while its tree is held, nor without a cause.
	c, done := queued(1)
	q.hold(q.take(), true)
	q.expire(c)
	var locked *LockedError
	if err := <-done; !errors.As(err, &locked) || locked.RootPlanID != "a" || q.rows != 0 {
		t.Errorf("whose tree is held got %v, %d rows queued", err, q.rows)
	}
	q.letGo("a")
	q.note(nil)
	c, done = queued(1)
	q.expire(c)
	if err := <-done; !errors.Is(err, record.ErrUnavailable) || q.rows != 0 {
		t.Errorf("who was not tried got %v, %d rows queued", err, q.rows)
	}
	if len(q.pending) != 0 {
		t.Error("it would still be written")
	}
}

// TestWhatIsHeldWhenItCloses is written, though it is more than a batch.
func TestWhatIsHeldWhenItCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4*maxBatchRows, 1<<20, time.Hour)
		for range 2 {
			go func() {
				if err := q.wait(t.Context(), newCall([]*request{{root: "a", entries: make([]*entry, maxBatchRows*3/4)}})); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		q.hold(append(q.take(), q.take()...), false)
		q.close()
		go func() { // a writer
			for taken := q.take(); taken != nil; taken = q.take() {
				q.answer(taken)
			}
		}()
		synctest.Wait()
		q.answer(q.takeHeld(t.Context())) // the tree is free, so the rest is the writer's
		synctest.Wait()
		if q.rows != 0 {
			t.Errorf("%d rows are left", q.rows)
		}
	})
}

// TestWhatNobodyAwaitsMakesRoom when it met a lock, for a large call at the head of the line.
func TestWhatNobodyAwaitsMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10, 1<<20, time.Hour)
		queued := func(root string, rows int) (*call, <-chan error) {
			c, done := newCall([]*request{{root: root, entries: make([]*entry, rows)}}), make(chan error, 1)
			go func() { done <- q.wait(t.Context(), c) }()
			synctest.Wait()
			return c, done
		}
		old, oldDone := queued("a", 6)
		_, largeDone := queued("b", 8)
		taken := q.take()
		q.expire(old)
		if err := <-oldDone; !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("who waited too long got %v", err)
		}
		q.hold(taken, true)
		if len(q.line) > 0 || q.rows != 8 {
			t.Fatalf("%d calls are in line, %d rows queued", len(q.line), q.rows)
		}
		q.answer(q.take())
		if err := <-largeDone; err != nil {
			t.Error(err)
		}
	})
}
