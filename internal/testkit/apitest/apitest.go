// Package apitest serves a store's API in tests, as the command does.
package apitest

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/trace/receive"
	"github.com/actlog/actlog/record"
)

// Config says how the API is served. The zero value is ready to use.
type Config struct {
	HTTP          httpd.Config // Logger: by default nothing is logged
	API           api.Config
	Lookup        lookup.Config
	Runs          runapi.Config
	LoopbackOnly  bool
	MaxStreams    int            // default 2,000
	ExportTimeout time.Duration  // default [receive.DefaultTimeout]
	Upkeep        *upkeep.Upkeep // for the metrics; may be nil
	Starter       runapi.Starter // default: nothing can be run
	Catalog       runapi.Catalog // default: of nothing
}

// Server is the API's own door, and what the doors share.
type Server struct {
	http.Handler
	Routes   []httpd.Route // of this door
	HTTP     *httpd.Server
	Lookup   *lookup.Lookup
	API      *api.Server
	Runs     *runapi.Server
	Hub      *live.Hub
	Receiver *receive.Receiver
}

// New serves a store until the test ends.
func New(t testing.TB, s *store.Store, config Config) *Server {
	t.Helper()
	if config.HTTP.Logger == nil {
		config.HTTP.Logger = slog.New(slog.DiscardHandler)
	}
	if config.MaxStreams == 0 {
		config.MaxStreams = 2_000
	}
	if config.Upkeep == nil {
		config.Upkeep = new(upkeep.Upkeep)
	}

	hub := live.New(s, s.Feed(), s.Deltas(), config.HTTP.Logger, config.MaxStreams)
	t.Cleanup(hub.Close)
	server := httpd.New(config.HTTP)
	server.Register(api.Metrics(s, config.Upkeep, hub))
	server.Register(httpd.ConnectionMetrics(nil)...)

	if config.Starter == nil {
		config.Starter, config.Catalog = nothing{}, nothing{}
	}
	runs := runstore.New(s)
	runtime := runapi.New(runs, config.Starter, config.Catalog, server, config.Runs)
	t.Cleanup(runtime.Close)
	receiver := receive.New(s, server, config.ExportTimeout)
	looks := lookup.New(s, server, config.Lookup)
	native := api.New(runs, looks, hub, server, config.API)

	routes := slices.Concat(native.Routes(), runtime.Routes(), receiver.Routes(receive.DoorServer),
		[]httpd.Route{receiver.Unknown(), server.Metrics()})
	return &Server{server.Handler(config.LoopbackOnly, routes...), routes, server, looks, native, runtime, hub, receiver}
}

// nothing is a runtime without executors.
type nothing struct{}

func (nothing) Start(_ context.Context, r engine.Request) (engine.Started, error) {
	return engine.Started{}, &engine.UnknownError{Kind: "agent", Name: r.Name}
}

func (nothing) Retry(context.Context, engine.RetryRequest) error { return record.ErrNotFound }

func (nothing) Say(context.Context, engine.SayRequest) (runstore.Message, error) {
	return runstore.Message{}, record.ErrNotFound
}

func (nothing) Again(context.Context, engine.AgainRequest) (engine.Started, error) {
	return engine.Started{}, record.ErrNotFound
}

func (nothing) Try(context.Context, engine.TryRequest) (engine.Started, error) {
	return engine.Started{}, record.ErrNotFound
}

func (nothing) SendEvent(context.Context, engine.EventRequest) (int, error) { return 0, nil }
func (nothing) Fork(context.Context, engine.ForkRequest) (engine.Started, error) {
	return engine.Started{}, record.ErrNotFound
}

func (nothing) PutSchedule(context.Context, string, define.Schedule, string) (bool, error) {
	return false, &engine.UnknownError{Kind: "agent"}
}

func (nothing) PauseSchedule(context.Context, string, bool) error { return record.ErrNotFound }

func (nothing) RunSchedule(context.Context, string, runstore.Who, string) (engine.Started, error) {
	return engine.Started{}, record.ErrNotFound
}

func (nothing) Models() []engine.ModelInfo { return nil }

func (nothing) Startables() []engine.Startable { return nil }

func (nothing) Tool(string, map[string]string) (r engine.Request, templateID string, err error) {
	return r, "", record.ErrNotFound
}

// OTLP is a door that takes exports only.
func (s *Server) OTLP(loopbackOnly bool) http.Handler {
	return s.HTTP.Handler(loopbackOnly, s.Receiver.Routes(receive.DoorHTTP)...)
}

// GRPC is a door for calls of gRPC.
func (s *Server) GRPC() http.Handler { return s.HTTP.CallHandler(false, s.Receiver.Calls()...) }
