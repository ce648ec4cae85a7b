package recorder

import (
	"context"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/actlog/actlog/record"
)

// HeartbeatDefault is how often signs of life are sent, see [Options.Heartbeat].
const HeartbeatDefault = 30 * time.Second

// Beater is a [Sink] that queues, and that sends heartbeats past its queue. Beat replaces earlier
// signs of life of the same plans by the given ones, and sends them once, as soon as it can. They
// wait for no room and take none. Beat drops them if they cannot be sent, because newer ones
// follow. It returns at once.
//
// A Sink that wraps a Beater should be one too. Otherwise heartbeats are written like everything
// else, and wait in its queue while the record is away.
type Beater interface {
	Sink
	Beat(changes []record.Change) error
}

// heart sends signs of life of the plans that this process works on. Between beats it is a timer,
// and without plans not even that, so it needs no closing.
type heart struct {
	rec   *Recorder
	every time.Duration

	mu    sync.Mutex
	plans map[record.Key][]weak.Pointer[Plan] // weak: a handle that nobody holds has no heartbeat
	timer *time.Timer
	stop  context.CancelFunc // stops the timer and the beat under way; nil if no plan is open
}

// add lets p have a heartbeat until its plan ends or its handle is garbage. It returns the first
// sign of life, or nil if there are no heartbeats.
func (h *heart) add(p *Plan) *time.Time {
	if h.every < 0 {
		return nil
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	key, handle := p.key(), weak.Make(p)
	if !slices.Contains(h.plans[key], handle) {
		h.plans[key] = append(h.plans[key], handle)
	}

	if h.stop == nil {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		h.timer = time.AfterFunc(h.every, func() { h.beat(ctx) })
	}
	return h.now()
}

// remove stops the heartbeats of a plan, for all of its handles.
func (h *heart) remove(plan record.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.plans, plan)
	h.stopIfIdle()
}

// stopIfIdle stops the timer if no plan is left. The caller holds mu.
func (h *heart) stopIfIdle() {
	if len(h.plans) == 0 && h.stop != nil {
		h.timer.Stop()
		h.stop()
		h.stop = nil
	}
}

// now returns the time of a sign of life. Like a revision it never goes back, whatever the clock
// does: the record only takes later ones.
func (h *heart) now() *time.Time { return new(time.UnixMicro(h.rec.nextRev()).UTC()) }

// beat sends one sign of life of each plan, then sets the timer for the next. A beat that fails
// is not repeated, because the next one says more.
func (h *heart) beat(ctx context.Context) {
	if changes := h.signs(ctx); len(changes) > 0 {
		if err := h.send(ctx, changes); err != nil && ctx.Err() == nil {
			h.rec.options.Logger.WarnContext(ctx, "recorder: a heartbeat is not on record", "plans", len(changes), "error", err)
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.timer.Reset(h.every)
	}
}

// signs returns what a beat sends. A plan whose start is not on record has no sign of life: that
// alone would create a live run of which nothing else is known.
func (h *heart) signs(ctx context.Context) []record.Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}

	seen := h.now()
	var changes []record.Change
	for key, handles := range h.plans {
		handles = slices.DeleteFunc(handles, func(p weak.Pointer[Plan]) bool { return p.Value() == nil })
		if len(handles) == 0 {
			delete(h.plans, key)
			continue
		}

		h.plans[key] = handles
		if slices.ContainsFunc(handles, func(p weak.Pointer[Plan]) bool {
			plan := p.Value()
			return plan != nil && plan.onRecord()
		}) {
			changes = append(changes, &record.Plan{RootPlanID: key.Root, CurrentPlanID: key.ID, LastSeenAt: seen})
		}
	}
	h.stopIfIdle()
	return changes
}

func (h *heart) send(ctx context.Context, changes []record.Change) error {
	if sink, ok := h.rec.sink.(Beater); ok {
		return sink.Beat(changes)
	}
	ctx, cancel := context.WithTimeout(ctx, HeartbeatDefault) // later it is of no use
	defer cancel()
	_, err := h.rec.write(ctx, changes)
	return err
}
