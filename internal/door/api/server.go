// Package api owns the JSON API: the executor API, the native API and the health checks.
// openapi.yaml is its contract.
package api

import (
	"context"
	_ "embed"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

//go:embed openapi.yaml
var openAPI []byte

// Config says how the API is served. Zero values mean the defaults named here.
type Config struct {
	// ListTimeout is how long Postgres may look for the plans of a list. Default 10 s.
	ListTimeout time.Duration
	// FindTime is how long Postgres may read the texts of a run in which something is looked for. Default 1 s.
	FindTime time.Duration
	// SearchTime is how long Postgres may read the texts of all runs in which something is looked for. Default 0.7 s, so that an answer takes a second at most.
	SearchTime time.Duration
	// Heartbeat is how long a stream may be silent. Default 15 s.
	Heartbeat time.Duration
}

func (c Config) withDefaults() Config {
	setDefault := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	setDefault(&c.ListTimeout, 10*time.Second)
	setDefault(&c.FindTime, time.Second)
	setDefault(&c.SearchTime, 700*time.Millisecond)
	setDefault(&c.Heartbeat, 15*time.Second)
	return c
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
	Relaxed(ctx context.Context, after store.Mark, read func(context.Context, *store.Reader) error) error
}

// Server answers requests from a store.
type Server struct {
	config Config
	store  Store
	hub    *live.Hub
	log    *slog.Logger
	server *httpd.Server
	// long is for what holds a connection to Postgres until its client has read everything.
	long *httpd.Turns
	// searches is for what may have to look through all plans, or all changes of a day.
	searches *httpd.Turns
	// texts is for what may have to read all texts. A turn ends some time after the search.
	texts *httpd.Turns
}

// New returns the API of a record, on what the doors of server share.
func New(s Store, hub *live.Hub, server *httpd.Server, config Config) *Server {
	config = config.withDefaults()
	long, searches := httpd.NewTurns(maxLong, 0, 0), httpd.NewTurns(maxSearches, maxWaiting, config.ListTimeout)
	texts := httpd.NewTurns(maxTexts, maxWaiting, config.ListTimeout)
	server.Register(long.Metrics("long reads")...)
	server.Register(searches.Metrics("searches")...)
	server.Register(texts.Metrics("searches in texts")...)
	return &Server{config: config, store: s, hub: hub, log: server.Log(), server: server, long: long, searches: searches, texts: texts}
}

// reader returns what reads an answer: its rows are counted.
func (s *Server) reader(c echo.Context) *store.Reader {
	return s.store.Within(httpd.AnswerTo(c).Take)
}

// relaxed makes a read that need not see the latest, but what the client wrote whose mark it sends. read may be called twice.
func (s *Server) relaxed(c echo.Context, read func(context.Context, *store.Reader) error) error {
	after, err := MarkOf(c)
	if err != nil {
		return err
	}
	return s.store.Relaxed(c.Request().Context(), after, func(ctx context.Context, r *store.Reader) error {
		return read(ctx, r.Within(httpd.AnswerTo(c).Take))
	})
}

// MarkOf returns the mark that a read has to see; zero: any.
func MarkOf(c echo.Context) (m store.Mark, err error) {
	text := httpd.MarkOf(c)
	if text == "" {
		return m, nil
	}
	return store.ParseMark(text)
}

const (
	// maxLong bounds the exports and large steps that are read at once: each holds a connection
	// to Postgres, and what it sees of the database, until its client has read everything.
	maxLong = 4
	// maxSearches bounds the searches at once: each may keep a processor of Postgres busy.
	// maxWaiting of others wait for their turn.
	maxSearches = 4
	maxWaiting  = 64
	// maxTexts bounds the searches in texts at once: each reads and compares for 2 seconds.
	maxTexts = 2
)
