package httpd

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/view/when"
	"github.com/actlog/actlog/record"
)

const (
	defaultPageSize = 50
	maxPageSize     = 500
)

// Query is the query of a request. It keeps its first mistake in Err, so that one check at the end is
// enough.
type Query struct {
	request echo.Context // nil: the values did not come in the query of a request
	values  url.Values
	Err     error
}

// QueryOf reads the query of a request, which may have the members named. Others are an error:
// a filter that is not understood must not be ignored.
func QueryOf(c echo.Context, names ...string) *Query {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	q := &Query{request: c, values: values}
	if err != nil {
		q.Err = Refused(http.StatusBadRequest,
			"the query cannot be read: escape % as %25, & as %26 and + as %2B in values")
		return q
	}
	return q.check(names)
}

// QueryFrom is [QueryOf] for values that did not come in the query of a request.
func QueryFrom(values url.Values, names ...string) *Query {
	return (&Query{values: values}).check(names)
}

// KnownQueryOf reads the members of a query that are named, and ignores others, as the original of
// the executor API does.
func KnownQueryOf(c echo.Context, names ...string) *Query {
	values, _ := url.ParseQuery(c.Request().URL.RawQuery) // what cannot be read is no known member
	maps.DeleteFunc(values, func(name string, _ []string) bool { return !slices.Contains(names, name) })
	return (&Query{request: c, values: values}).check(names)
}

// check finds the first mistake of a query that may have the members named.
func (q *Query) check(names []string) *Query {
	values := q.values
	for _, name := range slices.Sorted(maps.Keys(values)) {
		shown := strings.ToValidUTF8(name, "\uFFFD")
		if len(shown) > 80 {
			shown = strings.ToValidUTF8(shown[:80], "")
		}

		switch {
		case shown == "":
			q.Err = Refused(http.StatusBadRequest, "the query holds a value without a name")
		case !slices.Contains(names, name):
			q.Err = BadField(shown, "is not known here; the query may have "+cmp.Or(strings.Join(names, ", "), "no members"))
		case len(values[name]) > 1:
			q.Err = BadField(name, "must be given once")
		case !Storable(values[name][0]):
			q.Err = BadField(name, "must be valid UTF-8 without NUL")
		}

		if q.Err != nil {
			return q
		}
	}
	return q
}

// ID is [NativeID] for the path of the request. Unlike others, its mistake replaces an earlier one: a wrong path goes
// before a wrong query. Of two ids, read the first one of the path last.
func (q *Query) ID(name string) string {
	id, err := NativeID(q.request, name)
	if err != nil {
		q.Err = err
	}
	return id
}

// Text returns a value, empty if there is none.
func (q *Query) Text(name string) string {
	if q.Err != nil {
		return ""
	}
	return q.values.Get(name)
}

// Choice is [Query.Flag], but nil if there is no value.
func (q *Query) Choice(name string) *bool {
	if q.Text(name) == "" {
		return nil
	}
	return new(q.Flag(name))
}

// Flag reads true or false, which it is if there is no value.
func (q *Query) Flag(name string) bool {
	switch q.Text(name) {
	case "true":
		return true
	case "false", "":
		return false
	}
	q.Err = BadField(name, "must be true or false")
	return false
}

// Time reads a moment: a time, a day, which is its beginning in UTC, or how long ago it was.
func (q *Query) Time(name string) *time.Time {
	s := q.Text(name)
	if s == "" {
		return nil
	}

	if at, ok := when.Time(s, time.Now(), time.UTC); ok {
		return new(at.UTC())
	}
	q.Err = BadField(name, "must be "+when.Forms+"; escape + as %2B")
	return nil
}

// Duration reads a duration with units (90s, 1.5h, 2d); a number alone is milliseconds. It returns nil if the parameter
// is missing, or wrong: then q.Err is set.
func (q *Query) Duration(name string) *time.Duration {
	s := q.Text(name)
	if s == "" {
		return nil
	}

	if isNumber := strings.Trim(s, "0123456789.") == ""; isNumber {
		s += "ms"
	}
	if d, ok := when.Span(s); ok {
		return &d
	}
	q.Err = BadField(name, "must be a number of milliseconds, or a time with its unit, such as 90s, 5m, 1.5h or 2d")
	return nil
}

// Amount reads a number that is not negative.
func (q *Query) Amount(name string) *float64 {
	s := q.Text(name)
	if s == "" {
		return nil
	}

	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= 0 && n <= 1e15) {
		q.Err = BadField(name, "must be a number that is not negative")
		return nil
	}
	return &n
}

// Number reads a whole number from least to most. It returns otherwise if there is no value.
func (q *Query) Number(name string, otherwise, least, most int) int {
	s := q.Text(name)
	if s == "" {
		return otherwise
	}

	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		q.Err = BadField(name, fmt.Sprintf("must be a number from %d to %d", least, most))
	}
	return n
}

// Limit reads how many items a page may have.
func (q *Query) Limit() int { return q.Number("limit", defaultPageSize, 1, maxPageSize) }

// Cursor is a place in a list. To clients it is opaque: the list, and the place of the last item of
// a page in it.
type Cursor struct {
	Time   time.Time
	Number int64
	ID     string
}

// Format returns the cursor of a list as clients are given it.
func (at Cursor) Format(list string) string {
	return base64.RawURLEncoding.EncodeToString(
		fmt.Appendf(nil, "%s %d %d %s", list, at.Time.UnixMicro(), at.Number, at.ID),
	)
}

// Cursor reads the cursor of a list; nil if there is none.
func (q *Query) Cursor(list string) *Cursor { return q.CursorAt("cursor", list) }

// CursorAt is [Query.Cursor] for a member with another name.
func (q *Query) CursorAt(name, list string) *Cursor {
	s := q.Text(name)
	if s == "" {
		return nil
	}

	at, err := parseCursor(list, s)
	if err != nil {
		q.Err = BadField(name, "must be a nextCursor of this list, as it was given")
	}
	return at
}

func parseCursor(list, s string) (*Cursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(string(raw), " ", 4)
	if len(parts) != 4 || parts[0] != list {
		return nil, errors.New("not a cursor of this list")
	}

	micros, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return nil, err
	}

	at := time.UnixMicro(micros).UTC()
	if !Storable(parts[3]) || at.Year() < 1 || at.Year() > 10_000 {
		return nil, errors.New("not a cursor of ours")
	}
	return &Cursor{Time: at, Number: number, ID: parts[3]}, nil
}

// PathID returns an id of the path as the client meant it. The router does not unescape a path
// with an escape that it needs, such as %2F. An id that Postgres cannot store is not on record.
func PathID(c echo.Context, name string) (string, error) {
	id := c.Param(name)
	if c.Request().URL.RawPath != "" {
		plain, err := url.PathUnescape(id)
		if err != nil {
			return "", record.ErrNotFound
		}
		id = plain
	}

	if !Storable(id) {
		return "", record.ErrNotFound
	}
	return id, nil
}

// NativeID is PathID for the native API, where a blank id is a mistake.
func NativeID(c echo.Context, name string) (string, error) {
	id, err := PathID(c, name)
	if err == nil && strings.TrimSpace(id) == "" {
		return "", BadField(name, "must not be blank")
	}
	return id, err
}

// Storable reports whether Postgres accepts a text: without NUL, and valid UTF-8.
func Storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
