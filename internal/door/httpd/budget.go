package httpd

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Budget is a number of bytes of memory that clients share. One client can hold half of it, one
// connection a quarter. It is safe for concurrent use.
type Budget struct{ held *quota }

// The answers to a request for which a budget has no room.
var (
	// ErrBusy: all clients together hold all of it.
	ErrBusy = Later(1, "the server holds as much in memory for all clients as it can at the moment; nothing of this "+
		"request was done, send the same again soon")
	// ErrClientShare: the client holds its share.
	ErrClientShare = &Problem{
		Status: http.StatusTooManyRequests,
		Detail: "the other requests of this API key, or without keys of this address, hold its share of the server's " +
			"memory; nothing of this one was done, send the same again when they are answered", RetryAfter: 1,
	}
	// ErrConnectionShare: the connection holds its share.
	ErrConnectionShare = &Problem{
		Status: http.StatusTooManyRequests,
		Detail: "this request, with the others of its connection, needs more than one connection's share of the server's " +
			"memory; nothing of it was done, send less at once, or the same again when the others are answered", RetryAfter: 1,
	}
	// ErrOverShare: the request alone needs more than may be held for one.
	ErrOverShare = Refused(http.StatusRequestEntityTooLarge, "this request alone needs more memory than the server "+
		"holds for one; nothing of it was done, send less at once")
)

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget {
	held := newQuota(size, size/2, ErrBusy, ErrClientShare)
	held.limits[ofConnection] = limit{
		name: "connection", most: size / 4, answer: ErrConnectionShare, held: map[string]int64{},
	}
	return &Budget{held: held}
}

// letOne makes the shares large enough for one request of n bytes.
func (b *Budget) letOne(n int64) *Budget {
	for i := range b.held.limits {
		l := &b.held.limits[i]
		l.most = max(l.most, min(n, b.size()))
	}
	return b
}

func (b *Budget) size() int64 { return b.held.limits[ofAll].most }

// Lease returns what a request of a client holds of the budget, nothing at first. The caller
// returns it.
func (b *Budget) Lease(client Client) *Lease { return &Lease{of: b, client: client} }

// Held is how many bytes are taken at the moment.
func (b *Budget) Held() int64 { return b.held.usedNow() }

// Lease is what one request holds of a budget. It is for one goroutine at a time.
type Lease struct {
	of     *Budget
	client Client
	taken  int64
}

// Take takes n bytes more, or returns [ErrBusy], [ErrClientShare], [ErrConnectionShare] or, if
// it could never have them, [ErrOverShare].
func (l *Lease) Take(n int64) error {
	held := l.of.held
	held.Lock()
	defer held.Unlock()

	if l.taken+n > min(held.limits[ofConnection].most, held.limits[ofClient].most) {
		return ErrOverShare
	}
	if refused := held.take(l.client, n); refused != nil {
		return refused
	}
	l.taken += n
	return nil
}

// Return returns all that was taken. The lease can be used again.
func (l *Lease) Return() { l.ReleaseAllBut(0) }

// ReleaseAllBut returns all that was taken but n bytes.
func (l *Lease) ReleaseAllBut(n int64) {
	if n >= l.taken {
		return
	}

	held := l.of.held
	held.Lock()
	defer held.Unlock()
	held.add(l.client, n-l.taken)
	l.taken = n
}

// metrics returns the metrics of the budget, with a prefix for their names. what says whose
// bytes are meant.
func (b *Budget) metrics(prefix, what string) []prometheus.Collector {
	return b.held.metrics(
		prometheus.Opts{Name: prefix + "_bytes", Help: "Bytes that are held in memory " + what + "."},
		prometheus.Opts{Name: prefix + "_bytes_max", Help: "How many bytes may be held " + what + "."},
		prometheus.Opts{
			Name: prefix + "_refused_total",
			Help: "Requests that were refused because the memory " + what +
				" was used up: all of it, the client's share or the connection's.",
		},
	)
}
