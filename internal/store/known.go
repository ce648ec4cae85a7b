package store

import (
	"sync"

	"github.com/actlog/actlog/record"
)

// known remembers plans and steps that are on record, so that what is told beneath
// them need not make sure of them each time. It may be wrong where another server
// deleted a tree: then what is written fails for want of its parent, and is tried
// again without it.
type known struct {
	mu     sync.Mutex
	recent map[record.Key]struct{}
	before map[record.Key]struct{}
}

// maxKnown bounds each of two generations.
const maxKnown = 20_000

func (k *known) has(key record.Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.recent[key]; ok {
		return true
	}
	if _, ok := k.before[key]; !ok {
		return false
	}
	k.put(key)
	return true
}

// add remembers the plans and steps of a batch that was committed.
func (k *known) add(b *batch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for root := range b.roots {
		k.put(rootKey(root))
	}
	for key := range b.rows {
		if key.Kind == record.KindPlan || key.Kind == record.KindAgentExecution {
			k.put(key)
		}
	}
}

func (k *known) put(key record.Key) {
	if len(k.recent) >= maxKnown {
		k.before, k.recent = k.recent, nil
	}
	if k.recent == nil {
		k.recent = map[record.Key]struct{}{}
	}
	k.recent[key] = struct{}{}
}

// forget forgets everything.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent, k.before = nil, nil
}

func rootKey(root string) record.Key {
	return record.Key{Kind: record.KindPlan, Root: root, ID: root}
}
