// Package web owns the web page: the list of runs, and a run with its tree, the cause of its failure and the detail of
// a row. It reads the record as the API does. Every page is whole without scripts.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Store is the record as the page uses it.
type Store interface {
	Within(room store.Room) *store.Reader
	Mark(ctx context.Context) (store.Mark, error)
	Control(ctx context.Context, planID string, action runstore.Action, by string) error
	StartBulk(ctx context.Context, b runstore.NewBulk) (id string, err error)
	StopBulk(ctx context.Context, id string) error
	Decide(
		ctx context.Context, rootPlanID, planID, waitID string, decide func(*record.Wait) (*record.Wait, error),
	) error
}

// Starter starts runs as the API does.
type Starter interface {
	StartRun(ctx context.Context, starter string, body []byte, idempotencyKey string) (planID string, err error)
	RetryRun(ctx context.Context, r engine.RetryRequest) error
	RunAgain(ctx context.Context, r engine.AgainRequest) (planID string, err error)
	ForkRun(ctx context.Context, r engine.ForkRequest) (planID string, err error)
	Say(ctx context.Context, r engine.SayRequest) (runstore.Message, error)
	PauseSchedule(ctx context.Context, name string, paused bool) error
	RunSchedule(ctx context.Context, name, starter string) (planID string, err error)
}

// Catalog knows of what runs can be started.
type Catalog interface{ Startables() []engine.Startable }

// Runtime is what runs agents.
type Runtime struct {
	Starter Starter
	Catalog Catalog // nil: nothing can be started
	// Runnable knows what can be run; nil: nothing.
	Runnable *catalog.Catalog
	// Redact returns what a human said without what must not be on record; nil: as it is.
	Redact func(string) string
}

// Hub knows where what changes is told from.
type Hub interface {
	Cursor(ctx context.Context) (string, error)
}

// Server answers requests for pages.
type Server struct {
	store    Store
	lookup   *lookup.Lookup
	hub      Hub
	door     *httpd.Server
	log      *slog.Logger
	now      func() time.Time
	outlines outlineCache

	runtime Runtime
	rowJSON func(store.Row) []byte
}

// New returns the page of a record, and of a runtime. rowJSON returns a row as it is shown in JSON.
func New(
	s Store, runs *lookup.Lookup, hub Hub, server *httpd.Server, rowJSON func(store.Row) []byte, runtime Runtime,
) *Server {
	return &Server{
		store: s, lookup: runs, hub: hub, door: server, log: server.Log(), now: time.Now, rowJSON: rowJSON, runtime: runtime,
	}
}

// Routes are those of the page.
func (s *Server) Routes() []httpd.Route {
	page := func(path string, h echo.HandlerFunc) httpd.Route {
		return httpd.Route{Method: http.MethodGet, Path: path, Need: httpd.ScopeRead, Handle: s.offering(h), Refuse: refuse}
	}

	const get, post = http.MethodGet, http.MethodPost
	return []httpd.Route{
		page("/", s.list),
		page("/list/patch", s.listed),
		page("/list/newer", s.newer),
		page("/list/pair", s.pair),
		page("/search", s.searchPage),
		page("/waits", s.waits),
		page("/schedules", s.schedules),
		{Method: post, Path: "/schedules/:name", Need: httpd.ScopeRun, Handle: s.offering(s.askSchedule), Refuse: refuse},
		page("/agents", s.agents),
		page("/start", s.startPage),
		{Method: post, Path: "/start", Need: httpd.ScopeRun, Handle: s.offering(s.start), Refuse: refuse},
		page("/compare", s.compare),
		page("/bulk", s.bulk),
		page("/bulk/:bulkId", s.bulkJob),
		{Method: post, Path: "/bulk", Need: httpd.ScopeRun, Handle: s.offering(s.startBulk), Refuse: refuse},
		{Method: post, Path: "/bulk/:bulkId/stop", Need: httpd.ScopeRun, Handle: s.offering(s.stopBulk), Refuse: refuse},
		page("/conversations/:conversationId", s.conversation),
		page("/charts", s.charts),
		page("/runs/:planId", s.run),
		page("/runs/:planId/rows", s.rows),
		page("/runs/:planId/found", s.found),
		page("/runs/:planId/failures", s.failures),
		page("/runs/:planId/tree", s.tree),
		page("/runs/:planId/patch", s.patch),
		page("/runs/:planId/detail", s.rowDetail),
		page("/runs/:planId/text", s.text),
		{Method: post, Path: "/runs/:planId", Need: httpd.ScopeDecide, Handle: s.offering(s.answer), Refuse: refuse},
		{Method: post, Path: "/runs/:planId/control", Need: httpd.ScopeRun, Handle: s.offering(s.control), Refuse: refuse},
		{Method: get, Path: "/login", Need: httpd.ScopeNone, Handle: s.login, Refuse: refuse},
		{Method: post, Path: "/login", Need: httpd.ScopeNone, Handle: s.logIn, Refuse: refuse},
		{Method: post, Path: "/logout", Need: httpd.ScopeNone, Handle: s.logOut, Refuse: refuse},
		assetRoute,
	}
}

// latest makes the lists of a request show all that is on record now.
func (s *Server) latest(c echo.Context) error {
	mark, err := s.store.Mark(c.Request().Context())
	if err == nil {
		httpd.SetMark(c, mark.String())
	}
	return err
}

// policy is what a page may load and do: nothing but what comes from this server, and no script in the text of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types actlog"

// send answers with a page.
func send(c echo.Context, status int, page templ.Component) error {
	setHeaders(c)
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	c.Response().WriteHeader(status)
	// of a refusal, the context has ended
	ctx := context.WithValue(context.WithoutCancel(c.Request().Context()), visitorKey{}, visitorOf(c))
	return page.Render(ctx, c.Response())
}

// setHeaders says what a browser may do with an answer.
func setHeaders(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// visitor is who looks at a page, and how.
type visitor struct {
	key    string      // the name of the key with which it is read; empty: without one
	scheme string      // light or dark; empty: as the browser has it
	starts func() bool // reports whether there is something to start; nil: there is not
}

type visitorKey struct{}

func visitorOf(c echo.Context) visitor {
	v := visitor{key: httpd.KeyOf(c)}
	v.starts, _ = c.Get(offered).(func() bool)
	if chosen, err := c.Cookie("actlog-scheme"); err == nil && (chosen.Value == "light" || chosen.Value == "dark") {
		v.scheme = chosen.Value
	}
	return v
}

// visitorFrom returns who looks at the page that is made in a context.
func visitorFrom(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

// refuse answers an error with a page that says what is wrong. Who is not logged in may do so, and comes back.
func refuse(c echo.Context, p *httpd.Problem) error {
	if r := c.Request(); p.Status == http.StatusUnauthorized && r.Method == http.MethodGet {
		return c.Redirect(http.StatusSeeOther, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode())
	}
	if to := pageNear(c.Request()); to != "" && p.Status == http.StatusNotFound {
		return c.Redirect(http.StatusSeeOther, to)
	}
	return send(c, p.Status, problemPage(p))
}

// Waiting returns the routes of the page while there is no record yet: the error of why, as a page.
func Waiting(why func() error) []httpd.Route {
	return []httpd.Route{
		{Method: http.MethodGet, Path: "/", Need: httpd.ScopeNone, Handle: func(echo.Context) error {
			return why()
		}, Refuse: refuse, Quiet: true},
		assetRoute,
	}
}

var assetRoute = httpd.Route{
	Method: http.MethodGet, Path: "/assets/:name", Need: httpd.ScopeNone, Handle: serveAsset, Quiet: true,
}

// pageNear returns the page that the path of a request means, if it is not quite that of a page: the list for "/runs",
// and a path without its last slash. It is empty if there is none.
func pageNear(r *http.Request) string {
	path := strings.TrimRight(r.URL.EscapedPath(), "/")
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead, !slices.Contains(firstParts, first):
		return ""
	case path == "/runs" || path == "/conversations":
		path = "/"
	case path == r.URL.EscapedPath():
		return ""
	}

	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	return path
}

// firstParts are those of the paths of pages.
var firstParts = []string{
	"runs", "conversations", "search", "waits", "schedules", "start", "compare", "charts", "login",
}
