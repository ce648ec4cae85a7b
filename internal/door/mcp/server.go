// Package mcp owns the record as tools of the Model Context Protocol, so that an assistant can find runs, see why they failed, and
// count over all of them. It reads the record as the API does.
package mcp

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/report"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// Config says how the tools are served. Zero values mean the defaults named here.
type Config struct {
	// Version is shown to clients.
	Version string
	// CallTimeout is how long a call may take. Default 30 s.
	CallTimeout time.Duration
}

// Store is the record as the tools use it.
type Store interface {
	Within(room store.Room) *store.Reader
}

// Lists reads lists of runs, and of what a run says, as the API does.
type Lists interface {
	FindPlans(c echo.Context, values url.Values) (api.PlanPage, error)
	FindTexts(c echo.Context, values url.Values, perRun int) (api.TextsPage, error)
	Find(c echo.Context, o *outline.Outline, text string, from *httpd.Cursor, limit int) (api.Found, error)
}

// Reports answers questions in SQL, as a role that may only read the views of schema report.
type Reports interface {
	Query(ctx context.Context, sql string, b report.Bounds) (*report.Result, error)
	Views(ctx context.Context) ([]report.View, error)
	Columns(ctx context.Context, view string) ([]report.ViewColumn, error)
}

// Server answers calls of tools.
type Server struct {
	config  Config
	store   Store
	lists   Lists
	reports Reports // nil: there are no tools for SQL
	server  *httpd.Server
	log     *slog.Logger
	// statements is for SQL: each may keep a processor of Postgres busy.
	statements *httpd.Turns
}

const (
	// maxStatements bounds the statements at once, of which a client has half, and waitingStatements those that wait for their turn.
	maxStatements     = 2
	waitingStatements = 16
	// statementPatience is how long they wait.
	statementPatience = 5 * time.Second
)

// New returns the tools of a record, on what the doors of server share. Without reports, there are none for SQL.
func New(s Store, lists Lists, reports Reports, server *httpd.Server, config Config) *Server {
	if config.CallTimeout == 0 {
		config.CallTimeout = 30 * time.Second
	}
	statements := httpd.NewTurns(maxStatements, waitingStatements, statementPatience)
	if reports != nil {
		server.Register(statements.Metrics("report SQL")...)
	}
	return &Server{config: config, store: s, lists: lists, reports: reports, server: server, log: server.Log(), statements: statements}
}

// outline reads a run, or a part of one, without its texts.
func (s *Server) outline(c echo.Context, planID, root string) (*outline.Outline, error) {
	if !httpd.Storable(planID) || !httpd.Storable(root) {
		return nil, record.ErrNotFound
	}
	p, err := s.reader(c).Skeleton(c.Request().Context(), root, planID)
	if err != nil {
		return nil, err
	}
	return outline.Of(p), nil
}

// reader returns what reads the record for an answer: its rows are counted.
func (s *Server) reader(c echo.Context) *store.Reader { return s.store.Within(httpd.AnswerTo(c).Take) }
