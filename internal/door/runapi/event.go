package runapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// sentJSON says what came of an event.
type sentJSON struct {
	Key   string `json:"key"`
	Woken int    `json:"woken"`
}

// event sends an event to the runs that wait for it.
func (s *Server) event(c echo.Context) error {
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}
	idempotency, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	raw, m, err := s.readBody(c)
	if err != nil {
		return err
	}

	o := objectOf(m, "", "key", "data", "project", "by")
	r := engine.EventRequest{
		Key: o.id("key"), Data: m["data"], Project: o.id("project"),
		By:             runstore.Who{Name: httpd.KeyOf(c), Claim: o.id("by")},
		IdempotencyKey: idempotency, Body: raw,
	}
	if o.err != nil {
		return refused(o.err)
	}

	woken, err := s.starter.SendEvent(c.Request().Context(), r)
	if err != nil {
		return refused(err)
	}
	return c.JSON(http.StatusAccepted, sentJSON{Key: r.Key, Woken: woken})
}
