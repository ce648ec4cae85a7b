// Package httpd owns what every door of the server shares: listeners, keys, host names, the
// budget for request bodies, errors as problem documents, the log of requests, and their
// metrics. Routes are data.
package httpd

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/actlog/actlog/internal/record/wire"
)

// Config says how requests are served. Zero values mean the defaults named here.
type Config struct {
	// Logger receives a line per request, and the causes of errors that clients do not see.
	// Required.
	Logger *slog.Logger
	// Keys are those that clients need; nil: none is needed. See [Server.SetKeys].
	Keys *Keys
	// Logins keeps the sessions of the web page; nil: nobody can log in.
	Logins Logins
	// Version is shown by the metrics.
	Version string
	// ReadTimeout is how long a read may take. Default 30 s.
	ReadTimeout time.Duration
	// Marks says what reads have to see; nil: everything anyway.
	Marks Marks
	// Origins are those of web pages that may send to routes that are beacons, "*" for any.
	// Default: browsers let no page do so.
	Origins []string
	// Hosts are names of the server that doors answer to if they check for which host a request is.
	Hosts []string
	// CheckHosts makes doors that other machines can reach do so, too: they answer to addresses, loopback names, the name
	// of the machine, and Hosts. Where no keys are needed, web pages could else read the record by a name of their own
	// that leads here.
	CheckHosts bool
	// Proxies are believed when they say in X-Forwarded-For for whom they send.
	Proxies Proxies
	// MaxStreams bounds the streams that are open at once. One client can have a quarter. Default 2,000.
	MaxStreams int
	// BodyBytes bounds what is held of request bodies, decompressed, over all requests.
	// Default 192 MiB.
	BodyBytes int64
	// AnswerBytes bounds what is held of answers, over all requests: rows, and what is made of
	// them until clients have read it. One answer may hold half. Default 192 MiB.
	AnswerBytes int64
	// AnswerPatience is how long a client may stop reading its answer. What it reads gains it a
	// second for each 32 KiB. Default 30 s.
	AnswerPatience time.Duration
	// Patience is how long a client that holds a part of BodyBytes may send nothing.
	// Default 5 s.
	Patience time.Duration
}

// answersOfOne is which part of the budget for answers one may hold: half.
const answersOfOne = 2

// largestRequest is what one request may hold of the budget for bodies: a body of the largest
// size, and as much again of what is decoded from it.
const largestRequest = 2 * wire.MaxBodyBytes

// Server is what the doors of a server share. It is safe for concurrent use.
type Server struct {
	config   Config
	log      *slog.Logger
	keys     atomic.Pointer[Keys]
	bodies   *Budget
	answers  *Budget
	making   *Turns // of large answers
	outcomes outcomes
	// processors holds a token for each large answer that is being compressed. There is one less
	// than there are processors, so that small requests find one at once.
	processors chan struct{}
	metrics    *metrics
	draining   atomic.Bool
	streams    *streams
	failures   failures    // to log in
	endings    removedKeys // of sessions
}

// New returns a server without doors.
func New(config Config) *Server {
	config.ReadTimeout = cmp.Or(config.ReadTimeout, 30*time.Second)
	config.BodyBytes = cmp.Or(config.BodyBytes, 192<<20)
	config.Patience = cmp.Or(config.Patience, 5*time.Second)
	config.AnswerBytes = cmp.Or(config.AnswerBytes, 192<<20)
	config.AnswerPatience = cmp.Or(config.AnswerPatience, 30*time.Second)
	config.MaxStreams = cmp.Or(config.MaxStreams, 2_000)

	s := &Server{
		config: config, streams: newStreams(config.MaxStreams), outcomes: newOutcomes(), log: config.Logger,
		bodies:  NewBudget(config.BodyBytes).letOne(largestRequest),
		answers: NewBudget(config.AnswerBytes).letOne(config.AnswerBytes / answersOfOne),
		// Each keeps a processor busy. Those that wait hold largeAnswer bytes and a read of Postgres.
		making:  NewTurns(min(max(2, runtime.GOMAXPROCS(0)), 4), 8, 10*time.Second),
		endings: removedKeys{turn: make(chan struct{}, 1)},
	}
	s.processors = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))
	s.metrics = newMetrics(config.Version, s.bodies, s.answers)

	s.Register(s.making.Metrics("large answers")...)
	s.Register(s.streams.metrics()...)
	s.SetKeys(config.Keys)
	return s
}

// Log returns the server's logger.
func (s *Server) Log() *slog.Logger { return s.log }

// Bodies returns the budget for request bodies, decompressed.
func (s *Server) Bodies() *Budget { return s.bodies }

// SetKeys replaces the keys that clients need. Streams of keys that are gone end. So do sessions, with
// [Server.EndSessions].
func (s *Server) SetKeys(keys *Keys) {
	before := s.keys.Swap(keys)
	s.streams.endWithout(keys)
	s.endings.keysChanged(before, keys)
}

// MaySee reports whether the sender of a request to a route that needs no key may read all the same: it brings a key
// that is good for that, or none is needed.
func (s *Server) MaySee(c echo.Context) bool {
	keys := s.keys.Load()
	return keys == nil || keys.find(bearer(c.Request().Header)).admit(ScopeRead) == nil
}

// Drain makes /readyz say that the server stops, so that balancers send it no new clients.
// Everything else is still served.
func (s *Server) Drain() { s.draining.Store(true) }

// Draining reports whether the server is about to stop.
func (s *Server) Draining() bool { return s.draining.Load() }

// Recover is for doors that are not HTTP: deferred, it turns a panic of a handler into an
// error.
func (s *Server) Recover(err *error, where ...any) {
	if v := recover(); v != nil {
		*err = s.panicked(v, where...)
	}
}

var errPanicked = errors.New("a handler panicked")

// panicked logs a panic and returns the error that answers the request.
func (s *Server) panicked(v any, where ...any) error {
	s.log.Error("a handler panicked", append(where, "panic", v, "stack", string(debug.Stack()))...)
	return errPanicked
}

// Register adds metrics.
func (s *Server) Register(more ...prometheus.Collector) { s.metrics.registry.MustRegister(more...) }

// Metrics is the route of the metrics.
func (s *Server) Metrics() Route {
	// Answers are compressed with all others.
	h := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{DisableCompression: true})
	return Route{Method: http.MethodGet, Path: "/metrics", Need: ScopeRead, Quiet: true, Handle: echo.WrapHandler(h)}
}
