package runs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// ErrRestarted says that an answer is not what was sent of it while it arrived: it was begun again, such as by the
// worker that took the run over.
var ErrRestarted = errors.New("the answer was begun again, and is not what was sent of it before")

// Answer is what a run of an agent answers, for somebody who waits for it.
type Answer struct {
	Watch      *Watch
	Deltas     *delta.Deltas
	Read       func(ctx context.Context) (*runstore.RunDetail, error) // reads the run
	RootPlanID string
	PlanID     string
	// Silence is how long nothing may be sent. Then send is called with an empty text.
	Silence time.Duration
}

// Follow sends the answer, as it arrives and as it is on record, until the run has ended or is parked. It returns the
// run, or nil if
// ctx ended or the watch was closed before. What was sent of a run that was completed is its answer, or the error is
// [ErrRestarted]. Other errors are those of send and of Read.
func (a *Answer) Follow(ctx context.Context, send func(text string) error) (*runstore.RunDetail, error) {
	wake, stop := a.Watch.subscribe(a.RootPlanID)
	defer stop()
	live := &arriving{wake: make(chan struct{}, 1)}
	defer a.Deltas.Watch(a.RootPlanID, func(d delta.Delta) {
		if d.Answer && d.PlanID == a.PlanID {
			live.add(d)
		}
	})()

	var sent strings.Builder
	say := func(text string) error {
		sent.WriteString(text)
		return send(text)
	}

	d, err := a.Read(ctx)
	for err == nil && !d.State.Terminal() && !Parked(d) {
		select {
		case <-wake:
			d, err = a.Read(ctx)
		case <-live.wake:
			if more := live.behind(sent.String()); more != "" {
				err = say(more)
			}
		case <-time.After(a.Silence):
			err = say("")
		case <-ctx.Done():
			return nil, nil //nolint:nilnil // nobody waits any more
		case <-a.Watch.ctx.Done():
			return nil, nil //nolint:nilnil // the server shuts down
		}
	}
	if err != nil || d.State != record.Completed {
		return d, err
	}

	rest, ok := strings.CutPrefix(optional.Value(d.Plan.Summary), sent.String())
	switch {
	case !ok:
		return d, ErrRestarted
	case rest != "":
		err = say(rest)
	}
	return d, err
}

// maxArriving bounds what is kept of an answer that arrives, in bytes. What comes after it is sent when it is on
// record.
const maxArriving = 1 << 20

// arriving is an answer that arrives, as far as it is known without a gap.
type arriving struct {
	wake chan struct{} // holds a token when more is known

	mu      sync.Mutex
	cycle   delta.Cycle
	attempt int64
	text    strings.Builder
	gap     bool // a piece is missing
}

func (a *arriving) add(d delta.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch same := d.Cycle == a.cycle; {
	case same && d.Attempt < a.attempt: // of a worker that lost the run
		return
	case !same || d.Attempt > a.attempt || d.Reset:
		a.cycle, a.attempt = d.Cycle, d.Attempt
		a.gap = false
		a.text.Reset()
	}

	have := a.text.Len()
	if a.gap = a.gap || d.Offset != int64(have) || have+len(d.Text) > maxArriving; a.gap {
		return
	}
	a.text.WriteString(d.Text)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// behind returns what is known beyond what was sent; nothing if the answer has become another.
func (a *arriving) behind(sent string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	more, _ := strings.CutPrefix(a.text.String(), sent)
	if len(more) == a.text.Len() && sent != "" {
		return ""
	}
	return more
}
