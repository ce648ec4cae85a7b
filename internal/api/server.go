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
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/live"
	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/store"
)

//go:embed openapi.yaml
var openAPI []byte

// Config says how the API is served. Zero values mean the defaults named here.
type Config struct {
	// Logger gets a line a request, and the causes of errors that clients are told
	// little of. Required.
	Logger *slog.Logger
	// LoopbackOnly refuses requests whose Host is no loopback name, so that a web
	// page cannot reach the record by a name of its own that leads here.
	LoopbackOnly bool
	// Keys are those that clients need; nil: none is needed. See [Server.SetKeys].
	Keys *Keys
	// Version is told by the metrics.
	Version string
	// ReadTimeout is how long a read may take. Default 30 s.
	ReadTimeout time.Duration
	// ListTimeout is how long Postgres may look for the plans of a list. Default 10 s.
	ListTimeout time.Duration
	// ExportTimeout is how long an export of OTLP may take: most exporters wait for ten
	// seconds, and what is answered in time they send again. Default 8 s.
	ExportTimeout time.Duration
	// Origins are those of web pages whose exporters may send, "*" for any. None:
	// browsers let no page do so.
	Origins []string
	// BodyBytes bounds what is held of request bodies, decompressed, over all
	// requests. Default 512 MiB.
	BodyBytes int64
	// MaxStreams bounds the streams of events that there are at once. Default 2,000.
	MaxStreams int
	// Heartbeat is how long a stream may be silent. Default 15 s.
	Heartbeat time.Duration
	// EventPatience is how long a client may take to read 64 KiB of events. Default 10 s.
	EventPatience time.Duration
}

func (c Config) withDefaults() Config {
	if c.ReadTimeout == 0 {
		c.ReadTimeout = 30 * time.Second
	}
	if c.ListTimeout == 0 {
		c.ListTimeout = 10 * time.Second
	}
	if c.ExportTimeout == 0 {
		c.ExportTimeout = 8 * time.Second
	}
	if c.BodyBytes == 0 {
		c.BodyBytes = 512 << 20
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = 2_000
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.EventPatience == 0 {
		c.EventPatience = 10 * time.Second
	}
	return c
}

// Server answers requests from a store.
type Server struct {
	config    Config
	store     *store.Store
	log       *slog.Logger
	echo      *echo.Echo
	handler   http.Handler // echo, and compression around it
	routes    map[string]route
	metrics   *metrics
	keys      atomic.Pointer[Keys]
	bodies    budget
	exports   chan struct{} // as many as there may be at once
	decoding  chan struct{} // bodies of OTLP, as many as there are processors
	receiving chan struct{} // messages of gRPC
	live      *live.Hub
	draining  atomic.Bool
}

// route is what is known of a request before it is looked at.
type route struct {
	need   Scope
	quiet  bool        // asked by machines all day long: not worth a line of the log
	long   bool        // takes as long as its client does
	stream bool        // long, and how long it takes says nothing of the server
	signal otlp.Signal // that exporters send there; empty: they do not
}

// New makes a server. It serves until its store is closed.
func New(s *store.Store, config Config) *Server {
	config = config.withDefaults()
	srv := &Server{
		config: config, store: s, log: config.Logger, routes: map[string]route{}, bodies: budget{size: config.BodyBytes},
		exports: make(chan struct{}, maxExports), decoding: make(chan struct{}, runtime.GOMAXPROCS(0)), receiving: make(chan struct{}, maxReceiving),
		live: live.New(s, live.Config{Logger: config.Logger, MaxStreams: config.MaxStreams, Rows: encodeRows, Plans: encodePlans}),
	}
	srv.metrics = newMetrics(srv)
	srv.keys.Store(config.Keys)
	srv.echo = srv.newEcho(doorServer, config.LoopbackOnly)
	srv.handle(http.MethodGet, "/api/executor/details/:planId", ScopeRead, srv.executorDetails)
	srv.handle(http.MethodGet, "/api/executor/details/", ScopeRead, srv.executorDetails)
	srv.handle(http.MethodDelete, "/api/executor/details/:planId", ScopeRead, srv.executorDelete)
	srv.handle(http.MethodDelete, "/api/executor/details/", ScopeRead, srv.executorDelete)
	srv.handle(http.MethodGet, "/api/executor/agent-execution/:stepId", ScopeRead, srv.executorStep)
	srv.handle(http.MethodGet, "/api/executor/agent-execution/", ScopeRead, srv.executorStep)
	srv.handle(http.MethodPost, "/api/v1/records", ScopeWrite, srv.writeRecords)
	srv.handle(http.MethodGet, "/api/v1/limits", scopeAny, srv.limits)
	srv.handle(http.MethodGet, "/api/v1/plans", ScopeRead, srv.listPlans)
	srv.handle(http.MethodGet, "/api/v1/plans/:planId", ScopeRead, srv.plan)
	srv.handle(http.MethodDelete, "/api/v1/plans/:planId", ScopeAdmin, srv.deletePlan)
	srv.handle(http.MethodGet, "/api/v1/plans/:planId/thoughts", ScopeRead, srv.listThoughts)
	srv.handle(http.MethodGet, "/api/v1/plans/:planId/artifacts", ScopeRead, srv.listArtifacts)
	srv.handle(http.MethodGet, "/api/v1/plans/:planId/sources", ScopeRead, srv.listSources)
	srv.handle(http.MethodGet, "/api/v1/plans/:planId/waits", ScopeRead, srv.listWaits)
	srv.handle(http.MethodGet, exportPath, ScopeRead, srv.exportRecords)
	srv.handle(http.MethodGet, planEventsPath, ScopeRead, srv.planEvents)
	srv.handle(http.MethodGet, eventsPath, ScopeRead, srv.allEvents)
	srv.handle(http.MethodGet, "/api/v1/steps/:stepId", ScopeRead, srv.step)
	srv.handle(http.MethodGet, "/metrics", ScopeRead, echo.WrapHandler(srv.metrics.handler))
	srv.handle(http.MethodGet, "/openapi.yaml", scopeNone, func(c echo.Context) error { return c.Blob(http.StatusOK, "application/yaml", openAPI) })
	srv.handle(http.MethodGet, "/livez", scopeNone, srv.livez)
	srv.handle(http.MethodGet, "/readyz", scopeNone, srv.readyz)
	for _, signal := range otlp.Signals {
		srv.handle(http.MethodPost, signal.Path(), ScopeWrite, srv.takeSignal(signal))
	}
	srv.handler = compressed(srv.echo)
	return srv
}

// newEcho has what all requests by a door go through.
func (s *Server) newEcho(by door, loopbackOnly bool) *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.handleError
	e.Use(through(by), s.observe, s.recoverPanic)
	if loopbackOnly {
		e.Use(loopbackHost)
	}
	if len(s.config.Origins) > 0 {
		e.Use(allowOrigins(s.config.Origins))
	}
	e.Use(s.authenticate, s.limitReads)
	return e
}

// handle adds a route. HEAD is GET, of which net/http sends no body.
func (s *Server) handle(method, path string, need Scope, h echo.HandlerFunc) {
	stream := path == planEventsPath || path == eventsPath
	s.routes[method+" "+path] = route{
		need: need, quiet: path == "/metrics" || path == "/livez" || path == "/readyz", stream: stream, long: stream || path == exportPath, signal: signalOf(path),
	}
	s.echo.Add(method, path, h)
	if method == http.MethodGet {
		s.handle(http.MethodHead, path, need, h)
	}
}

// routeOf gives the route of a request and its path, "unmatched" where it has none.
// What no route is known of needs a key, too.
func (s *Server) routeOf(c echo.Context) (r route, path string) {
	if r, ok := s.routes[c.Request().Method+" "+c.Path()]; ok {
		return r, c.Path()
	}
	return route{need: scopeAny}, "unmatched"
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// SetKeys replaces the keys that clients need. Streams of events end, so that none
// outlives its key; others begin again where they were.
func (s *Server) SetKeys(keys *Keys) {
	s.keys.Store(keys)
	s.live.End()
}

// Drain has /readyz say that the server goes, so that no new clients are sent to
// it. Everything else is still served.
func (s *Server) Drain() { s.draining.Store(true) }

var errPanicked = errors.New("a handler panicked")

// recoverPanic turns a mistake of ours into an answer, so that it costs one
// request and not the server.
func (s *Server) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				s.log.Error("a handler panicked", "route", c.Path(), "id", requestID(c), "panic", v, "stack", string(debug.Stack()))
				err = errPanicked
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
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (s *Server) livez(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// readyz answers 200 when the database answers and is migrated, and the server
// means to stay.
func (s *Server) readyz(c echo.Context) error {
	if s.draining.Load() {
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the server is shutting down", RetryAfter: 1}
	}
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
