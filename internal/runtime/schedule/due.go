package schedule

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
)

// onTime is by how much a tick may be late without having been missed: who looks whether it is time may have been slow,
// or was lost and another one looks.
const onTime = 10 * time.Second

// Timing says when the ticks of a schedule are started, and which are not.
type Timing struct {
	*Ticks
	name           string
	jitter, window time.Duration
	catchUp        define.CatchUpPolicy
}

// NewTiming checks the times of a schedule of a name. The error is a [*record.InvalidError] that names the field.
func NewTiming(name string, s define.Schedule) (*Timing, error) {
	ticks, err := NewTicks(s.Cron, s.Timezone)
	switch {
	case err != nil:
		return nil, err
	case s.Jitter < 0 || s.Jitter > define.MaxJitter:
		return nil, invalid("jitter", fmt.Sprintf("must be from 0s to %s", define.MaxJitter))
	case s.Window < define.Span(time.Second) || s.Window > define.MaxWindow:
		return nil, invalid("window", fmt.Sprintf("must be from 1s to %s", define.MaxWindow))
	case !slices.Contains(define.Overlaps, s.Overlap):
		return nil, invalid("overlap", fmt.Sprintf("must be one of %v", define.Overlaps))
	case !slices.Contains(define.CatchUps, s.CatchUp):
		return nil, invalid("catchUp", fmt.Sprintf("must be one of %v", define.CatchUps))
	}
	return &Timing{ticks, name, time.Duration(s.Jitter), time.Duration(s.Window), s.CatchUp}, nil
}

// DueAt returns when a tick is started: at its time, and later by a part of the jitter, which is the same each time
// that is asked for, and less than the time until the next tick.
func (t *Timing) DueAt(tick time.Time) time.Time {
	most := t.jitter
	if most <= 0 {
		return tick
	}
	if next := t.Next(tick); !next.IsZero() {
		most = min(most, next.Sub(tick))
	}

	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", t.name, tick.Unix())
	return tick.Add(time.Duration(h.Sum64() % uint64(most)).Truncate(time.Millisecond))
}

// IsMissed reports whether a tick that is due is not to be started any more.
func (t *Timing) IsMissed(tick, now time.Time) bool {
	late := now.Sub(t.DueAt(tick))
	switch {
	case late <= onTime:
		return false
	case late > t.window || t.catchUp == define.CatchUpNone:
		return true
	case t.catchUp == define.CatchUpAll:
		return false
	}

	next := t.Next(tick)
	return !next.IsZero() && !t.DueAt(next).After(now) // that one is started
}
