// Package api serves the record over HTTP: the executor API, the native API and
// the health checks. openapi.yaml is its contract.
package api

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
)

//go:embed openapi.yaml
var openAPI []byte

// Config says how the API is served.
type Config struct {
	// Logger gets the causes of errors that clients are told little of. Required.
	Logger *slog.Logger
	// LoopbackOnly refuses requests whose Host is no loopback name, so that a web
	// page cannot reach the record by a name of its own that leads here.
	LoopbackOnly bool
}

// Server answers requests from a store.
type Server struct {
	store *store.Store
	log   *slog.Logger
	echo  *echo.Echo
}

// New makes a server. It serves until its store is closed.
func New(s *store.Store, config Config) *Server {
	srv := &Server{store: s, log: config.Logger, echo: echo.New()}
	e := srv.echo
	e.HTTPErrorHandler = srv.handleError
	e.Use(srv.recoverPanic)
	if config.LoopbackOnly {
		e.Use(loopbackHost)
	}
	e.GET("/api/executor/details/:planId", srv.executorDetails)
	e.GET("/api/executor/details/", srv.executorDetails)
	e.DELETE("/api/executor/details/:planId", srv.executorDelete)
	e.GET("/api/executor/agent-execution/:stepId", srv.executorStep)
	e.GET("/api/executor/agent-execution/", srv.executorStep)
	e.POST("/api/v1/records", srv.writeRecords)
	e.GET("/api/v1/limits", srv.limits)
	e.GET("/api/v1/plans", srv.listPlans)
	e.GET("/api/v1/plans/:planId", srv.plan)
	e.GET("/api/v1/steps/:stepId", srv.step)
	e.GET("/openapi.yaml", func(c echo.Context) error { return c.Blob(http.StatusOK, "application/yaml", openAPI) })
	e.GET("/livez", srv.livez)
	e.GET("/readyz", srv.readyz)
	return srv
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// recoverPanic turns a mistake of ours into an answer, so that it costs one
// request and not the server.
func (s *Server) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				s.log.Error("a handler panicked", "path", c.Path(), "panic", v)
				err = errors.New("internal error")
			}
		}()
		return next(c)
	}
}

func loopbackHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !isLoopback(c.Request().Host) {
			return &problem{Status: http.StatusForbidden, Detail: "this server answers to loopback names only, such as localhost"}
		}
		return next(c)
	}
}

// isLoopback tells whether a host, with or without a port, names this machine.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (s *Server) livez(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// readyz answers 200 when the database answers and is migrated.
func (s *Server) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
	defer cancel()
	if err := s.store.Ready(ctx); err != nil {
		s.log.Warn("not ready", "error", err)
		detail := "the database does not answer"
		if errors.Is(err, store.ErrNotMigrated) {
			detail = store.ErrNotMigrated.Error()
		}
		return &problem{Status: http.StatusServiceUnavailable, Detail: detail, RetryAfter: 1}
	}
	return c.String(http.StatusOK, "ok\n")
}
