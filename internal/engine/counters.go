package engine

import (
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// counters count what an engine does.
type counters struct {
	mu    sync.Mutex
	stats Stats
}

// Stats are what an engine has done since it was made.
type Stats struct {
	Claims      map[string]uint64 // by executor
	Takeovers   uint64
	Ended       map[string]map[record.State]uint64 // by executor
	Paused      uint64
	LeasesLost  uint64
	Writes      uint64 // transactions of runs
	ModelCalls  uint64
	ModelTime   time.Duration
	ModelErrors map[string]uint64 // by kind
	ToolCalls   uint64
	ToolErrors  uint64
	ToolTime    time.Duration
}

func (c *counters) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Claims, s.ModelErrors, s.Ended = clone(s.Claims), clone(s.ModelErrors), map[string]map[record.State]uint64{}
	for executor, states := range c.stats.Ended {
		s.Ended[executor] = clone(states)
	}
	return s
}

func clone[K comparable](m map[K]uint64) map[K]uint64 {
	out := make(map[K]uint64, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func (c *counters) count(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

func add[K comparable](m *map[K]uint64, key K) {
	if *m == nil {
		*m = map[K]uint64{}
	}
	(*m)[key]++
}

func (c *counters) claimed(executor string, takenOver bool) {
	c.count(func(s *Stats) {
		add(&s.Claims, executor)
		if takenOver {
			s.Takeovers++
		}
	})
}

func (c *counters) ended(executor string, state record.State) {
	c.count(func(s *Stats) {
		if s.Ended == nil {
			s.Ended = map[string]map[record.State]uint64{}
		}
		states := s.Ended[executor]
		add(&states, state)
		s.Ended[executor] = states
	})
}

func (c *counters) wrote()                 { c.count(func(s *Stats) { s.Writes++ }) }
func (c *counters) paused()                { c.count(func(s *Stats) { s.Paused++ }) }
func (c *counters) leaseLost()             { c.count(func(s *Stats) { s.LeasesLost++ }) }
func (c *counters) modelError(kind string) { c.count(func(s *Stats) { add(&s.ModelErrors, kind) }) }

func (c *counters) modelCall(d time.Duration) {
	c.count(func(s *Stats) { s.ModelCalls++; s.ModelTime += d })
}

func (c *counters) toolCall(d time.Duration, failed bool) {
	c.count(func(s *Stats) {
		s.ToolCalls++
		s.ToolTime += d
		if failed {
			s.ToolErrors++
		}
	})
}
