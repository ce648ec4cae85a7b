package httpd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// smallAnswer is what every answer may hold without asking.
	smallAnswer = 64 << 10
	// largeAnswer is from which size on answers are made in turns: they take a processor for
	// tens of milliseconds.
	largeAnswer = 1 << 20
	// answerChunk is how an answer is held and sent. Each chunk that was sent is released.
	answerChunk = 64 << 10
	// busyPause is how long a refusal of a large answer waits: a client that asks again at once
	// would keep the server at reading what it then refuses.
	busyPause = time.Second
	// readRate is how many bytes a second a client has to read.
	readRate = 32 << 10
)

var answerChunks = sync.Pool{New: func() any { return new([answerChunk]byte) }}

// ErrTooLarge answers a request whose answer is more than may be held in memory for one.
var ErrTooLarge = Refused(http.StatusRequestEntityTooLarge, "this answer is larger than the server holds in memory "+
	"for one request; read the plan row by row, at /api/v1/plans/{planId}/records, or one step at a time")

// Answer is the answer to one request on its way out. It is made as fast as it can be, and held
// until the handler has returned. Only then it is sent, so a client that reads slowly holds
// nothing but the bytes that it has not read yet, compressed, and a handler that fails can
// still answer so. What is held is taken from a budget.
//
// An answer of any length is streamed instead: see [Answer.Stream].
type Answer struct {
	http.ResponseWriter
	server  *Server
	request context.Context //nolint:containedctx // it lives as long as the request
	client  Client

	path    string
	lease   *Lease
	taken   int64
	reserve int64       // what the lease holds of a streamed one
	done    func()      // ends its turn; nil: it has none
	limit   *time.Timer // ends the request when it takes too long; nil: it may take any time

	written  int64 // before it is compressed
	pacing   bool  // it has a processor
	status   int
	chunks   [][]byte
	size     int64
	streamed bool
	begun    bool  // the client has a part of it
	replaced bool  // by the answer to an error
	refused  bool  // it is too large for what there is room for at the moment
	err      error // of the first write that failed; those that compress may ignore it

	// ahead is how long the client may stop reading before it is cut; since is when it last
	// read.
	ahead time.Duration
	since time.Time
}

// answered holds the answers of h and sends them when it is done.
func (s *Server) answered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &Answer{
			ResponseWriter: w, server: s, request: r.Context(), path: r.URL.Path, ahead: s.config.AnswerPatience,
			since: time.Now(),
		}
		defer a.end()

		h.ServeHTTP(a, r)
		a.made()
		if a.send(); a.err != nil {
			panic(http.ErrAbortHandler) // breaks the connection
		}
	})
}

// answerOf finds the answer below the writers that wrap it.
func answerOf(w http.ResponseWriter) *Answer {
	for {
		switch v := w.(type) {
		case *Answer:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

// belongs says whose the answer is.
func (a *Answer) belongs(to Client) {
	if a != nil {
		a.client, a.lease = to, a.server.answers.Lease(to)
	}
}

// within makes the making of the answer end with ctx, which limit ends. The caller calls stop
// when it is made.
func (a *Answer) within(ctx context.Context, limit *time.Timer) (stop func()) {
	if a == nil {
		return func() { limit.Stop() }
	}

	request := a.request
	a.request, a.limit = ctx, limit
	return func() {
		limit.Stop()
		a.request = request
	}
}

// begin waits for the answer's turn if the last one of its path was large. The error is that of
// [Answer.Take].
func (a *Answer) begin() error {
	if a == nil {
		return nil
	}
	if a.server.outcomes.of(a.path) == large {
		return a.takeTurn()
	}
	return nil
}

// WasStreamed reports whether the last answer of its path was streamed.
func (a *Answer) WasStreamed() bool {
	return a.server.outcomes.of(a.path) == streamed
}

func (a *Answer) takeTurn() (err error) {
	if a.done, err = a.server.making.Take(a.request, a.client); err != nil {
		a.refused = true
	}
	return err
}

// Take counts n bytes that the answer holds while it is made: rows, and what is made of them.
// Once the answer is large it waits for its turn. The error is a [Problem], or that of the
// request's context. What was taken is returned by itself, when the answer is made or, of a
// streamed one, with [Answer.Release].
func (a *Answer) Take(n int64) error {
	total := a.taken + n
	switch {
	case total > a.server.config.AnswerBytes/answersOfOne:
		return ErrTooLarge
	case total > largeAnswer && a.taken <= largeAnswer && !a.streamed:
		a.server.outcomes.set(a.path, large)
		if a.done == nil {
			if err := a.takeTurn(); err != nil {
				return err
			}
		}
	}

	if more := a.leased(total) - a.leased(a.taken); more > 0 {
		if err := a.lease.Take(more); err != nil {
			a.refused = true
			return err
		}
	}

	a.taken = total
	return nil
}

// leased is how much of the budget is taken when n bytes are.
func (a *Answer) leased(n int64) int64 { return max(n-smallAnswer, a.reserve, 0) }

// Release returns what was taken.
func (a *Answer) Release() { a.releaseAllBut(0) }

// releaseAllBut returns all that was taken but n bytes.
func (a *Answer) releaseAllBut(n int64) {
	if n = min(n, a.taken); a.taken > smallAnswer {
		a.lease.ReleaseAllBut(a.leased(n))
	}
	a.taken = n
}

// Stream ends the holding: from here on, what is written goes to the client, as fast as it
// reads, and a handler that fails breaks the connection. Up to reserve bytes, or an eighth of the
// budget, can then be taken at any time. The error is that of [Answer.Take].
func (a *Answer) Stream(reserve int64) error {
	reserve = min(reserve, a.server.config.AnswerBytes/8)
	if more := max(reserve, a.leased(a.taken)) - a.leased(a.taken); more > 0 {
		if err := a.lease.Take(more); err != nil {
			a.refused = true
			return err
		}
	}

	if a.reserve, a.streamed = reserve, true; reserve > 0 {
		a.server.outcomes.set(a.path, streamed)
	}
	if a.limit != nil {
		a.limit.Stop()
	}

	a.endTurn()
	a.since = time.Now()
	return nil
}

// Raw ends the holding as [Answer.Stream] does, and returns the writer of the connection, for a handler that
// speaks another protocol on it.
func (a *Answer) Raw() http.ResponseWriter {
	a.streamed = true
	a.endTurn()
	return a.ResponseWriter
}

func (a *Answer) endTurn() {
	if a.done != nil {
		a.done()
		a.done = nil
	}
}

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	switch {
	case a.replaced: // the status of what is not sent
	case a.streamed || status < http.StatusOK:
		a.ResponseWriter.WriteHeader(status)
	case a.status == 0:
		a.status = status
	}
}

// Write implements [io.Writer].
func (a *Answer) Write(p []byte) (int, error) {
	switch {
	case a.err != nil, a.replaced:
	case a.streamed:
		a.sendChunk(p)
	default:
		a.buffer(p)
	}

	if a.err != nil {
		return 0, a.err
	}
	return len(p), nil
}

// buffer appends a copy of p to the chunks of the answer. It takes memory from the budget first.
func (a *Answer) buffer(p []byte) {
	// The budget still counts the rows that the answer is made of. Most answers are smaller than their rows, so more is
	// taken only beyond that.
	if a.size += int64(len(p)); a.size > a.taken {
		if a.err = a.Take(a.size - a.taken); a.err != nil {
			return
		}
	}

	for len(p) > 0 {
		last := len(a.chunks) - 1
		switch {
		case last >= 0 && len(a.chunks[last]) < cap(a.chunks[last]): // the last chunk has room
		case last < 0 && len(p) < answerChunk: // most answers fit one small chunk
			a.chunks = append(a.chunks, make([]byte, 0, max(len(p), 4<<10)))
			last++
		default:
			a.chunks = append(a.chunks, answerChunks.Get().(*[answerChunk]byte)[:0])
			last++
		}

		chunk := a.chunks[last]
		n := min(len(p), cap(chunk)-len(chunk))
		a.chunks[last], p = append(chunk, p[:n]...), p[n:]
	}
}

// replace forgets what is held, and returns a writer for what is sent in its place; nil if the
// client has a part already. What is still written to the answer, such as the end of what was
// compressed, is not sent.
func (a *Answer) replace() http.ResponseWriter {
	if a == nil || a.streamed || a.begun {
		return nil
	}

	for _, of := range []string{echo.HeaderContentLength, echo.HeaderContentEncoding, "ETag"} {
		a.Header().Del(of)
	}
	a.Header().Set(echo.HeaderCacheControl, "no-store")
	for _, chunk := range a.chunks {
		freeChunk(chunk)
	}

	a.chunks, a.size = nil, 0
	a.status, a.err = 0, nil
	a.replaced = true
	a.Release()
	return replacement{a}
}

// replacement is what is sent instead of an answer.
type replacement struct{ *Answer }

func (r replacement) WriteHeader(status int) { r.status = status }

func (r replacement) Write(p []byte) (int, error) {
	if r.buffer(p); r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

func freeChunk(chunk []byte) {
	if cap(chunk) == answerChunk {
		answerChunks.Put((*[answerChunk]byte)(chunk[:answerChunk]))
	}
}

// compress takes a processor for the next n bytes, unless the answer is small. The caller calls
// done when they are compressed. While the answer is sent it has none.
func (a *Answer) compress(n int) (done func()) {
	if a.written += int64(n); a.written <= smallAnswer {
		return func() {}
	}

	a.server.processors <- struct{}{}
	a.pacing = true
	return func() {
		a.pacing = false
		<-a.server.processors
	}
}

// Flush implements [http.Flusher]: of an answer that is held, it sends what there is so far, and what follows is held
// again. A handler that fails after that breaks the connection.
func (a *Answer) Flush() {
	if a.replaced || a.err != nil {
		return
	}

	if !a.streamed {
		a.sendHeld()
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush() // the next write has the error
}

// Unwrap lets [http.ResponseController] reach the connection.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// made returns what was taken for making the answer. What remains are the bytes to be sent.
func (a *Answer) made() {
	if a.done != nil && a.taken <= largeAnswer { // it was large once
		a.server.outcomes.set(a.path, small)
	}
	a.endTurn()
	a.releaseAllBut(a.size)
}

func (a *Answer) send() {
	if a.streamed || a.err != nil || a.status == 0 && len(a.chunks) == 0 {
		return
	}

	if a.refused {
		select {
		case <-time.After(busyPause):
		case <-a.request.Done():
		}
	}

	if header := a.Header(); !a.begun && a.size > 0 && header.Get(echo.HeaderContentLength) == "" {
		header.Set(echo.HeaderContentLength, strconv.FormatInt(a.size, 10))
	}
	a.sendHeld()
}

func (a *Answer) sendHeld() {
	if a.status != 0 && !a.begun {
		a.ResponseWriter.WriteHeader(a.status)
	}
	a.begun = true
	a.since = time.Now()

	for i, chunk := range a.chunks {
		if a.sendChunk(chunk); a.err != nil {
			return
		}
		a.chunks[i] = nil
		freeChunk(chunk)
		a.size -= int64(len(chunk))
		a.releaseAllBut(a.size)
	}
	a.chunks = nil
}

// sendChunk sends bytes to the client, which has to read them: it may stop for as long as the
// server is patient, and gains time with what it reads.
func (a *Answer) sendChunk(p []byte) {
	control := http.NewResponseController(a.ResponseWriter)
	for len(p) > 0 {
		chunk := p[:min(len(p), answerChunk)]
		began := time.Now()
		a.ahead = min(a.ahead+began.Sub(a.since), a.server.config.AnswerPatience) +
			time.Duration(len(chunk))*time.Second/readRate
		// If the connection cannot set a deadline, that of the server bounds the answer.
		_ = control.SetWriteDeadline(began.Add(a.ahead))

		if a.pacing {
			<-a.server.processors
		}
		_, err := a.ResponseWriter.Write(chunk)
		a.since = time.Now()
		if a.pacing {
			a.server.processors <- struct{}{}
		}
		a.ahead -= a.since.Sub(began)

		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				a.server.metrics.cut.Inc()
			}
			a.err = fmt.Errorf("%w: %w", ErrGone, err)
			return
		}
		p = p[len(chunk):]
	}
}

// end returns everything, however the request ended.
func (a *Answer) end() {
	a.endTurn()
	a.reserve = 0
	if a.lease != nil {
		a.lease.Return()
	}
	a.taken, a.chunks = 0, nil
}
