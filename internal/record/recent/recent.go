// Package recent owns maps that forget what was not asked for lately.
package recent

import (
	"cmp"
	"maps"
	"sync"
)

// Map is such a map. Its zero value is empty. It is safe for concurrent use.
type Map[K comparable, V any] struct {
	// Half is how many keys at least are remembered, and half of how many at most. Default 4,096.
	Half int

	mu         sync.Mutex
	young, old map[K]V // what is old was asked for before what is young
}

// Get returns the value of a key, if it is known.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok = m.young[key]; ok {
		return v, true
	}
	if v, ok = m.old[key]; ok {
		m.set(key, v)
	}
	return v, ok
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(key, v)
}

func (m *Map[K, V]) set(key K, v V) {
	if m.young == nil || len(m.young) >= cmp.Or(m.Half, 4096) {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[key] = v
}

// All returns a copy of what is known. It does not count as asking for it.
func (m *Map[K, V]) All() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[K]V, len(m.old)+len(m.young))
	maps.Copy(all, m.old)
	maps.Copy(all, m.young) // newer
	return all
}
