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
	size, line int
	patience   time.Duration

	mu      sync.Mutex
	taken   int
	clients map[string]int // turns by client; only those that have some
	waiting []*turn
	refused map[*Problem]int64
}

// turn is a request in the line.
type turn struct {
	client string
	begin  chan struct{} // closed when it is the request's turn
}

// The answers to a request that does not get a turn.
var (
	// ErrNoTurn: others have all of them.
	ErrNoTurn = &Problem{Status: http.StatusServiceUnavailable, Detail: "the server does as much at once that takes long as it can; ask again soon", RetryAfter: 2}
	// ErrClientTurns: the client has as many as it may.
	ErrClientTurns = &Problem{Status: http.StatusTooManyRequests, Detail: "the other requests of this API key, or without keys of this address, do as much at once that takes long as one client may; ask again when they are answered", RetryAfter: 2}
)

// NewTurns returns turns for size requests at once. At most line others wait, for at most
// patience.
func NewTurns(size, line int, patience time.Duration) *Turns {
	return &Turns{size: size, line: line, patience: patience, clients: map[string]int{}, refused: map[*Problem]int64{}}
}

// half of a number is what one client may have of it.
func half(n int) int { return (n + 1) / 2 }

// Take waits for a turn. The caller calls done when it is over. The error is [ErrNoTurn],
// [ErrClientTurns] or that of ctx.
func (t *Turns) Take(ctx context.Context, client Client) (done func(), err error) {
	t.mu.Lock()
	if t.free(client.Name) {
		t.begin(client.Name)
		t.mu.Unlock()
		return t.done(client.Name), nil
	}
	if t.full(client.Name) {
		defer t.mu.Unlock()
		return nil, t.refuse(client.Name)
	}
	next := &turn{client: client.Name, begin: make(chan struct{})}
	t.waiting = append(t.waiting, next)
	t.mu.Unlock()

	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case <-next.begin:
		return t.done(client.Name), nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, next)
	if i < 0 { // its turn came at this moment
		return t.done(client.Name), nil
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if err == nil {
		err = t.refuse(client.Name)
	}
	return nil, err
}

// Taken is how many turns are taken at the moment.
func (t *Turns) Taken() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// free reports whether a client can have a turn.
func (t *Turns) free(client string) bool { return t.taken < t.size && t.clients[client] < half(t.size) }

// full reports whether a client cannot wait.
func (t *Turns) full(client string) bool {
	own := 0
	for _, w := range t.waiting {
		if w.client == client {
			own++
		}
	}
	return len(t.waiting) >= t.line || own >= half(t.line)
}

func (t *Turns) begin(client string) {
	t.taken++
	t.clients[client]++
}

func (t *Turns) refuse(client string) *Problem {
	problem := ErrNoTurn
	if t.clients[client] >= half(t.size) {
		problem = ErrClientTurns
	}
	t.refused[problem]++
	return problem
}

// done returns a function that ends a turn, once, and lets the next one begin.
func (t *Turns) done(client string) func() {
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.taken--
		if t.clients[client]--; t.clients[client] == 0 {
			delete(t.clients, client)
		}
		if i := slices.IndexFunc(t.waiting, func(w *turn) bool { return t.free(w.client) }); i >= 0 {
			next := t.waiting[i]
			t.waiting = slices.Delete(t.waiting, i, i+1)
			t.begin(next.client)
			close(next.begin)
		}
	})
}

// Metrics returns the metrics of the turns. of is the label that says what they are for.
func (t *Turns) Metrics(of string) []prometheus.Collector {
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_turns", Help: "Requests that do something of which there is a bounded number at once.", ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(t.Taken()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_turns_max", Help: "How many may do so at once.", ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(t.size) }),
	}
	for limit, problem := range map[string]*Problem{"server": ErrNoTurn, "client": ErrClientTurns} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_http_turns_refused_total", Help: "Requests that were refused because all turns, or those of their client, were taken.",
			ConstLabels: prometheus.Labels{"of": of, "limit": limit},
		}, func() float64 {
			t.mu.Lock()
			defer t.mu.Unlock()
			return float64(t.refused[problem])
		}))
	}
	return all
}
