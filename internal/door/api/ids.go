package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
)

// maxIDs is how many ids are returned that a shortened one may stand for.
const maxIDs = 10

// planIDs returns the ids of plans that a shortened one may stand for.
func (s *Server) planIDs(c echo.Context) error {
	q := httpd.QueryOf(c, "prefix")
	prefix := q.Text("prefix")
	if q.Err == nil && prefix == "" {
		q.Err = httpd.BadField("prefix", "must not be empty")
	}
	if q.Err != nil {
		return q.Err
	}

	end := s.lookup.ListEnd()
	out := struct {
		PlanIDs []string `json:"planIds"`
		More    bool     `json:"more"`
	}{PlanIDs: []string{}}
	err := s.lookup.Relaxed(c, func(ctx context.Context, r *store.Reader) error {
		ids, err := r.PlanIDs(ctx, prefix, maxIDs+1, end)
		if out.More = len(ids) > maxIDs; out.More {
			ids = ids[:maxIDs]
		}
		out.PlanIDs = append(out.PlanIDs, ids...)
		return err
	})

	switch {
	case errors.Is(err, store.ErrSlow):
		return httpd.Later(10, "it takes too long to find the ids: give more of one")
	case err != nil:
		return err
	}
	return sendJSON(c, http.StatusOK, out)
}
