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

// The ledger says what the clients wrote and what was acknowledged. Each client process appends to
// its own file, one line per event and one write per line, so the lines survive if the client is
// killed. An intent is written before the call and an acknowledgement after it. So everything that
// the file calls acknowledged was acknowledged, and no item without an intent can be on record.

// mark is the first letter of a line.
type mark byte

const (
	markIntent  mark = 'i' // about to be written
	markAcked   mark = 'a' // the server acknowledged it
	markSpooled mark = 's' // in the spool of the client: must be on record at the end
	markProblem mark = 'x' // something happened that must not happen
)

// pen writes the ledger of a client.
type pen struct{ file *os.File }

func openPen(path string) (*pen, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &pen{f}, nil
}

// note appends a line. If that fails, it panics, because a client without a ledger proves nothing.
func (p *pen) note(m mark, plan, item string) {
	line := fmt.Sprintf("%c\t%s\t%s\n", m, plan, strings.NewReplacer("\n", " ", "\t", " ").Replace(item))
	if _, err := p.file.WriteString(line); err != nil {
		panic(fmt.Sprintf("write the ledger: %v", err))
	}
}

// progress is a set of what is known about an item.
type progress uint8

const (
	intended progress = 1 << iota
	acked
	spooled
)

// ledger is the view of the driver of the files of all clients.
type ledger struct {
	dir string

	mu     sync.Mutex
	offset map[string]int64
	plans  map[string]map[string]progress // by root plan, then item
	order  []string                       // root plans in the order of their first line
	fresh  map[string]bool                // root plans with new lines since the last take
	acks   int
	failed []string // problems of clients
}

func newLedger(dir string) *ledger {
	return &ledger{dir: dir, offset: map[string]int64{}, plans: map[string]map[string]progress{}, fresh: map[string]bool{}}
}

func (l *ledger) file(client string) string { return filepath.Join(l.dir, client+".ledger") }

// catchUp reads what the clients have written since the last call. It returns the number of
// acknowledged items so far.
func (l *ledger) catchUp() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	files, err := filepath.Glob(l.file("*"))
	if err != nil {
		return 0, fmt.Errorf("read the ledger: %w", err)
	}
	for _, path := range files {
		if err := l.read(path); err != nil {
			return 0, fmt.Errorf("read the ledger: %w", err)
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
			return errors.New("invalid line: " + line)
		}
		l.add(mark(m[0]), plan, item)
	}
	return nil
}

func (l *ledger) add(m mark, plan, item string) {
	if m == markProblem {
		l.failed = append(l.failed, plan+": "+item)
		return
	}

	root := strings.Clone(rootOf(plan)) // lines are parts of a large string, which must not stay in memory
	items, known := l.plans[root]
	if !known {
		items = map[string]progress{}
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

// take returns the root plans with new lines since the last take, and up to others older ones, which
// pick chooses.
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

// newest returns the latest root plan, or nothing.
func (l *ledger) newest() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) == 0 {
		return ""
	}
	return l.order[len(l.order)-1]
}

// with returns the items of a plan with at least one of the marks.
func (l *ledger) with(root string, marks progress) []string {
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

func (l *ledger) has(root, item string, marks progress) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plans[root][item]&marks != 0
}

func (l *ledger) problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.failed...)
}
