package api

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// call is what is noted of a request while it is served.
type call struct {
	id   string
	key  string // its name; empty where none was needed
	body *countedBody
}

const callKey = "call"

// callOf gives the notes of a request.
func callOf(c echo.Context) *call {
	noted, _ := c.Get(callKey).(*call)
	return noted
}

func requestID(c echo.Context) string { return callOf(c).id }

// observe gives each request its id, counts it and logs it: where it went and how
// it ended, never what was in it.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		r := c.Request()
		noted := &call{id: usableID(r.Header.Get(echo.HeaderXRequestID)), body: &countedBody{ReadCloser: r.Body}}
		r.Body = noted.body
		c.Set(callKey, noted)
		c.Response().Header().Set(echo.HeaderXRequestID, noted.id)
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		err := next(c)
		begun := c.Response().Committed
		if err != nil {
			c.Error(err)
		}
		took, status := time.Since(began), c.Response().Status
		at, path := s.routeOf(c)
		s.metrics.served(methodOf(r), path, status, took, noted.body.read.Load(), at.stream && status == http.StatusOK)
		if at.signal != "" {
			s.metrics.answered(doorOf(c), at.signal, status)
		}
		level := slog.LevelInfo
		if at.quiet {
			level = slog.LevelDebug
		}
		s.log.LogAttrs(r.Context(), level, "request", slog.String("id", noted.id), slog.String("method", methodOf(r)), slog.String("route", path), slog.Int("status", status),
			slog.Duration("duration", took), slog.Int64("bytes", c.Response().Size), slog.String("key", noted.key))
		if err != nil && begun {
			panic(http.ErrAbortHandler) // breaks the connection, or half an answer would look whole
		}
		return nil
	}
}

// methodOf bounds what clients can make up.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// usableID keeps an id that a client gave its request, where it can stand in a log
// and a header, and makes one otherwise.
func usableID(told string) string {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/+=@", r)
	}
	if told == "" || len(told) > 128 || strings.ContainsFunc(told, strange) {
		return rand.Text()
	}
	return told
}

// limitReads bounds how long a read may take.
func (s *Server) limitReads(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		at, _ := s.routeOf(c)
		if method := c.Request().Method; at.long || method != http.MethodGet && method != http.MethodHead {
			return next(c)
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), s.config.ReadTimeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// countedBody counts what is read of a body, and notes its end.
type countedBody struct {
	io.ReadCloser
	read  atomic.Int64
	ended atomic.Bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// drainFor is how long a refused body is read on: a client that sends all of it
// before it reads would else see a broken connection and not the answer.
const drainFor = 2 * time.Second

// drain reads what was left of the body of a request that is refused.
func drain(c echo.Context) {
	r, noted := c.Request(), callOf(c)
	if r.ContentLength == 0 || noted.body.ended.Load() {
		return
	}
	// Where the connection cannot set a deadline, the server closes it instead.
	if err := http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(drainFor)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	c.Response().Header().Set("Connection", "close")
}

// budget is a number of bytes that requests share.
type budget struct {
	size int64
	used atomic.Int64
}

// lease is what one request has of a budget.
type lease struct {
	of   *budget
	took int64
}

var errBusy = &problem{Status: http.StatusServiceUnavailable, Detail: "the server holds as many request bodies as it can at the moment; nothing of this one was written, send the same again soon", RetryAfter: 1}

// take takes more of the budget, or nothing where that is not there.
func (l *lease) take(n int64) error {
	if l.of.used.Add(n) > l.of.size {
		l.of.used.Add(-n)
		return errBusy
	}
	l.took += n
	return nil
}

func (l *lease) giveBack() { l.of.used.Add(-l.took) }
