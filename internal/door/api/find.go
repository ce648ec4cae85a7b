package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

type hitJSON struct {
	placeJSON
	TextOf record.Kind `json:"textOf"`
	TextID *string     `json:"textId"`
	Field  string      `json:"field"`
	Before string      `json:"before"`
	Match  string      `json:"match"`
	After  string      `json:"after"`
}

// search lists the texts of a plan and below it that have what the query asks for.
func (s *Server) search(c echo.Context) error {
	q := httpd.QueryOf(c, "root", "q", "limit", "cursor")
	id, root := q.ID("planId"), q.Text("root")
	text, from := q.Text("q"), q.Cursor("search")
	limit := q.Limit()
	if q.Err != nil {
		return q.Err
	}

	o, err := s.lookup.Run(c, root, id)
	if err != nil {
		return err
	}
	found, err := s.lookup.SearchTree(c, o, text, from, limit)
	if err != nil {
		return err
	}

	out := struct {
		PlanID     string    `json:"planId"`
		RootPlanID string    `json:"rootPlanId"`
		Items      []hitJSON `json:"items"`
		NextCursor *string   `json:"nextCursor"`
		Incomplete bool      `json:"incomplete"`
		Searched   int       `json:"searched"`
		Rows       int       `json:"rows"`
	}{
		o.Plan.Record.CurrentPlanID, o.Plan.Record.RootPlanID, make([]hitJSON, 0, len(found.Hits)), nil, found.Incomplete,
		found.Searched, len(o.Rows),
	}

	for _, h := range found.Hits {
		out.Items = append(out.Items, hitJSON{
			placeOf(&o.Rows[h.Row]), h.Kind, optional.Pointer(h.ID), h.Field, h.Before, h.Match, h.After,
		})
	}

	if found.Next != nil {
		out.NextCursor = new(found.Next.Format("search"))
	}
	return sendJSON(c, http.StatusOK, out)
}
