package recorder

import (
	"slices"
	"sync"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Queue is where the changes of a [Buffer] wait, first in, first out. The default is memory; that
// of package spool is a folder. A Buffer calls Put from one goroutine at a time, Peek and Drop
// from one other, Len from any, and Close after everything else.
type Queue interface {
	// Put adds changes at the end: all, or none with an error.
	Put(changes []record.Change) error
	// Len returns how many entries wait and how many bytes they take.
	Len() (entries int, bytes int64)
	// Peek returns the oldest changes, and the number of entries that hold them. n is higher than
	// the number of changes if some entries cannot be read any more. Peek returns at most the
	// given number of entries and bytes, but at least one entry if one waits.
	Peek(entries int, bytes int64) (changes []record.Change, n int, err error)
	// Drop removes the n oldest entries, as the last Peek counted them: they are on record.
	Drop(n int)
	// Close releases the Queue. What waits in it stays where it is.
	Close() error
}

// memory is the Queue that ends with the process.
type memory struct {
	mu      sync.Mutex
	entries []entry // those before head are dropped
	head    int
	bytes   int64
}

type entry struct {
	change record.Change
	bytes  int64
}

func (m *memory) Put(changes []record.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.head > len(m.entries)/2 { // each entry is moved once on average
		m.entries = slices.Delete(m.entries, 0, m.head)
		m.head = 0
	}

	for _, c := range changes {
		e := entry{c, memoryOf(c)}
		m.entries = append(m.entries, e)
		m.bytes += e.bytes
	}
	return nil
}

func (m *memory) Len() (entries int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries) - m.head, m.bytes
}

func (m *memory) Peek(entries int, bytes int64) (changes []record.Change, n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries[m.head:] {
		if n > 0 && (n == entries || e.bytes > bytes) {
			break
		}
		changes = append(changes, e.change)
		bytes -= e.bytes
		n++
	}
	return changes, n, nil
}

func (m *memory) Drop(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := m.head; i < m.head+n; i++ {
		m.bytes -= m.entries[i].bytes
		m.entries[i] = entry{} // for the garbage collector
	}

	if m.head += n; m.head == len(m.entries) {
		m.entries, m.head = m.entries[:0], 0
		if cap(m.entries) > keepEntries { // a burst is over
			m.entries = nil
		}
	}
}

func (m *memory) Close() error { return nil }

const (
	// keepEntries bounds the capacity that an empty queue keeps.
	keepEntries = 4 << 10
	// changeBytes is about what a change takes besides its texts.
	changeBytes = 512
)

// memoryOf is about what a change takes in memory. The table of fields lets it skip most of them:
// to look at each by reflection takes four times as long.
func memoryOf(c record.Change) int64 {
	bytes := changeBytes
	for _, f := range field.Fields(c.Kind()) {
		switch f.Type {
		case field.Text:
			text, _ := f.Text(c)
			bytes += len(text)
		case field.JSON:
			bytes += f.In(c).Len()
		case field.Texts:
			texts := f.In(c)
			for j := range texts.Len() {
				bytes += texts.Index(j).Len() + 16
			}
		}
	}
	return int64(bytes)
}
