// Package api owns the JSON API: the executor API, the native API and the health checks.
// openapi.yaml is its contract.
package api

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/live"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

//go:embed openapi.yaml
var openAPI []byte

// Config says how the API is served. Zero values mean the defaults named here.
type Config struct {
	// ListTimeout is how long Postgres may look for the plans of a list. Default 10 s.
	ListTimeout time.Duration
	// ExportPatience is how long a client may take to read the next part of an export. Default
	// 30 s.
	ExportPatience time.Duration
	// Heartbeat is how long a stream may be silent. Default 15 s.
	Heartbeat time.Duration
	// EventPatience is how long a client may take to read 64 KiB of events. Default 10 s.
	EventPatience time.Duration
}

func (c Config) withDefaults() Config {
	setDefault := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	setDefault(&c.ListTimeout, 10*time.Second)
	setDefault(&c.ExportPatience, 30*time.Second)
	setDefault(&c.Heartbeat, 15*time.Second)
	setDefault(&c.EventPatience, 10*time.Second)
	return c
}

// Store is the record as the API uses it.
type Store interface {
	Ready(ctx context.Context) error
	Write(ctx context.Context, changes []record.Change) (record.Result, error)
	DeletePlan(ctx context.Context, rootPlanID string) error
	PlanTree(ctx context.Context, rootPlanID, planID string) (plan *tree.Plan, exceptionWaits bool, err error)
	ServeException(ctx context.Context, rootPlanID, planID string) (message string, found bool, err error)
	StepDetail(ctx context.Context, rootPlanID, stepID string) (*tree.Step, error)
	Plans(ctx context.Context, f store.PlanFilter) ([]store.PlanSummary, error)
	SearchIncomplete(ctx context.Context) (bool, error)
	Beside(ctx context.Context, kind record.Kind, rootPlanID, planID string, after store.Position, limit int) (rows []store.Row, next *store.Position, err error)
	Export(ctx context.Context, rootPlanID, planID string, each func(record.Change) error) error
}

// Server answers requests from a store.
type Server struct {
	config  Config
	store   Store
	hub     *live.Hub
	log     *slog.Logger
	server  *httpd.Server
	exports chan struct{} // holds a token for each export
}

// New returns the API of a record, on what the doors of server share.
func New(s Store, hub *live.Hub, server *httpd.Server, config Config) *Server {
	return &Server{
		config: config.withDefaults(), store: s, hub: hub, log: server.Log(), server: server,
		exports: make(chan struct{}, maxExports),
	}
}

// readyz answers 200 if the database answers and is migrated, and the server is not about to
// stop.
func (s *Server) readyz(c echo.Context) error {
	if s.server.Draining() {
		return &httpd.Problem{Status: http.StatusServiceUnavailable, Detail: "the server is shutting down", RetryAfter: 1}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
	defer cancel()
	if err := s.store.Ready(ctx); err != nil {
		s.log.Warn("not ready", "error", err)
		detail := "the database does not answer"
		if errors.Is(err, store.ErrNotMigrated) {
			detail = store.ErrNotMigrated.Error()
		}
		return &httpd.Problem{Status: http.StatusServiceUnavailable, Detail: detail, RetryAfter: 1}
	}
	return c.String(http.StatusOK, "ok\n")
}

// maxExports bounds the exports that run at once: each holds a connection to Postgres and its
// snapshot of the database until its client has read everything.
const maxExports = 4
