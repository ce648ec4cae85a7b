package httpd_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
)

// hanging are sessions in a database that does not answer, until the test says so.
type hanging struct {
	httpd.Logins
	writes chan [][]byte // gets the keys that are gone, of each write that has begun
	answer chan struct{}
}

func (h *hanging) EndLogins(ctx context.Context, gone, _ [][]byte, _ time.Duration) error {
	h.writes <- gone
	select {
	case <-h.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// S11: while the database hangs, nothing that removes a key waits for it, and a request waits a few seconds.
func TestSessionsEndWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	_, keptLine := apitest.NewKey(t, "kept", httpd.ScopeRead)
	_, goneLine := apitest.NewKey(t, "gone", httpd.ScopeRead)
	both, without := apitest.Keys(t, keptLine, goneLine), apitest.Keys(t, keptLine)

	synctest.Test(t, func(t *testing.T) {
		h := &hanging{writes: make(chan [][]byte, 1), answer: make(chan struct{})}
		s := httpd.New(httpd.Config{Logger: slog.New(slog.DiscardHandler), Keys: both, Logins: h})
		first := make(chan error, 1)
		begin := func() { first <- s.EndSessions(t.Context()) }

		go begin()
		<-h.writes
		s.SetKeys(without)

		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := s.EndSessions(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has left: %v", err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the database never answered: %v", err)
		}

		go begin()
		if gone := <-h.writes; len(gone) != 1 {
			t.Errorf("%d keys are gone", len(gone))
		}
		s.SetKeys(both)
		h.answer <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}

		go begin() // the keys have changed while that was written
		<-h.writes
		h.answer <- struct{}{}
		if err := errors.Join(<-first, s.EndSessions(t.Context())); err != nil || len(h.writes) > 0 {
			t.Errorf("%v, %d writes too many", err, len(h.writes))
		}
	})
}
