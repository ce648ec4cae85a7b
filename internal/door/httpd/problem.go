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
	// RetryAfter is when to try again, in seconds; 0: not said.
	RetryAfter int `json:"-"`
}

func (p *Problem) Error() string { return p.Detail }

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
	problem := func(status int, detail string, retryAfter int) (*Problem, bool) {
		return &Problem{Status: status, Detail: detail, RetryAfter: retryAfter}, true
	}

	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &invalid):
		return &Problem{Status: http.StatusBadRequest, Detail: invalid.Error(), Field: invalid.Field}, true
	case errors.Is(err, record.ErrNotFound):
		return problem(http.StatusNotFound, "nothing of that id is on record", 0)
	case errors.Is(err, wire.ErrTooLarge):
		return problem(http.StatusRequestEntityTooLarge, err.Error(), 0)
	case errors.Is(err, wire.ErrUnsupported):
		return problem(http.StatusUnsupportedMediaType, err.Error(), 0)
	case errors.Is(err, record.ErrDiskFull):
		return problem(http.StatusServiceUnavailable,
			"the database's disk is full: writes wait until there is room, reads go on"+maybeWritten, 10)
	case errors.As(err, &locked):
		return problem(http.StatusServiceUnavailable, locked.Error()+maybeWritten, 1)
	case errors.Is(err, record.ErrTooSlow):
		return problem(http.StatusServiceUnavailable,
			"this took too long: the server or its database has much to do"+maybeWritten, 5)
	case errors.Is(err, record.ErrUnavailable):
		p, _ := problem(http.StatusServiceUnavailable, Outage(err)+maybeWritten, 1)
		return p, false
	case errors.Is(err, record.ErrClosed):
		return problem(http.StatusServiceUnavailable, "the server is shutting down", 1)
	case errors.Is(err, ErrGone), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusServiceUnavailable, "the request was not answered in time; ask for less, or again later", 1)
	case errors.As(err, &fromEcho):
		detail := http.StatusText(fromEcho.Code)
		switch fromEcho.Code {
		case http.StatusNotFound:
			detail = "there is no such path here; /openapi.yaml lists the paths"
		case http.StatusMethodNotAllowed:
			detail = "this path does not take that method; the Allow header lists those that it takes"
		}
		return problem(fromEcho.Code, detail, 0)
	}

	return &Problem{Status: http.StatusInternalServerError, Detail: "an internal error; the server's log has more"}, false
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
	return &Problem{Status: http.StatusBadRequest, Detail: err.Error()}
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
