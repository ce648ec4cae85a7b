package api

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

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
)

const (
	defaultPageSize = 50
	maxPageSize     = 500
)

// defaultMaxDepth is how many levels of sub-plans a tree shows if no other number is asked for. A
// level of sub-plans is four of JSON. So the tree can be read by jq 1.6, which takes 256 levels,
// by Python, which takes about 990, and by Go, which takes 10,000.
const defaultMaxDepth = 50

// query is the query of a request. It keeps its first mistake, so that one check at the end is
// enough.
type query struct {
	values url.Values
	err    error
}

// queryOf reads the query of a request, which may have the members named. Others are an error:
// a filter that is not understood must not be ignored.
func queryOf(c echo.Context, names ...string) *query {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.err = &httpd.Problem{Status: http.StatusBadRequest, Detail: "the query cannot be read: escape % as %25, & as %26 and + as %2B in values"}
		return q
	}
	return q.check(names)
}

// knownQueryOf reads the members of a query that are named, and ignores others, as the original of
// the executor API does.
func knownQueryOf(c echo.Context, names ...string) *query {
	values, _ := url.ParseQuery(c.Request().URL.RawQuery) // what cannot be read is no known member
	maps.DeleteFunc(values, func(name string, _ []string) bool { return !slices.Contains(names, name) })
	return (&query{values: values}).check(names)
}

// check finds the first mistake of a query that may have the members named.
func (q *query) check(names []string) *query {
	values := q.values
	sent := make([]string, 0, len(values))
	for name := range values {
		sent = append(sent, name)
	}
	slices.Sort(sent)
	for _, name := range sent {
		shown := strings.ToValidUTF8(name, "\uFFFD")
		if len(shown) > 80 {
			shown = strings.ToValidUTF8(shown[:80], "")
		}
		switch {
		case shown == "":
			q.err = &httpd.Problem{Status: http.StatusBadRequest, Detail: "the query holds a value without a name"}
		case !slices.Contains(names, name):
			q.err = httpd.BadField(shown, "is not known here; the query may have "+cmp.Or(strings.Join(names, ", "), "no members"))
		case len(values[name]) > 1:
			q.err = httpd.BadField(name, "must be given once")
		case !storable(values[name][0]):
			q.err = httpd.BadField(name, "must be valid UTF-8 without NUL")
		}
		if q.err != nil {
			return q
		}
	}
	return q
}

// text returns a value, empty if there is none.
func (q *query) text(name string) string {
	if q.err != nil {
		return ""
	}
	return q.values.Get(name)
}

// flag reads true or false, which it is if there is no value.
func (q *query) flag(name string) bool {
	switch q.text(name) {
	case "true":
		return true
	case "false", "":
		return false
	}
	q.err = httpd.BadField(name, "must be true or false")
	return false
}

// time reads a moment, or a day, which is its beginning in UTC.
func (q *query) time(name string) *time.Time {
	s := q.text(name)
	if s == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
			return new(t.UTC())
		}
	}
	q.err = httpd.BadField(name, "must be a time such as 2026-11-20T13:53:00Z (RFC 3339; escape + as %2B) or a day such as 2026-11-20")
	return nil
}

// limit reads how many items a page may have.
func (q *query) limit() int {
	s := q.text("limit")
	if s == "" {
		return defaultPageSize
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxPageSize {
		q.err = httpd.BadField("limit", fmt.Sprintf("must be a number from 1 to %d", maxPageSize))
		return defaultPageSize
	}
	return n
}

// maxDepth reads how many levels of sub-plans a tree may show.
func (q *query) maxDepth() int {
	s := q.text("maxDepth")
	if s == "" {
		return defaultMaxDepth
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > tree.MaxDepth {
		q.err = httpd.BadField("maxDepth", fmt.Sprintf("must be a number from 0 to %d", tree.MaxDepth))
	}
	return n
}

// A cursor is opaque to clients: the list, and the place of the last item of a page in it.

func formatCursor(list string, at store.Position) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d %s", list, at.Time.UnixMicro(), at.Number, at.ID))
}

// cursor reads the cursor of a list; nil if there is none.
func (q *query) cursor(list string) *store.Position {
	s := q.text("cursor")
	if s == "" {
		return nil
	}
	at, err := parseCursor(list, s)
	if err != nil {
		q.err = httpd.BadField("cursor", "must be a nextCursor of this list, as it was given")
	}
	return at
}

func parseCursor(list, s string) (*store.Position, error) {
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
	if !storable(parts[3]) || at.Year() < 1 || at.Year() > 10_000 {
		return nil, errors.New("not a cursor of ours")
	}
	return &store.Position{Time: at, Number: number, ID: parts[3]}, nil
}

// sendPage sends a page of a list. next is the place of its last item if others follow.
func sendPage[T any](c echo.Context, name string, items []T, next *store.Position, add func(*object, T)) error {
	return sendTagged(c, func(o *object) { addPage(o, name, items, next, add) })
}

// addPage adds a page of a list. more add members to those that every list has.
func addPage[T any](o *object, name string, items []T, next *store.Position, add func(*object, T), more ...func(*object)) {
	o.b = append(o.b, '{')
	list(o, "items", items, add)
	var cursor *string
	if next != nil {
		cursor = new(formatCursor(name, *next))
	}
	o.text("nextCursor", cursor)
	for _, add := range more {
		add(o)
	}
	o.b = append(o.b, '}')
}
