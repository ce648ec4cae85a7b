package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// Health returns the routes that tell whether a process lives, and whether it can work: the database
// answers and is migrated, and the process is not about to stop. How the database stands is for those who may read.
func Health(s interface {
	Ready(context.Context) (store.Standing, error)
}, server *httpd.Server) []httpd.Route {
	ready := func(c echo.Context) error {
		if server.Draining() {
			return httpd.Later(1, "the server is shutting down")
		}

		ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
		defer cancel()

		standing, err := s.Ready(ctx)
		if err != nil {
			server.Log().Warn("not ready", "error", err)
			return NotReady(err)
		}
		if !server.MaySee(c) {
			return c.String(http.StatusOK, "ok\n")
		}
		return c.String(http.StatusOK, "ok\n"+describe(standing))
	}
	return health(ready)
}

func health(ready echo.HandlerFunc) []httpd.Route {
	live := func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }
	return []httpd.Route{
		{Method: http.MethodGet, Path: "/livez", Need: httpd.ScopeNone, Handle: live, Quiet: true},
		{Method: http.MethodGet, Path: "/readyz", Need: httpd.ScopeNone, Handle: ready, Quiet: true},
	}
}

// describe says how the database stands, in lines.
func describe(s store.Standing) string {
	text := fmt.Sprintf("role: primary\ntimeline: %d\nstandbys: %d\n", s.Timeline, s.Standbys)
	if s.Lag != nil {
		text += fmt.Sprintf("lag: %.3f s\n", s.Lag.Seconds())
	}

	if r := s.Replica; r != nil && r.Used {
		text += fmt.Sprintf("replica: %.3f s behind\n", r.Lag.Seconds())
	} else if r != nil {
		text += "replica: not used\n"
	}
	if s.Crowded {
		text += "connections: " + httpd.Outage(record.ErrTooManyClients) + "\n"
	}
	return text
}

// NotReady is the problem of a process that cannot work because of its database.
func NotReady(err error) *httpd.Problem {
	if p, ok := errors.AsType[*httpd.Problem](err); ok {
		return p
	}

	detail := httpd.Outage(err)
	if errors.Is(err, store.ErrNotMigrated) {
		detail = store.ErrNotMigrated.Error()
	}
	return httpd.Later(1, detail)
}

// Waiting returns the routes of a process that waits for its database: it lives, and refuses everything else with the
// error of why.
func Waiting(why func() error) []httpd.Route {
	refuse := func(echo.Context) error { return why() }
	routes := health(refuse)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		routes = append(routes, httpd.Route{
			Method: method, Path: httpd.AnyPath, Need: httpd.ScopeNone, Handle: refuse, Quiet: true,
		})
	}
	return routes
}
