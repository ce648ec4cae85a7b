// Package api owns the JSON API: the executor API, the native API and the health checks.
// openapi.yaml is its contract.
package api

import (
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

//go:embed openapi.yaml
var openAPI []byte

// Config says how the API is served. Zero values mean the defaults named here.
type Config struct {
	// Heartbeat is how long a stream may be silent. Default 15 s.
	Heartbeat time.Duration
}

// Store is the record as the API uses it.
type Store interface {
	Ready(ctx context.Context) (store.Standing, error)
	Write(ctx context.Context, changes []record.Change) (record.Result, error)
	// DeletePlan also stops the runs of the tree, if the runtime has any in it.
	DeletePlan(ctx context.Context, rootPlanID string) error
	PlanPlace(ctx context.Context, underRoot, planID string) (rootPlanID string, state record.State, err error)
	ServeException(ctx context.Context, rootPlanID, planID string) (message string, found bool, err error)
	Within(room store.Room) *store.Reader
}

// Server answers requests from a store.
type Server struct {
	config Config
	store  Store
	lookup *lookup.Lookup
	hub    *live.Hub
	log    *slog.Logger
	server *httpd.Server
	// long is for what holds a connection to Postgres until its client has read everything.
	long *httpd.Turns
}

// New returns the API of a record, on what the doors of server share.
func New(s Store, runs *lookup.Lookup, hub *live.Hub, server *httpd.Server, config Config) *Server {
	config.Heartbeat = cmp.Or(config.Heartbeat, 15*time.Second)
	long := httpd.NewTurns(maxLong, 0, 0)
	server.Register(long.Metrics("long reads")...)
	return &Server{config: config, store: s, lookup: runs, hub: hub, log: server.Log(), server: server, long: long}
}

// maxLong bounds the exports and large steps that are read at once: each holds a connection
// to Postgres, and what it sees of the database, until its client has read everything.
const maxLong = 4
