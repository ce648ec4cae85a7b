// Package mcp owns the record as tools of the Model Context Protocol, so that an assistant can find runs, see why they
// failed, and count over all of them. It reads the record as the API does.
package mcp

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/report"
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

// Reports answers questions in SQL, as a role that may only read the views of schema report.
type Reports interface {
	Query(ctx context.Context, sql string, b report.Bounds) (*report.Result, error)
	Views(ctx context.Context) ([]report.View, error)
	Columns(ctx context.Context, view string) ([]report.ViewColumn, error)
}

// Server answers calls of tools.
type Server struct {
	config  Config
	lookup  *lookup.Lookup
	reports Reports // nil: there are no tools for SQL
	server  *httpd.Server
	log     *slog.Logger
	// statements is for SQL: each may keep a processor of Postgres busy.
	statements *httpd.Turns
}

const (
	// maxStatements bounds the statements at once, of which a client has half, and waitingStatements those that wait for
	// their turn.
	maxStatements     = 2
	waitingStatements = 16
	// statementPatience is how long they wait.
	statementPatience = 5 * time.Second
)

// New returns the tools of a record, on what the doors of server share. Without reports, there are none for SQL.
func New(runs *lookup.Lookup, reports Reports, server *httpd.Server, config Config) *Server {
	if config.CallTimeout == 0 {
		config.CallTimeout = 30 * time.Second
	}

	statements := httpd.NewTurns(maxStatements, waitingStatements, statementPatience)
	if reports != nil {
		server.Register(statements.Metrics("report SQL")...)
	}
	return &Server{
		config: config, lookup: runs, reports: reports, server: server, log: server.Log(), statements: statements,
	}
}

// outline reads a run, or a part of one, without its texts.
func (s *Server) outline(c echo.Context, planID, root string) (*outline.Outline, error) {
	if !httpd.Storable(planID) || !httpd.Storable(root) {
		return nil, record.ErrNotFound
	}
	return s.lookup.Run(c, root, planID)
}
