package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/store"
)

// Health returns the routes that tell whether a process lives, and whether it can work: the database
// answers and is migrated, and the process is not about to stop. How the database stands is for those who may read.
func Health(s interface {
	Ready(context.Context) (store.Standing, error)
}, server *httpd.Server) []httpd.Route {
	live := func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }
	ready := func(c echo.Context) error {
		if server.Draining() {
			return &httpd.Problem{Status: http.StatusServiceUnavailable, Detail: "the server is shutting down", RetryAfter: 1}
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
		defer cancel()
		standing, err := s.Ready(ctx)
		if err != nil {
			server.Log().Warn("not ready", "error", err)
			detail := "the database does not answer"
			if errors.Is(err, store.ErrNotMigrated) {
				detail = store.ErrNotMigrated.Error()
			}
			return &httpd.Problem{Status: http.StatusServiceUnavailable, Detail: detail, RetryAfter: 1}
		}
		if !server.MaySee(c) {
			return c.String(http.StatusOK, "ok\n")
		}
		body := fmt.Sprintf("ok\nrole: primary\ntimeline: %d\nstandbys: %d\n", standing.Timeline, standing.Standbys)
		if standing.Lag != nil {
			body += fmt.Sprintf("lag: %.3f s\n", standing.Lag.Seconds())
		}
		if r := standing.Replica; r != nil && r.Used {
			body += fmt.Sprintf("replica: %.3f s behind\n", r.Lag.Seconds())
		} else if r != nil {
			body += "replica: not used\n"
		}
		return c.String(http.StatusOK, body)
	}
	return []httpd.Route{
		{Method: http.MethodGet, Path: "/livez", Need: httpd.ScopeNone, Handle: live, Quiet: true},
		{Method: http.MethodGet, Path: "/readyz", Need: httpd.ScopeNone, Handle: ready, Quiet: true},
	}
}
