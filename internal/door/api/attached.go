package api

import (
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// listAttached lists the rows of a kind that are attached to a plan, in pages. name is the name of
// the list in cursors.
func (s *Server) listAttached(kind record.Kind, name string) echo.HandlerFunc {
	return func(c echo.Context) error {
		q := httpd.QueryOf(c, "root", "limit", "cursor")
		root, after := q.Text("root"), q.Cursor(name)
		id, limit := q.ID("planId"), q.Limit()
		if q.Err != nil {
			return q.Err
		}

		from := store.Position(optional.Value(after))
		rows, next, err := s.lookup.Reader(c).Attached(c.Request().Context(), kind, root, id, from, limit)
		if err != nil {
			return err
		}
		return sendPage(c, name, rows, next, addAttached)
	}
}

func addAttached(o *object, r store.Row) {
	o.b = append(o.b, '{')
	addRow(o, r)
}

// addRow appends what every row has, and the end of its object.
func addRow(o *object, r store.Row) {
	o.int("id", r.ID)
	o.fields(views[r.Record.Kind()], r.Record)
	if field.HasAttempts(r.Record.Kind()) {
		o.attempts(r.PastAttempts, r.Record)
	}
	if r.RollUps != nil {
		addRollUps(o, r.RollUps)
	}
	o.truncated(r.Truncated)
	o.b = append(o.b, '}')
}

func addRowWithKind(o *object, r store.Row) {
	o.b = append(o.b, '{')
	o.raw("kind", `"`+string(r.Record.Kind())+`"`)
	addRow(o, r)
}

// RowJSON returns a row as events have it.
func RowJSON(r store.Row) []byte {
	o := new(object)
	addRowWithKind(o, r)
	return o.b
}
