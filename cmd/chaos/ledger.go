//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// The ledger is what clients know they were told. Each client process appends to
// a file of its own, a line an event, in one write each: what is in the file stays
// when the client is killed. An intent stands before the call, an acknowledgement
// after it; so what is acknowledged in the file was acknowledged, and what nobody
// intended can be nobody's.

// mark is the first letter of a line.
type mark byte

const (
	markIntent  mark = 'i' // is about to be told
	markAcked   mark = 'a' // is on record: the server said so
	markSpooled mark = 's' // is in the client's spool: will be on record in the end
	markBroken  mark = 'x' // the client met what it must not meet
)

// pen writes a client's ledger.
type pen struct{ file *os.File }

func openPen(path string) (*pen, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	return &pen{f}, nil
}

// note appends a line. A client that cannot keep its ledger proves nothing, so it
// ends.
func (p *pen) note(m mark, plan, item string) {
	line := fmt.Sprintf("%c\t%s\t%s\n", m, plan, strings.NewReplacer("\n", " ", "\t", " ").Replace(item))
	if _, err := p.file.WriteString(line); err != nil {
		panic(fmt.Sprintf("writing the ledger: %v", err))
	}
}

// told is what is known of an item.
type told uint8

const (
	intended told = 1 << iota
	acked
	spooled
)

// ledger is the driver's view of all clients' files.
type ledger struct {
	dir string

	mu     sync.Mutex
	offset map[string]int64
	plans  map[string]map[string]told // by root plan, then item
	order  []string                   // root plans, as they came
	fresh  map[string]bool            // root plans told of since they were taken
	acks   int
	broken []string
}

func newLedger(dir string) *ledger {
	return &ledger{dir: dir, offset: map[string]int64{}, plans: map[string]map[string]told{}, fresh: map[string]bool{}}
}

func (l *ledger) file(client string) string { return filepath.Join(l.dir, client+".ledger") }

// catchUp reads what clients have written since the last time, and tells how much
// is acknowledged by now.
func (l *ledger) catchUp() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, err := filepath.Glob(l.file("*"))
	if err != nil {
		return 0, fmt.Errorf("reading the ledger: %w", err)
	}
	for _, path := range files {
		if err := l.read(path); err != nil {
			return 0, fmt.Errorf("reading the ledger: %w", err)
		}
	}
	return l.acks, nil
}

func (l *ledger) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.NewSectionReader(f, l.offset[path], 1<<40))
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(content, '\n') + 1
	l.offset[path] += int64(whole)
	for line := range strings.Lines(string(content[:whole])) {
		m, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		plan, item, ok2 := strings.Cut(rest, "\t")
		if !ok || !ok2 || len(m) != 1 {
			return errors.New("a line that no client writes: " + line)
		}
		l.add(mark(m[0]), plan, item)
	}
	return nil
}

func (l *ledger) add(m mark, plan, item string) {
	if m == markBroken {
		l.broken = append(l.broken, plan+": "+item)
		return
	}
	root := strings.Clone(rootOf(plan)) // lines are parts of a large string
	items, known := l.plans[root]
	if !known {
		items = map[string]told{}
		l.plans[root] = items
		l.order = append(l.order, root)
	}
	l.fresh[root] = true
	switch m {
	case markAcked:
		if items[item]&acked == 0 {
			l.acks++
		}
		items[item] |= acked
	case markSpooled:
		items[item] |= spooled
	case markIntent:
		items[strings.Clone(item)] |= intended
	}
}

// take gives the root plans that were told of since the last take, and up to
// others of the older ones, chosen by pick.
func (l *ledger) take(others int, pick func(n int) int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	chosen := l.fresh
	l.fresh = map[string]bool{}
	for range min(others, len(l.order)) {
		chosen[l.order[pick(len(l.order))]] = true
	}
	var roots []string
	for _, root := range l.order {
		if chosen[root] {
			roots = append(roots, root)
		}
	}
	return roots
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.order...)
}

// with gives the items of a plan that carry any of the marks.
func (l *ledger) with(root string, marks told) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var items []string
	for item, t := range l.plans[root] {
		if t&marks != 0 {
			items = append(items, item)
		}
	}
	return items
}

func (l *ledger) has(root, item string, marks told) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plans[root][item]&marks != 0
}

func (l *ledger) brokenSoFar() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.broken...)
}
