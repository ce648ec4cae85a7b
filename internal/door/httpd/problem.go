package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// Problem is an error as clients see it (RFC 9457).
type Problem struct { //nolint:errname // the word of RFC 9457
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field names what is at fault, if one thing is.
	Field string `json:"field,omitempty"`
	// PlanID is the run that the request started, if that goes on without it, or failed.
	PlanID string `json:"planId,omitempty"`
	// ErrorKind is the class of the error with which that run failed; empty: it did not.
	ErrorKind string `json:"errorKind,omitempty"`
	// RetryAfter is when to try again, in seconds; 0: not said.
	RetryAfter int `json:"-"`
}

func (p *Problem) Error() string { return p.Detail }

// Refused returns a problem with a status and a detail, and nothing else.
func Refused(status int, detail string) *Problem { return &Problem{Status: status, Detail: detail} }

// Later returns the problem of a server that cannot serve a request now: ask again in so many seconds.
func Later(seconds int, detail string) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Detail: detail, RetryAfter: seconds}
}

// BadField says that a member of a request is wrong.
func BadField(field, detail string) error {
	return &Problem{Status: http.StatusBadRequest, Detail: field + " " + detail, Field: field}
}

// ErrGone means that a client does not read its answer any more.
var ErrGone = errors.New("the client reads no further")

const maybeWritten = "; if this was a write, it may not be on record: repeat it, writing twice does no harm"

// ProblemOf is the one table of errors and statuses. known is false for errors whose cause
// clients do not see.
func ProblemOf(err error) (p *Problem, known bool) {
	var invalid *record.InvalidError
	var fromEcho *echo.HTTPError
	var locked *record.LockedError
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &invalid):
		return &Problem{Status: http.StatusBadRequest, Detail: invalid.Error(), Field: invalid.Field}, true
	case errors.Is(err, record.ErrNotFound):
		return Refused(http.StatusNotFound, "nothing of that id is on record"), true
	case errors.Is(err, wire.ErrTooLarge):
		return Refused(http.StatusRequestEntityTooLarge, err.Error()), true
	case errors.Is(err, wire.ErrUnsupported):
		return Refused(http.StatusUnsupportedMediaType, err.Error()), true
	case errors.Is(err, record.ErrDiskFull):
		return Later(10, "the database's disk is full: writes wait until there is room, reads go on"+maybeWritten), true
	case errors.As(err, &locked):
		return Later(1, locked.Error()+maybeWritten), true
	case errors.Is(err, record.ErrTooSlow):
		return Later(5, "this took too long: the server or its database has much to do"+maybeWritten), true
	case errors.Is(err, record.ErrUnavailable):
		return Later(1, Outage(err)+maybeWritten), false
	case errors.Is(err, record.ErrClosed):
		return Later(1, "the server is shutting down"), true
	case errors.Is(err, ErrGone), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Later(1, "the request was not answered in time; ask for less, or again later"), true
	case errors.As(err, &fromEcho):
		detail := http.StatusText(fromEcho.Code)
		switch fromEcho.Code {
		case http.StatusNotFound:
			detail = "there is no such path here; /openapi.yaml lists the paths"
		case http.StatusMethodNotAllowed:
			detail = "this path does not take that method; the Allow header lists those that it takes"
		}
		return Refused(fromEcho.Code, detail), true
	}

	return Refused(http.StatusInternalServerError, "an internal error; the server's log has more"), false
}

// Outage says why the database cannot be used, to people who may know nothing else of it.
func Outage(err error) string {
	switch {
	case errors.Is(err, record.ErrTooManyClients):
		return "the database has too many clients: it gives out no more connections"
	case errors.Is(err, record.ErrStarting):
		return "the database is starting up, recovering or shutting down"
	case errors.Is(err, record.ErrDiskFull):
		return "the database's disk is full"
	case errors.As(err, new(*record.LockedError)):
		return "another session of the database holds a lock that is needed"
	}
	return "the database cannot be reached right now"
}

// Unreadable returns the problem of a body that cannot be read: the client's fault, unless the
// error says otherwise.
func Unreadable(err error) *Problem {
	if p, known := ProblemOf(err); known {
		return p
	}
	return Refused(http.StatusBadRequest, err.Error())
}

func sendProblem(c echo.Context, p *Problem) error {
	out := *p
	out.Type, out.Title = "about:blank", http.StatusText(p.Status)
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", body)
}

// NotFoundWithoutBody answers 404 with an empty body, and all else as a problem: the contract
// of source 001.
func NotFoundWithoutBody(c echo.Context, p *Problem) error {
	if p.Status == http.StatusNotFound {
		return c.NoContent(p.Status)
	}
	return sendProblem(c, p)
}
