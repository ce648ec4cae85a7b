package httpd

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Turns lets a number of requests do something at once. Others wait in a line, in their order. A
// client has at most half of the turns, and at most half of the line. It is safe for concurrent
// use.
type Turns struct {
	taken    *quota // its lock guards those that wait, too
	line     int
	patience time.Duration
	waiting  []*turn
}

// turn is a request in the line.
type turn struct {
	client Client
	begin  chan struct{} // closed when it is the request's turn
}

// The answers to a request that does not get a turn.
var (
	// ErrNoTurn: others have all of them.
	ErrNoTurn = Later(2, "the server does as much at once that takes long as it can; ask again soon")
	// ErrClientTurns: the client has as many as it may.
	ErrClientTurns = &Problem{
		Status: http.StatusTooManyRequests,
		Detail: "the other requests of this API key, or without keys of this address, do as much at once that takes long " +
			"as one client may; ask again when they are answered", RetryAfter: 2,
	}
)

// NewTurns returns turns for size requests at once. At most line others wait, for at most
// patience.
func NewTurns(size, line int, patience time.Duration) *Turns {
	return &Turns{
		taken: newQuota(int64(size), int64(half(size)), ErrNoTurn, ErrClientTurns), line: line, patience: patience,
	}
}

// half of a number is what one client may have of it.
func half(n int) int { return (n + 1) / 2 }

// Take waits for a turn. The caller calls done when it is over. The error is [ErrNoTurn],
// [ErrClientTurns] or that of ctx.
func (t *Turns) Take(ctx context.Context, client Client) (done func(), err error) {
	t.taken.Lock()
	over := t.taken.over(client, 1)
	switch {
	case over == nil:
		t.taken.add(client, 1)
		t.taken.Unlock()
		return t.done(client), nil
	case t.full(client):
		defer t.taken.Unlock()
		return nil, over.refuse()
	}

	next := &turn{client: client, begin: make(chan struct{})}
	t.waiting = append(t.waiting, next)
	t.taken.Unlock()

	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case <-next.begin:
		return t.done(client), nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}

	t.taken.Lock()
	defer t.taken.Unlock()
	i := slices.Index(t.waiting, next)
	if i < 0 { // its turn came at this moment
		return t.done(client), nil
	}

	t.waiting = slices.Delete(t.waiting, i, i+1)
	if err == nil {
		err = t.taken.over(client, 1).refuse() // or it would not wait
	}
	return nil, err
}

// Taken is how many turns are taken at the moment.
func (t *Turns) Taken() int { return int(t.taken.usedNow()) }

// full reports whether a client cannot wait.
func (t *Turns) full(client Client) bool {
	own := 0
	for _, w := range t.waiting {
		if w.client.Name == client.Name {
			own++
		}
	}
	return len(t.waiting) >= t.line || own >= half(t.line)
}

// done returns a function that ends a turn, once, and lets the next one begin.
func (t *Turns) done(client Client) func() {
	return sync.OnceFunc(func() {
		t.taken.Lock()
		defer t.taken.Unlock()
		t.taken.add(client, -1)

		for i, next := range t.waiting {
			if t.taken.over(next.client, 1) == nil {
				t.taken.add(next.client, 1)
				t.waiting = slices.Delete(t.waiting, i, i+1)
				close(next.begin)
				return
			}
		}
	})
}

// Metrics returns the metrics of the turns. of is the label that says what they are for.
func (t *Turns) Metrics(of string) []prometheus.Collector {
	label := prometheus.Labels{"of": of}
	return t.taken.metrics(
		prometheus.Opts{
			Name: "actlog_http_turns", Help: "Requests that do something of which there is a bounded number at once.",
			ConstLabels: label,
		},
		prometheus.Opts{Name: "actlog_http_turns_max", Help: "How many may do so at once.", ConstLabels: label},
		prometheus.Opts{
			Name: "actlog_http_turns_refused_total",
			Help: "Requests that were refused because all turns, or those of their client, were taken.", ConstLabels: label,
		},
	)
}
