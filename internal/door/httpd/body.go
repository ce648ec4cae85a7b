package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/record/wire"
)

const (
	// freeBytes of each body need no place in the budget, so that small bodies are taken whatever
	// other clients do. The number of connections bounds them.
	freeBytes = 64 << 10
	// leastRate, in bytes per second, is how fast a client must send while its request holds a
	// part of the budget.
	leastRate = 16 << 10
)

// ErrSlow answers a request whose body does not come in time.
var ErrSlow = Refused(http.StatusRequestTimeout,
	fmt.Sprintf("the body came too slowly; nothing of it was written. A body may take %d seconds, and beyond "+
		"its first %d KiB, decompressed, it must come with at least %d KiB per second; send smaller bodies",
		int(readTimeout.Seconds()), freeBytes>>10, leastRate>>10))

// Body is the body of a request, and what the request holds of the budget for bodies.
//
// While it holds some, the client must go on sending: it has some seconds of patience in all,
// waiting uses them up, and each 16 KiB that arrive bring one second back.
type Body struct {
	server      *Server
	from        *countedBody
	setDeadline func(time.Time) error
	lease       *Lease
	free        int64 // bytes that are taken already, or need not be

	patience time.Duration // how long the client may still let us wait
	deadline time.Time     // as last set; zero: that of the request
	until    time.Time     // when the request must have been read
	err      error
}

// Body returns the body of a request, and takes the room for its length if that is known. The
// caller returns what it takes. The error is a [Problem].
func (s *Server) Body(c echo.Context) (*Body, error) {
	noted := requestOf(c)
	b := &Body{
		server: s, from: noted.body, setDeadline: http.NewResponseController(c.Response().Writer).SetReadDeadline,
		lease: s.bodies.Lease(ClientOf(c)), free: freeBytes, patience: s.config.Patience, until: noted.began.Add(readTimeout),
	}

	length := c.Request().ContentLength
	if length > wire.MaxBodyBytes {
		return b, Unreadable(fmt.Errorf("%w: the body is over %d bytes", wire.ErrTooLarge, wire.MaxBodyBytes))
	}
	return b, b.Reserve(length)
}

// Read implements [io.Reader]. Errors may be [ErrSlow] or those of [Body.Reserve].
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}

	began := time.Now()
	watched := b.lease.taken > 0
	if watched {
		b.extend(began)
	}
	n, err := b.from.Read(p)
	if watched {
		earned := time.Duration(n) * time.Second / leastRate
		b.patience = min(b.patience-time.Since(began)+earned, b.server.config.Patience)
	}

	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.server.metrics.slow.Inc()
		b.err = ErrSlow
	case err != nil:
		b.err = err
	}
	return n, b.err
}

// extend sets the deadline of the next read. Not at each of them: setting it costs about as
// much as reading a little.
func (b *Body) extend(now time.Time) {
	want := now.Add(b.patience)
	if !want.After(b.deadline) {
		return
	}

	b.deadline = want.Add(b.server.config.Patience / 4)
	if b.until.Before(b.deadline) {
		b.deadline = b.until
	}
	_ = b.setDeadline(b.deadline) // if the connection cannot, the time of the request bounds it
}

// Reserve takes the room for n bytes that are about to be taken, or returns the error of
// [Lease.Take].
func (b *Body) Reserve(n int64) error {
	if n <= b.free {
		return nil
	}
	if err := b.lease.Take(n - b.free); err != nil {
		return err
	}
	b.free = n
	return nil
}

// Take takes n bytes of what is reserved, and more of the budget if that is used up. The errors
// are those of [Lease.Take].
func (b *Body) Take(n int64) error {
	if err := b.Reserve(n); err != nil {
		return err
	}
	b.free -= n
	return nil
}

// Return returns all that was taken.
func (b *Body) Return() { b.lease.Return() }
