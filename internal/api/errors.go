package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
)

// problem is an error as clients see it (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field names what is at fault, where one thing is.
	Field string `json:"field,omitempty"`
	// RetryAfter is when to try again, in seconds.
	RetryAfter int `json:"-"`
}

func (p *problem) Error() string { return p.Detail }

// toProblem is the one table of errors and statuses. known is false for errors
// that clients are told nothing of.
func toProblem(err error) (p *problem, known bool) {
	var invalid *record.InvalidError
	var fromEcho *echo.HTTPError
	var locked *store.LockedError
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &invalid):
		return &problem{Status: http.StatusBadRequest, Detail: invalid.Error(), Field: invalid.Field}, true
	case errors.Is(err, record.ErrNotFound):
		return &problem{Status: http.StatusNotFound, Detail: "nothing of that id is on record"}, true
	case errors.Is(err, store.ErrSlow):
		return &problem{Status: http.StatusServiceUnavailable, Detail: err.Error() + "; narrow it down, with since and until or other filters", RetryAfter: 10}, true
	case errors.Is(err, wire.ErrTooLarge), errors.Is(err, otlp.ErrTooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Detail: err.Error()}, true
	case errors.Is(err, wire.ErrUnsupported):
		return &problem{Status: http.StatusUnsupportedMediaType, Detail: err.Error()}, true
	case errors.Is(err, store.ErrDiskFull):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the database's disk is full: writes wait until there is room, reads go on; nothing is known to be on record of this request", RetryAfter: 10}, true
	case errors.As(err, &locked):
		return &problem{Status: http.StatusServiceUnavailable, Detail: locked.Error() + "; nothing is known to be on record of this request", RetryAfter: 1}, true
	case errors.Is(err, record.ErrUnavailable):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the database cannot be reached right now; nothing is known to be on record of this request", RetryAfter: 1}, false
	case errors.Is(err, record.ErrClosed):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the server is shutting down", RetryAfter: 1}, true
	case errors.Is(err, errGone), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the request was not answered in time; ask for less, or again later", RetryAfter: 1}, true
	case errors.As(err, &fromEcho):
		p := &problem{Status: fromEcho.Code, Detail: http.StatusText(fromEcho.Code)}
		switch p.Status {
		case http.StatusNotFound:
			p.Detail = "there is no such path here; /openapi.yaml lists those that there are"
		case http.StatusMethodNotAllowed:
			p.Detail = "this path does not take that method; the Allow header lists those that it takes"
		}
		return p, true
	}
	return &problem{Status: http.StatusInternalServerError, Detail: "an internal error; the server's log has more"}, false
}

// handleError answers an error, and logs its cause where clients do not see it.
func (s *Server) handleError(err error, c echo.Context) {
	p, known := toProblem(err)
	if !known {
		s.log.Error("request failed", "id", requestID(c), "method", methodOf(c.Request()), "route", c.Path(), "status", p.Status, "error", err)
	}
	if c.Response().Committed {
		return
	}
	drain(c)
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusNotFound && isExecutor(c) {
		_ = c.NoContent(p.Status) // as the contract of source 001 has it
		return
	}
	if at, _ := s.routeOf(c); at.signal != "" { // exporters read no problems
		contentType := cmp.Or(bodyType(c.Request()), otlp.TypeJSON)
		err = c.Blob(p.Status, contentType, otlp.Refused(contentType, p.Detail))
	} else {
		err = sendProblem(c, *p)
	}
	if err != nil {
		s.log.Debug("an answer was not sent", "error", err)
	}
}

func sendProblem(c echo.Context, p problem) error {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", body)
}
