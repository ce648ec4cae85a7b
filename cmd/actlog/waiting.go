package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// waitFlags say how long a program waits for its database.
type waitFlags struct {
	WaitForDatabase patience `help:"How long to wait at the start for a Postgres that does not answer yet, such as 2m; 0s: not at all." default:"forever" placeholder:"DURATION"`
}

// patience is a time, or without end.
type patience struct {
	limit   time.Duration
	limited bool
}

// UnmarshalText reads a duration, or "forever".
func (p *patience) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = patience{}
		return nil
	}

	limit, err := time.ParseDuration(string(text))
	if err != nil || limit < 0 {
		return fmt.Errorf("%.40q must be a time such as 2m, or forever", text)
	}
	*p = patience{limit: limit, limited: true}
	return nil
}

// waiting is a program that waits for its database, and why.
type waiting struct {
	patience patience
	log      *slog.Logger
	why      atomic.Pointer[httpd.Problem]
}

// sayEvery is how often the log says that a program still waits.
const sayEvery = time.Minute

func (f *waitFlags) waiting(log *slog.Logger) *waiting {
	w := &waiting{patience: f.WaitForDatabase, log: log}
	w.why.Store(&httpd.Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 1,
		Detail: "the server is starting: it connects to the database, and migrates it if need be",
	})
	return w
}

// reason is why requests are refused meanwhile.
func (w *waiting) reason() error { return w.why.Load() }

// until calls open until it succeeds. It gives up if somebody has to correct something first, or when the time is over,
// or ctx is.
func (w *waiting) until(ctx context.Context, open func(context.Context) error) error {
	began, reported := time.Now(), time.Time{}

	for attempt := 0; ; attempt++ {
		err := open(ctx)
		switch waited := time.Since(began).Round(time.Millisecond); {
		case err == nil && !reported.IsZero():
			w.log.Info("the database is there", "waited", waited)
			return nil
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !pg.Absent(err) && !errors.Is(err, store.ErrNotMigrated):
			return err
		case w.patience.limited && waited >= w.patience.limit:
			if w.patience.limit > 0 {
				err = fmt.Errorf("the database was not there within %s (--wait-for-database): %w", w.patience.limit, err)
			}
			return err
		case time.Since(reported) >= sayEvery:
			reported = time.Now()
			w.log.Warn("waiting for the database", "error", err, "waited", waited)
		}

		w.why.Store(api.NotReady(err))

		pause := pg.Backoff(attempt)
		if w.patience.limited {
			pause = min(pause, w.patience.limit-time.Since(began))
		}
		if pg.Pause(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
}
