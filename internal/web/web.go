// Package web owns the web page: the list of runs, and a run with its tree, the cause of its failure and the detail of a row.
// It reads the record as the API does. Every page is whole without scripts.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Store is the record as the page uses it.
type Store interface {
	Within(room store.Room) *store.Reader
	Row(ctx context.Context, key record.Key) (record.Change, error)
}

// Lists reads the list of runs as the API does.
type Lists interface {
	PlanPage(c echo.Context) (api.PlanPage, error)
}

// Server answers requests for pages.
type Server struct {
	store Store
	lists Lists
	log   *slog.Logger
	now   func() time.Time
}

// New returns the page of a record.
func New(s Store, lists Lists, server *httpd.Server) *Server {
	return &Server{store: s, lists: lists, log: server.Log(), now: time.Now}
}

// Routes are those of the page.
func (s *Server) Routes() []httpd.Route {
	page := func(path string, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: http.MethodGet, Path: path, Need: httpd.ScopeRead, Handle: h, Refuse: refuse}
	}
	return []httpd.Route{
		page("/", s.list),
		page("/runs/:planId", s.run),
		page("/runs/:planId/rows", s.rows),
		page("/runs/:planId/detail", s.rowDetail),
		{Method: http.MethodGet, Path: "/assets/:name", Need: httpd.ScopeNone, Handle: serveAsset, Quiet: true},
	}
}

// policy is what a page may load and do: nothing but what comes from this server, and no script in the text of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types actlog"

// send answers with a page.
func send(c echo.Context, status int, page templ.Component) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	c.Response().WriteHeader(status)
	return page.Render(context.WithoutCancel(c.Request().Context()), c.Response()) // of a refusal, the context has ended
}

// refuse answers an error with a page that says what is wrong.
func refuse(c echo.Context, p *httpd.Problem) error { return send(c, p.Status, problemPage(p)) }
