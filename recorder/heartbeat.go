package recorder

import (
	"context"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/actlog/actlog/record"
)

// HeartbeatDefault is how often signs of life are told, see [Options.Heartbeat].
const HeartbeatDefault = 30 * time.Second

// Beater is a [Sink] that queues, and that heartbeats are told past its queue. Beat
// takes changes that tell signs of life in place of earlier ones of the same plans,
// and sends them once, as soon as it can: they wait for no room, take none, and
// are dropped when they cannot be sent, since newer ones come. It returns at once.
//
// A Sink that wraps a Beater should be one too: otherwise heartbeats are written
// like all else, and wait in its queue while the record is away.
type Beater interface {
	Sink
	Beat(changes []record.Change) error
}

// heart tells signs of life of the plans that this process has in hand. Between
// beats it is a timer, and without plans not even that, so nobody need close it.
type heart struct {
	rec   *Recorder
	every time.Duration

	mu    sync.Mutex
	plans map[record.Key][]weak.Pointer[Plan] // a handle that nobody holds any more beats no more
	timer *time.Timer
	stop  context.CancelFunc // of the timer and of the beat that is under way; nil: no plan is open
}

// begin lets p have a heartbeat until end, or until its handle is garbage. It gives
// the first sign of life; nil where there are to be none.
func (h *heart) begin(p *Plan) *time.Time {
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

// end has no handle of the plan beat any more.
func (h *heart) end(plan record.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.plans, plan)
	h.rest()
}

// rest stops the timer where there is nothing to beat for. mu is held.
func (h *heart) rest() {
	if len(h.plans) == 0 && h.stop != nil {
		h.timer.Stop()
		h.stop()
		h.stop = nil
	}
}

// now gives a sign of life. As revisions do, it never goes back, whatever the clock
// does: the record hears only of what is later.
func (h *heart) now() *time.Time { return new(time.UnixMicro(h.rec.nextRev()).UTC()) }

// beat tells one sign of life of each plan, then sets the timer for the next. A beat
// that fails is not made up for: the next one says more.
func (h *heart) beat(ctx context.Context) {
	if changes := h.signs(ctx); len(changes) > 0 {
		if err := h.tell(ctx, changes); err != nil && ctx.Err() == nil {
			h.rec.options.Logger.WarnContext(ctx, "recorder: a heartbeat is not on record", "plans", len(changes), "error", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.timer.Reset(h.every)
	}
}

// signs gives what a beat tells. A plan whose start is not on record has no sign of
// life: that alone would make it a run that lives, and of which nothing else is known.
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
		if slices.ContainsFunc(handles, func(p weak.Pointer[Plan]) bool { plan := p.Value(); return plan != nil && plan.onRecord() }) {
			changes = append(changes, &record.Plan{RootPlanID: key.Root, CurrentPlanID: key.ID, LastSeenAt: seen})
		}
	}
	h.rest()
	return changes
}

func (h *heart) tell(ctx context.Context, changes []record.Change) error {
	if sink, ok := h.rec.sink.(Beater); ok {
		return sink.Beat(changes)
	}
	ctx, cancel := context.WithTimeout(ctx, HeartbeatDefault) // later it is of no use
	defer cancel()
	_, err := h.rec.write(ctx, changes)
	return err
}
