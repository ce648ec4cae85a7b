// Package recent owns maps that forget what was not asked for lately.
package recent

import "sync"

// Map is such a map. Its zero value is empty. It is safe for concurrent use.
type Map[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V // what is old was asked for before what is young
}

// maxYoung bounds each of the two halves.
const maxYoung = 4096

// Get returns the value of a key, if it is known.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok = m.young[key]; ok {
		return v, true
	}
	if v, ok = m.old[key]; ok {
		m.keep(key, v)
	}
	return v, ok
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(key, v)
}

func (m *Map[K, V]) keep(key K, v V) {
	if m.young == nil || len(m.young) >= maxYoung {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[key] = v
}
