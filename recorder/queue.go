package recorder

import (
	"slices"
	"sync"

	"github.com/actlog/actlog/record"
)

// Queue is where the changes of a [Buffer] wait, first in, first out. The default
// is memory; that of package spool is a folder. A Buffer calls Put from one
// goroutine at a time, Peek and Drop from one other, Len from any, and Close after
// everything else.
type Queue interface {
	// Put adds changes at the end, all or, with an error, none that count.
	Put(changes []record.Change) error
	// Len tells how many entries wait and how many bytes they take.
	Len() (entries int, bytes int64)
	// Peek gives the oldest changes and the number of entries that they stand in,
	// which is more where an entry cannot be read any more. It gives at most as many
	// entries and bytes as it is asked for, but at least one entry where one waits.
	Peek(entries int, bytes int64) (changes []record.Change, n int, err error)
	// Drop removes the n oldest entries, as the last Peek counted them: they are on
	// record.
	Drop(n int)
	// Close gives the Queue up. What waits in it stays where it is.
	Close() error
}

// memory is the Queue that ends with the process.
type memory struct {
	mu      sync.Mutex
	entries []entry // from head on
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
	if m.head > len(m.entries)/2 { // so each entry is moved once on average
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
	// keepEntries bounds the room that an empty queue keeps.
	keepEntries = 4 << 10
	// changeBytes is about what a change takes beside its texts.
	changeBytes = 512
)

// memoryOf is about what a change takes in memory.
func memoryOf(c record.Change) int64 {
	bytes := changeBytes
	fields := record.Fields(c.Kind())
	for i := range fields {
		f := &fields[i]
		switch f.Type {
		case record.Text:
			text, _ := f.Text(c)
			bytes += len(text)
		case record.JSON:
			bytes += f.In(c).Len()
		case record.Texts:
			texts := f.In(c)
			for j := range texts.Len() {
				bytes += texts.Index(j).Len() + 16
			}
		case record.Int, record.Float, record.Time:
		}
	}
	return int64(bytes)
}
