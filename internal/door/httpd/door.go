package httpd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// door is what all requests through one listener pass. It serves some routes.
type door struct {
	server  *Server
	routes  map[string]Route
	beacons map[string]bool // paths
}

// Handler serves routes. With loopbackOnly it refuses requests whose Host is not a loopback
// name, so that no web page reaches the record by a name of its own that leads here. HEAD is
// answered wherever GET is.
func (s *Server) Handler(loopbackOnly bool, routes ...Route) http.Handler {
	return s.answered(compressed(s.CallHandler(loopbackOnly, routes...)))
}

// CallHandler is Handler for gRPC: messages have a compression of their own, and answers are
// small.
func (s *Server) CallHandler(loopbackOnly bool, routes ...Route) http.Handler {
	d := &door{server: s, routes: map[string]Route{}, beacons: map[string]bool{}}
	e := echo.New()
	e.HTTPErrorHandler = d.handleError
	e.Use(d.observe, s.recoverPanic)

	if loopbackOnly || s.config.CheckHosts {
		e.Use(checkHost(s.config.Hosts, loopbackOnly))
	}
	if len(s.config.Origins) > 0 {
		e.Use(d.allowOrigins(s.config.Origins))
	}
	e.Use(d.refuseForeignPages, d.authenticate, d.refuseUnmeantActs, d.limitStreams, d.limitReads, d.mark)

	add := func(method string, r Route) {
		d.routes[method+" "+r.Path] = r
		e.Add(method, r.Path, r.Handle)
	}
	for _, r := range routes {
		add(r.Method, r)
		if r.Method == http.MethodGet {
			add(http.MethodHead, r)
		}
		d.beacons[r.Path] = r.Beacon
	}
	return e
}

// routeOf returns the route of a request and its path, "unmatched" if it has none. A request
// without a route needs a key, too.
func (d *door) routeOf(c echo.Context) (r Route, path string) {
	if r, ok := d.routes[c.Request().Method+" "+c.Path()]; ok {
		return r, c.Path()
	}
	return Route{Need: ScopeAny}, unmatched
}

// unmatched stands for the path of requests that no route has.
const unmatched = "unmatched"

// AnyPath is the path of a route for requests that no other route has.
const AnyPath = "/*"

// homePage is the route of the first page. A browser that asks for a path that no route has is answered as there.
const homePage = http.MethodGet + " /"

// asksForPage reports whether the client says that it takes HTML, as browsers do of what they open.
func asksForPage(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept") {
		for kind := range strings.SplitSeq(line, ",") {
			name, values, err := mime.ParseMediaType(kind)
			if err != nil || name != echo.MIMETextHTML {
				continue
			}
			if q, err := strconv.ParseFloat(cmp.Or(values["q"], "1"), 64); err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}

// observe gives each request its id, counts it and logs it: where it went and how it ended,
// never what was in it.
func (d *door) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		r := c.Request()
		noted := &request{
			id: usableID(r.Header.Get(echo.HeaderXRequestID)), address: d.server.config.Proxies.client(r),
			body: &countedBody{ReadCloser: r.Body}, answer: answerOf(c.Response().Writer), began: began,
		}

		r.Body = noted.body
		c.Set(requestKey, noted)
		noted.answer.belongs(ClientOf(c))
		c.Response().Header().Set(echo.HeaderXRequestID, noted.id)
		c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store") // unless its handler knows better

		metrics := d.server.metrics
		metrics.inFlight.Inc()
		defer metrics.inFlight.Dec()
		err := next(c)
		if err != nil {
			c.Error(err)
		}

		took, status := time.Since(began), cmp.Or(noted.refused, c.Response().Status)
		route, path := d.routeOf(c)
		metrics.served(methodOf(r), path, status, took, noted.body.read.Load(), route.Stream &&
			(status == http.StatusOK || status == http.StatusSwitchingProtocols))
		if route.Answered != nil {
			route.Answered(status)
		}

		level := slog.LevelInfo
		if route.Quiet {
			level = slog.LevelDebug
		}
		d.server.log.LogAttrs(r.Context(), level, "request", slog.String("id", noted.id), slog.String("method", methodOf(r)),
			slog.String("route", path), slog.Int("status", status),
			slog.Duration("duration", took), slog.Int64("bytes", c.Response().Size), slog.String("key", KeyOf(c)),
			slog.String("address", noted.address.String()))

		if noted.broken {
			panic(http.ErrAbortHandler) // breaks the connection, or half an answer would look whole
		}
		return nil
	}
}

// recoverPanic turns a mistake of ours into an answer: it costs one request, not the server.
func (s *Server) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				err = s.panicked(v, "route", c.Path(), "id", requestOf(c).id)
			}
		}()
		return next(c)
	}
}

// allowOrigins lets web pages of some origins send to the routes that are beacons. A page's
// browser asks first, without a key. Beacons count as sent with credentials; there are none
// here that a browser would add by itself.
func (d *door) allowOrigins(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper:      func(c echo.Context) bool { return !d.beacons[c.Path()] },
		AllowOrigins: origins,
		AllowMethods: []string{http.MethodPost},
		MaxAge:       int((2 * time.Hour).Seconds()), // browsers remember it no longer

		AllowCredentials: true, UnsafeWildcardOriginWithAllowCredentials: true,
	})
}

var crossOrigin http.CrossOriginProtection

// refuseForeignPages refuses requests that a web page of another site makes a browser send, if
// they may change something: the answer is hidden from such a page, the change would be made.
// Browsers say where a request comes from; other clients do not, and are no danger. Pages of
// allowed origins may send to beacons: then the answer is marked for them by now.
func (d *door) refuseForeignPages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		allowed := c.Response().Header().Get(echo.HeaderAccessControlAllowOrigin) != ""
		if !isSafe(r.Method) && !allowed && crossOrigin.Check(r) != nil {
			return Refused(http.StatusForbidden,
				"a web page of another site must not send this request, because it may change something")
		}
		return next(c)
	}
}

// refuseUnmeantActs refuses a GET that does something, unless its sender means it: a browser sends a GET wherever a
// link leads.
func (d *door) refuseUnmeantActs(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		route, _ := d.routeOf(c)
		if !route.Acts || MayAct(c) {
			return next(c)
		}

		detail := "this GET does something, so a web page must not send it; programs may, or send a POST"
		if d.server.NeedsKey() {
			detail = "this GET does something, so it needs an API key of its own: send it as Authorization: Bearer KEY. A " +
				"session of the web page is not enough"
		}
		return Refused(http.StatusForbidden, detail)
	}
}

// isSafe reports whether requests of a method change nothing, unless their route says so.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// authenticate checks that a request has a key that is good for its route, if keys are needed.
func (d *door) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		route, _ := d.routeOf(c)
		if route.Need == ScopeNone {
			return next(c)
		}

		found, byCookie, refused, err := d.server.admit(c.Request(), route.Need)
		if err != nil {
			return err
		}

		requestOf(c).key, requestOf(c).byCookie = found, byCookie
		requestOf(c).answer.belongs(ClientOf(c))
		if refused != nil {
			return needKey(c, refused)
		}
		holdConnection(c.Request().Context())
		return next(c)
	}
}

// needKey returns a problem with a key, and says in the answer how a key is sent if it lacks one.
func needKey(c echo.Context, p *Problem) error {
	if p.Status == http.StatusUnauthorized {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="actlog"`)
	}
	return p
}

// limitStreams counts the requests of routes that are streams, and ends them with their keys.
func (d *door) limitStreams(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		route, _ := d.routeOf(c)
		if !route.Stream {
			return next(c)
		}

		ctx, end := context.WithCancelCause(c.Request().Context())
		defer end(nil)
		one := &stream{client: ClientOf(c), key: requestOf(c).key, need: route.Need, end: end}
		streams := d.server.streams
		if refused := streams.begin(one); refused != nil {
			return refused
		}
		defer streams.ended(one)
		one.endWithout(d.server.keys.Load()) // they may have changed since this one was looked at

		c.SetRequest(c.Request().WithContext(ctx))
		err := next(c)
		if err != nil && errors.Is(context.Cause(ctx), errKeyGone) {
			return needKey(c, errKeyGone)
		}
		return err
	}
}

// limitReads bounds how long a read may take, until it is streamed.
func (d *door) limitReads(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		route, _ := d.routeOf(c)
		if method := c.Request().Method; route.Long || route.Stream || method != http.MethodGet && method != http.MethodHead {
			return next(c)
		}

		ctx, cancel := context.WithCancel(c.Request().Context())
		defer cancel()
		stop := requestOf(c).answer.within(ctx, time.AfterFunc(d.server.config.ReadTimeout, cancel))
		defer stop()

		c.SetRequest(c.Request().WithContext(ctx))
		if err := requestOf(c).answer.begin(); err != nil {
			return err
		}
		return next(c)
	}
}

// mark puts a mark into the answer to what may have written, and heeds the one that a client sends.
func (d *door) mark(next echo.HandlerFunc) echo.HandlerFunc {
	marks := d.server.config.Marks
	if marks == nil {
		return next
	}

	return func(c echo.Context) error {
		if err := heedMark(c, marks); err != nil {
			return err
		}

		if route, _ := d.routeOf(c); !isSafe(c.Request().Method) || route.Acts || route.Spends {
			c.Response().Before(func() {
				if c.Response().Status >= http.StatusBadRequest {
					return
				}
				if mark := marks.MarkText(c.Request().Context()); mark != "" {
					giveMark(c, mark)
				}
			})
		}
		return next(c)
	}
}

// handleError answers an error, and logs its cause if clients do not see it.
func (d *door) handleError(err error, c echo.Context) {
	p, known := ProblemOf(err)
	if !known {
		d.server.log.Error("request failed", "id", requestOf(c).id, "method", methodOf(c.Request()), "route", c.Path(),
			"status", p.Status, "error", err)
	}

	noted := requestOf(c)
	noted.refused = p.Status
	if c.Response().Committed {
		instead := noted.answer.replace()
		if noted.broken = instead == nil; noted.broken {
			return
		}
		*c.Response() = *echo.NewResponse(instead, c.Echo())
	}

	drain(c, p == ErrSlow)
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}

	refuse := sendProblem
	switch route, path := d.routeOf(c); {
	case route.Refuse != nil:
		refuse = route.Refuse
	case (path == unmatched || path == AnyPath) && asksForPage(c.Request()) && d.routes[homePage].Refuse != nil:
		refuse = d.routes[homePage].Refuse
	}
	if err := refuse(c, p); err != nil {
		d.server.log.Debug("send answer failed", "error", err)
	}
}
