package httpd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestTurns: N15: one client has half of the turns and half of the line, others pass it, and an
// ended wait leaves nothing behind.
func TestTurns(t *testing.T) {
	t.Parallel()
	turns := httpd.NewTurns(4, 2, time.Hour)
	a := httpd.Client{Name: "a"}
	b := httpd.Client{Name: "b"}
	c := httpd.Client{Name: "c"}

	take := func(client httpd.Client) func() {
		t.Helper()
		done, err := turns.Take(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	refused := func(client httpd.Client, want error) {
		t.Helper()
		if _, err := turns.Take(t.Context(), client); !errors.Is(err, want) {
			t.Errorf("turns.Take(client) = %v, want %v", err, want)
		}
	}

	type taken struct {
		client httpd.Client
		done   func()
		err    error
	}
	began := make(chan taken)
	wait := func(ctx context.Context, client httpd.Client) {
		go func() {
			done, err := turns.Take(ctx, client)
			began <- taken{client, done, err}
		}()
	}

	first, second := take(a), take(a)
	gone, leave := context.WithCancel(t.Context())
	wait(gone, a) // a's own turns are taken
	storetest.Until(t, "one waits", func() bool { return turns.Waiting() >= 1 })
	refused(a, httpd.ErrClientTurns)

	third, fourth := take(b), take(c) // others pass it
	wait(t.Context(), b)
	storetest.Until(t, "two wait", func() bool { return turns.Waiting() >= 2 })
	refused(c, httpd.ErrNoTurn)

	leave()
	if w := <-began; !errors.Is(w.err, context.Canceled) {
		t.Errorf("w = %+v", w)
	}
	first()
	first() // once
	w := <-began
	if w.client != b || w.err != nil {
		t.Errorf("w = %+v", w)
	}

	if n := turns.Taken(); n != 4 {
		t.Errorf("%d turns are taken", n)
	}
	for _, done := range []func(){second, third, fourth, w.done} {
		done()
	}
	if turns.Taken() != 0 || turns.Waiting() != 0 {
		t.Errorf("%d turns are taken, %d wait", turns.Taken(), turns.Waiting())
	}

	impatient := httpd.NewTurns(1, 1, time.Millisecond)
	if _, err := impatient.Take(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.Take(t.Context(), b); !errors.Is(err, httpd.ErrNoTurn) {
		t.Error(err)
	}
}
