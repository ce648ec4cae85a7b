package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// grants are the parts of the limits of models and tools that are a worker's own, under one id. It asks for them in
// rounds; what is within them begins without a question.
type grants struct {
	workerID string
	valid    func() bool // whether the lease goes on: if not, they may be another worker's
	scan     time.Duration
	changed  func(excess bool)

	rounds sync.Mutex // they go one after the other
	round  int64

	mu       sync.Mutex
	limiters map[string]*limit.Limiter // by what they limit
}

func (g *grants) limiter(name string) *limit.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limiters[name] == nil {
		g.limiters[name] = limit.NewShared(g.changed)
	}
	return g.limiters[name]
}

// begin waits until the limits that have a name let something begin, see [limit.Limiter.Begin]. Meanwhile the clock is
// held.
func (g *grants) begin(
	ctx context.Context, name string, limits limit.Limits, expected limit.Tokens, clock *workClock,
) (end func(used limit.Tokens), err error) {
	l := g.limiter(name)
	l.SetLimits(limits)
	end, began := l.TryBegin(expected)
	if !began {
		if end, err = beginLater(ctx, l, expected, clock); err != nil {
			return nil, err
		}
	}

	for !g.valid() {
		if err := pg.Pause(ctx, g.scan); err != nil {
			end(limit.Tokens{})
			return nil, err
		}
	}
	return end, nil
}

// beginLater waits for the turn, with the clock held.
func beginLater(
	ctx context.Context, l *limit.Limiter, expected limit.Tokens, clock *workClock,
) (end func(used limit.Tokens), err error) {
	goOn, err := clock.hold()
	if err == nil {
		end, err = l.Begin(ctx, expected)
	}

	if err := cmp.Or(err, goOn()); err != nil {
		if end != nil {
			end(limit.Tokens{})
		}
		return nil, err
	}
	return end, nil
}

// waits reports whether something waits.
func (g *grants) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.limiters {
		if l.Waits() {
			return true
		}
	}
	return false
}

// ask is a round. It reports whether there was anything to ask for. leaves says that nothing begins any more.
func (g *grants) ask(ctx context.Context, s *runstore.Store, leaves bool) (asked bool, err error) {
	g.rounds.Lock()
	defer g.rounds.Unlock()
	g.mu.Lock()
	limiters := maps.Clone(g.limiters)
	g.mu.Unlock()

	asks := []runstore.Ask{}
	grant := map[string]func(units, aim int64){}
	for _, name := range slices.Sorted(maps.Keys(limiters)) {
		for _, a := range limiters[name].Ask() {
			each := runstore.Ask{
				Limit: name + "/" + string(a.Kind), Most: a.Limit, Keep: a.Keep, Lasting: a.Lasting, Whole: a.Whole,
			}
			if !leaves {
				each.Wanted, each.Liked = a.Wanted, a.Liked
			}
			asks = append(asks, each)
			grant[each.Limit] = func(units, aim int64) { limiters[name].Grant(a.Kind, units, aim) }
		}
	}
	if len(asks) == 0 {
		return false, nil
	}

	g.round++
	granted, err := s.Grants(ctx, g.workerID, g.round, asks)
	if err != nil {
		return true, err
	}
	for _, each := range granted {
		grant[each.Limit](each.Units, each.Aim)
	}
	return true, nil
}

// departed are workers that are gone and have used what counts for a minute, with when this worker saw that first. The
// minute is one that passes here, whatever the clock of the database shows.
type departed struct {
	looked time.Time
	seen   map[string]time.Time
}

// What workers that are gone have used counts no more after lasts. Whether it is over is looked at each departedEvery.
const (
	lasts         = time.Minute
	departedEvery = 5 * time.Second
)

func (d *departed) look(ctx context.Context, s *runstore.Store) error {
	now := time.Now()
	if now.Sub(d.looked) < departedEvery {
		return nil
	}
	gone, err := s.GrantsOfGone(ctx)
	if err != nil {
		return err
	}

	var over []string
	seen := make(map[string]time.Time, len(gone))
	for _, id := range gone {
		first, known := d.seen[id]
		if !known {
			first = now
		}
		if seen[id] = first; now.Sub(first) >= lasts {
			over = append(over, id)
		}
	}

	d.looked, d.seen = now, seen
	if len(over) == 0 {
		return nil
	}
	return s.ForgetGrants(ctx, over)
}
