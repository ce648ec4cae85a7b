package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// models is what the engine knows of the models that its runs ask, by their names in the configuration.
type models struct {
	mu       sync.Mutex
	away     map[string]runstore.Away
	answered map[string]time.Time // when each answered last
}

// isAway reports whether a model is away, as far as is known here.
func (m *models) isAway(name string) (runstore.Away, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.away[name]
	return a, ok
}

// answers notes that a model answered. It reports whether it was away until now.
func (m *models) answers(name string, at time.Time) (wasAway bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answered == nil {
		m.answered = map[string]time.Time{}
	}
	m.answered[name] = at
	_, wasAway = m.away[name]
	return wasAway
}

// answeredSince reports whether a model answered somebody since a time.
func (m *models) answeredSince(name string, since time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered[name].After(since)
}

// set replaces what is known of the models that are away.
func (m *models) set(all []runstore.Away) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = make(map[string]runstore.Away, len(all))
	for _, a := range all {
		m.away[a.Model] = a
	}
}

// add notes that a model is away.
func (m *models) add(a runstore.Away) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.away[a.Model]; !known {
		m.away = maps.Clone(m.away)
		if m.away == nil {
			m.away = map[string]runstore.Away{}
		}
		m.away[a.Model] = a
	}
}

// takeProbe reports whether a model that is away is to be asked by now. It is not again before a pause has passed, or
// what is known of it is read again.
func (m *models) takeProbe(name string, now time.Time, pause time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.away[name]
	if !ok || now.Before(a.ProbeAt) {
		return false
	}

	a.ProbeAt = now.Add(pause)
	m.away[name] = a
	return true
}

// remove notes that a model is back.
func (m *models) remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.away, name)
}
