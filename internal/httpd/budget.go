package httpd

import (
	"net/http"
	"sync/atomic"
)

// Budget is a number of bytes that requests share.
type Budget struct {
	size int64
	used atomic.Int64
}

// ErrBusy answers a request for which the budget has no room.
var ErrBusy = &Problem{Status: http.StatusServiceUnavailable, Detail: "the server holds as many request bodies as it can at the moment; nothing of this one was written, send the same again soon", RetryAfter: 1}

// Lease returns the share of one request, empty at first. The caller returns it.
func (b *Budget) Lease() *Lease { return &Lease{of: b} }

// Lease is what one request has of a budget.
type Lease struct {
	of    *Budget
	taken int64
}

// Take takes more of the budget, or returns [ErrBusy].
func (l *Lease) Take(n int64) error {
	if l.of.used.Add(n) > l.of.size {
		l.of.used.Add(-n)
		return ErrBusy
	}
	l.taken += n
	return nil
}

// Return returns all that was taken.
func (l *Lease) Return() { l.of.used.Add(-l.taken) }
