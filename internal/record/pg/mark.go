package pg

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Mark is a moment of a cluster: what was committed before it. A standby is at one too: what it has.
type Mark struct {
	Timeline uint32
	Position uint64 // in the WAL, in bytes
}

// Latest is after all marks: no standby has it.
var Latest = Mark{math.MaxUint32, math.MaxUint64}

// String returns a mark as clients get it, such as 3-16B3748.
func (m Mark) String() string { return fmt.Sprintf("%X-%X", m.Timeline, m.Position) }

// ParseMark is the inverse of String.
func ParseMark(text string) (m Mark, err error) {
	timeline, position, _ := strings.Cut(text, "-")
	t, err := strconv.ParseUint(timeline, 16, 32)
	if err == nil {
		m.Timeline = uint32(t)
		m.Position, err = strconv.ParseUint(position, 16, 64)
	}

	if err != nil || m.String() != text {
		return Mark{}, fmt.Errorf("%.40q is no mark", text)
	}
	return m, nil
}

// Has reports whether all of another mark is before this one. Positions of two timelines are in one order: a timeline
// begins where a standby of an older one was promoted.
func (m Mark) Has(other Mark) bool {
	return m.Timeline >= other.Timeline && m.Position >= other.Position
}

// marker asks the primary for marks: one question answers all who ask before it is sent. It is safe for concurrent use.
type marker struct {
	db     *DB
	asking sync.Mutex

	mu   sync.Mutex
	next *question // that was not sent yet
}

type question struct {
	done   chan struct{}
	mark   Mark
	stored Mark
	err    error
}

// markTimeout is how long the primary may take to say where it is.
const markTimeout = 2 * time.Second

// ask returns a mark that has all that was committed before the call, and one of what was written to disk then, which
// may be less. A standby that has nothing to do is at the latter.
func (m *marker) ask(ctx context.Context) (mark, stored Mark, err error) {
	m.mu.Lock()
	q := m.next
	if q == nil {
		q = &question{done: make(chan struct{})}
		m.next = q
		go m.send(q)
	}
	m.mu.Unlock()

	select {
	case <-q.done:
		return q.mark, q.stored, q.err
	case <-ctx.Done():
		return mark, stored, ctx.Err()
	}
}

func (m *marker) send(q *question) {
	defer close(q.done)
	m.asking.Lock()
	defer m.asking.Unlock()
	m.mu.Lock()
	m.next = nil // who asks from now on needs a later answer
	m.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	_, q.err = Read(ctx, m.db, func() (_ struct{}, err error) {
		err = m.db.QueryRow(ctx, `SELECT t.timeline, t.timeline, (pg_current_wal_insert_lsn() - '0/0')::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint
			FROM (SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint AS timeline) AS t`).Scan(
			&q.mark.Timeline, &q.stored.Timeline, &q.mark.Position, &q.stored.Position)
		return struct{}{}, err
	})
}
