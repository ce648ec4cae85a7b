// Package runapi owns the HTTP of the runtime: to start runs, to control them, to answer what they wait
// for and to read how they went.
package runapi

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Store is the record as the runtime's API uses it.
type Store interface {
	Within(room store.Room) *store.Reader
	Control(ctx context.Context, planID string, action runstore.Action, by string) error
	ControlBy(ctx context.Context, planID string, action runstore.Action, by runstore.Who) error
	Begin(ctx context.Context, planID, by string) error
	DeleteSchedule(ctx context.Context, name string) error
	Decide(
		ctx context.Context, rootPlanID, planID, waitID string, decide func(*record.Wait) (*record.Wait, error),
	) error
	StartBulk(ctx context.Context, b runstore.NewBulk) (id string, err error)
	StopBulk(ctx context.Context, id string) error
	Feed() *feed.Feed
	Deltas() *delta.Deltas
	Sessions(
		ctx context.Context, f runstore.SessionFilter, limit, offset int,
	) (page []runstore.Session, total int64, err error)
	Session(ctx context.Context, id string, f runstore.SessionFilter, asker string) (*runstore.Session, error)
	Messages(ctx context.Context, key string, limit, offset int) ([]runstore.PlacedMessage, error)
	DeleteSession(ctx context.Context, key string) error
	CleanUpSessions(ctx context.Context, days, most int) (deleted int64, err error)
}

// Config says how the API is served. Zero values mean the defaults named here.
type Config struct {
	// ListTimeout is how long Postgres may look for the runs of a list. Default 10 s.
	ListTimeout time.Duration
	// Redact returns what a human said without what must not be on record. Default: as it is.
	Redact func(string) string
	// SocketBeat is how often a WebSocket gets a frame although nothing changed. Default 1 s.
	SocketBeat time.Duration
	// SocketPatience is how long the client of a WebSocket may take to read a frame. Default 10 s.
	SocketPatience time.Duration
	// PlanPatience is how long a request for a graph waits for a worker, while none lives that can plan it. Default
	// 10 s.
	PlanPatience time.Duration
	// ChatPatience is how long a completion that is not a stream waits for a run that waits for a human. Default 5
	// min.
	ChatPatience time.Duration
	// Runnable knows what can be run; nil: nothing.
	Runnable *catalog.Catalog
}

func (c Config) withDefaults() Config {
	c.ListTimeout = cmp.Or(c.ListTimeout, 10*time.Second)
	c.SocketBeat = cmp.Or(c.SocketBeat, time.Second)
	c.SocketPatience = cmp.Or(c.SocketPatience, 10*time.Second)
	c.PlanPatience = cmp.Or(c.PlanPatience, 10*time.Second)
	c.ChatPatience = cmp.Or(c.ChatPatience, 5*time.Minute)
	return c
}

// Server answers requests of the runtime.
type Server struct {
	store   Store
	starter Starter
	catalog Catalog
	server  *httpd.Server
	config  Config
	watch   *runs.Watch
	// long is for what reads much: traces, and lists that may have to look through all runs.
	long *httpd.Turns
	// frames are those of executions whose WebSockets are open.
	frames *runs.Shared[frame]
	// listenerEvents are the events that are sent to the listeners of runs.
	listenerEvents *runs.Shared[[]listenerEvent]
}

const (
	maxLong    = 4
	maxWaiting = 32
	// maxListenerReads is how many runs are read for their listeners at once.
	maxListenerReads = 2
)

// New returns the API of a runtime, on what the doors of server share. The caller closes it.
func New(s Store, starter Starter, catalog Catalog, server *httpd.Server, config Config) *Server {
	config = config.withDefaults()
	long := httpd.NewTurns(maxLong, maxWaiting, config.ListTimeout)
	server.Register(long.Metrics("reads of runs")...)
	srv := &Server{
		store: s, starter: starter, catalog: catalog, server: server, config: config, watch: runs.NewWatch(s.Feed()),
		long: long,
	}

	// These reads are shared by all clients, so no client's budget pays for them.
	unlimited := func(int64) error { return nil }
	listenerReads := make(chan struct{}, maxListenerReads)
	srv.listenerEvents = runs.NewShared(srv.watch,
		func(ctx context.Context, rootPlanID, planID string) (all []listenerEvent, last bool, err error) {
			select {
			case listenerReads <- struct{}{}:
				defer func() { <-listenerReads }()
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
			return readListenerEvents(ctx, runstore.NewReader(s.Within(unlimited)), rootPlanID, planID)
		})
	srv.frames = runs.NewShared(srv.watch, func(ctx context.Context, _, planID string) (f frame, last bool, err error) {
		return readFrame(ctx, runstore.NewReader(s.Within(unlimited)), planID)
	})
	return srv
}

// Close ends the requests that wait for a run, and what they started.
func (s *Server) Close() { s.watch.Close() }

// reader returns what reads an answer: its rows are counted.
func (s *Server) reader(c echo.Context) *runstore.Reader {
	return runstore.NewReader(s.store.Within(httpd.AnswerTo(c).Take))
}
