package httpd

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Budget is a number of bytes of memory that clients share. One client can hold half of it, one
// connection a quarter. It is safe for concurrent use.
type Budget struct {
	size          int64
	perClient     int64
	perConnection int64

	mu          sync.Mutex
	used        int64
	clients     map[string]int64 // only those that hold some
	connections map[string]int64
	refused     map[*Problem]int64
}

// Client is who takes from a budget.
type Client struct {
	// Name is the name of the API key, or without keys the address of the peer.
	Name string
	// Connection is the peer's address and port.
	Connection string
}

// The answers to a request for which a budget has no room.
var (
	// ErrBusy: all clients together hold all of it.
	ErrBusy = &Problem{Status: http.StatusServiceUnavailable, Detail: "the server holds as much in memory for all clients as it can at the moment; nothing of this request was done, send the same again soon", RetryAfter: 1}
	// ErrClientShare: the client holds its share.
	ErrClientShare = &Problem{Status: http.StatusTooManyRequests, Detail: "the other requests of this API key, or without keys of this address, hold its share of the server's memory; nothing of this one was done, send the same again when they are answered", RetryAfter: 1}
	// ErrConnectionShare: the connection holds its share.
	ErrConnectionShare = &Problem{Status: http.StatusTooManyRequests, Detail: "this request, with the others of its connection, needs more than one connection's share of the server's memory; nothing of it was done, send less at once, or the same again when the others are answered", RetryAfter: 1}
	// ErrOverShare: the request alone needs more than may be held for one.
	ErrOverShare = &Problem{Status: http.StatusRequestEntityTooLarge, Detail: "this request alone needs more memory than the server holds for one; nothing of it was done, send less at once"}
)

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget {
	return &Budget{
		size: size, perClient: size / 2, perConnection: size / 4,
		clients: map[string]int64{}, connections: map[string]int64{}, refused: map[*Problem]int64{},
	}
}

// letOne makes the shares large enough for one request of n bytes.
func (b *Budget) letOne(n int64) *Budget {
	b.perClient = min(b.size, max(b.perClient, n))
	b.perConnection = min(b.size, max(b.perConnection, n))
	return b
}

// Lease returns what a request of a client holds of the budget, nothing at first. The caller
// returns it.
func (b *Budget) Lease(client Client) *Lease { return &Lease{of: b, client: client} }

// Held is how many bytes are taken at the moment.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Lease is what one request holds of a budget. It is for one goroutine at a time.
type Lease struct {
	of     *Budget
	client Client
	taken  int64
}

// Take takes n bytes more, or returns [ErrBusy], [ErrClientShare], [ErrConnectionShare] or, if
// it could never have them, [ErrOverShare].
func (l *Lease) Take(n int64) error {
	b := l.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.taken+n > min(b.perClient, b.perConnection) {
		return ErrOverShare
	}
	if refused := b.check(l.client, n); refused != nil {
		b.refused[refused]++
		return refused
	}
	b.add(l.client, n)
	l.taken += n
	return nil
}

// Return returns all that was taken. The lease can be used again.
func (l *Lease) Return() { l.Keep(0) }

// Keep returns all that was taken but n bytes.
func (l *Lease) Keep(n int64) {
	if n >= l.taken {
		return
	}
	b := l.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(l.client, n-l.taken)
	l.taken = n
}

// check returns the problem if a client cannot have n bytes more, or nil.
func (b *Budget) check(client Client, n int64) *Problem {
	switch {
	case b.connections[client.Connection]+n > b.perConnection:
		return ErrConnectionShare
	case b.clients[client.Name]+n > b.perClient:
		return ErrClientShare
	case b.used+n > b.size:
		return ErrBusy
	}
	return nil
}

func (b *Budget) add(client Client, n int64) {
	b.used += n
	addTo(b.clients, client.Name, n)
	addTo(b.connections, client.Connection, n)
}

func addTo(m map[string]int64, name string, n int64) {
	if m[name] += n; m[name] == 0 {
		delete(m, name)
	}
}

// metrics returns the metrics of the budget, with a prefix for their names. what says whose
// bytes are meant.
func (b *Budget) metrics(prefix, what string) []prometheus.Collector {
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "_bytes", Help: "Bytes that are held in memory " + what + ".",
		}, func() float64 { return float64(b.Held()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "_bytes_max", Help: "How many bytes may be held " + what + ".",
		}, func() float64 { return float64(b.size) }),
	}
	for limit, problem := range map[string]*Problem{"server": ErrBusy, "client": ErrClientShare, "connection": ErrConnectionShare} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: prefix + "_refused_total", Help: "Requests that were refused because the memory " + what + " was used up: all of it, the client's share or the connection's.",
			ConstLabels: prometheus.Labels{"limit": limit},
		}, func() float64 {
			b.mu.Lock()
			defer b.mu.Unlock()
			return float64(b.refused[problem])
		}))
	}
	return all
}
