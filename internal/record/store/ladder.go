package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// ladder is the one way in which transactions are attempted: of records, of traces, of runs, and of [Store.InTx]. Its
// rungs, from the top: send it the likely way; give up a guess that was wrong, and send it again; pause after an error
// that may pass, and send it again; split what Postgres does not accept, and send the parts.
type ladder struct {
	counters *counters
	log      *slog.Logger
	retrying pg.Seldom // limits log lines
	// sending is cancelled when Close can wait no longer.
	sending context.Context
	stop    context.CancelFunc // of sending
}

func (l *ladder) start(ctx context.Context) {
	l.sending, l.stop = context.WithCancel(context.WithoutCancel(ctx))
}

// givenUp says which guesses a try does without. The zero value makes all of them.
type givenUp struct {
	copying bool // trees are new, so that their detail can be copied
	memory  bool // what is remembered is true: where trees lie, and which rows and contents are on record
	marks   bool // no tree is marked in which the batch undoes marks
}

// These errors mean that a guess was wrong which no statement checks.
var (
	// errMarked: the batch is committed, but some trees are marked in which it undoes marks.
	errMarked = errors.New("trees are marked")
	// errForgotten: what was remembered of a trace does not do. It is forgotten now.
	errForgotten = errors.New("what is remembered of a trace does not do")
)

// after returns what is given up after a try that failed. wrong reports whether a guess was the reason, so that the
// next try can be made at once.
func (g givenUp) after(err error) (next givenUp, wrong bool) {
	next = g
	switch {
	case errors.Is(err, errForgotten):
		return g, true
	case errors.Is(err, errMarked):
		next.marks = true
	case pg.State(err) == fieldsql.StaleGuess:
		next.memory = true
	case notCopied(err):
		next.copying = true
	}
	return next, next != g
}

// try sends something until that succeeds. It gives up guesses that are wrong. After an error that may pass it tries
// again, with growing pauses, if again says so. The error is [record.ErrClosed] if the store can wait no longer, else
// that of the last try.
func (l *ladder) try(ctx context.Context, again func(error) bool, send func(givenUp) error) error {
	var g givenUp
	for retries := 0; ; {
		err := send(g)
		next, wrong := g.after(err)
		switch {
		case err == nil:
			return nil
		case l.sending.Err() != nil:
			return record.ErrClosed
		case ctx.Err() != nil:
			return err
		case wrong:
			g = next
			continue
		}

		if pg.Transient(err) || pg.Refused(err) {
			l.counters.failed()
		}
		if !pg.Transient(err) || !again(err) {
			return err
		}

		l.counters.retries.Add(1)
		if l.retrying.Due() {
			l.log.Warn("write failed; it is tried again", "attempt", retries+1, "error", err)
		}
		if pg.Pause(ctx, pg.Backoff(retries)) != nil {
			if l.sending.Err() != nil {
				return record.ErrClosed
			}
			return err
		}
		retries++
	}
}

// retryFor lets [ladder.try] try again for some time from now on.
func retryFor(d time.Duration) (again func(error) bool) {
	deadline := time.Now().Add(d)
	return func(error) bool { return time.Now().Before(deadline) }
}

// once lets [ladder.try] give up guesses only.
func once(error) bool { return false }

// load is what goes into one transaction, or into several if Postgres does not accept it in one.
type load interface {
	// send is one try to write all of it.
	send(ctx context.Context, g givenUp) error
	// again reports whether to try again after an error that may pass.
	again(err error) bool
	// finish notes what became of it; err is nil if it is on record. It returns the loads to write in its place, in
	// their order, or an error that ends the writing.
	finish(err error) (smaller []load, stop error)
}

// write writes a load. The error is that of the part that ended the writing.
func (l *ladder) write(ctx context.Context, all load) error {
	err := l.try(ctx, all.again, func(g givenUp) error { return all.send(ctx, g) })
	smaller, err := all.finish(err)
	for _, smallerLoad := range smaller {
		if err == nil {
			err = l.write(ctx, smallerLoad)
		}
	}
	return err
}
