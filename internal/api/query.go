package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
)

const (
	defaultPageSize = 50
	maxPageSize     = 500
)

// query is the query of a request. Its first mistake is kept, so that one look at
// the end is enough.
type query struct {
	values url.Values
	err    error
}

func badField(field, detail string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Detail: field + " " + fmt.Sprintf(detail, args...), Field: field}
}

// queryOf reads the query of a request that may have the members named. Others are
// an error: a filter that is not understood must not be left out in silence.
func queryOf(c echo.Context, names ...string) *query {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.err = &problem{Status: http.StatusBadRequest, Detail: "the query cannot be read: escape % as %25, & as %26 and + as %2B in values"}
		return q
	}
	told := make([]string, 0, len(values))
	for name := range values {
		told = append(told, name)
	}
	slices.Sort(told)
	for _, name := range told {
		shown := strings.ToValidUTF8(name, "\uFFFD")
		if len(shown) > 80 {
			shown = strings.ToValidUTF8(shown[:80], "")
		}
		switch {
		case shown == "":
			q.err = &problem{Status: http.StatusBadRequest, Detail: "the query holds a value without a name"}
		case !slices.Contains(names, name):
			q.err = badField(shown, "is not known here; the query may have %s", strings.Join(names, ", "))
		case len(values[name]) > 1:
			q.err = badField(name, "must be given once")
		case !storable(values[name][0]):
			q.err = badField(name, "must be valid UTF-8 without NUL")
		}
		if q.err != nil {
			return q
		}
	}
	return q
}

// text gives a value, empty where there is none.
func (q *query) text(name string) string {
	if q.err != nil {
		return ""
	}
	return q.values.Get(name)
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
	q.err = badField(name, "must be a time such as 2026-11-20T13:53:00Z (RFC 3339; escape + as %%2B) or a day such as 2026-11-20")
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
		q.err = badField("limit", "must be a number from 1 to %d", maxPageSize)
		return defaultPageSize
	}
	return n
}

// A cursor is opaque to clients: the place of the last item of a page, and of
// which list it is.

func formatCursor(list string, at store.Position) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d %s", list, at.Time.UnixMicro(), at.Number, at.ID))
}

// cursor reads the cursor of a list; nil: there is none.
func (q *query) cursor(list string) *store.Position {
	s := q.text("cursor")
	if s == "" {
		return nil
	}
	at, err := parseCursor(list, s)
	if err != nil {
		q.err = badField("cursor", "must be a nextCursor of this list, as it was given")
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

// pageJSON is a page of a list.
type pageJSON[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// besidePlan answers a page of what stands beside a plan.
func besidePlan[R, J any](c echo.Context, list string, read func(planID string, after store.Position, limit int) ([]store.Item[R], bool, error), toJSON func(*store.Item[R]) J) error {
	id, err := nativeID(c, "planId")
	if err != nil {
		return err
	}
	q := queryOf(c, "limit", "cursor")
	after, limit := q.cursor(list), q.limit()
	if q.err != nil {
		return q.err
	}
	items, more, err := read(id, orDefault(after, store.Position{}), limit)
	if err != nil {
		return err
	}
	out := pageJSON[J]{Items: make([]J, len(items))}
	for i := range items {
		out.Items[i] = toJSON(&items[i])
	}
	if more {
		out.NextCursor = new(formatCursor(list, items[len(items)-1].Position))
	}
	return sendTagged(c, out)
}
