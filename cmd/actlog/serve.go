package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/door/mcp"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/record/embedpg"
	"github.com/actlog/actlog/internal/record/report"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/internal/trace/receive"
)

const (
	// drainTimeout limits the time to stop: requests, queue, Postgres. Runs have that of --drain.
	drainTimeout = 30 * time.Second
	// leastToClose is what queue and Postgres have of it at least, however long requests and runs took.
	leastToClose = 5 * time.Second
)

// closing returns a context to close queue and Postgres in, of a process that began to stop at a time.
func closing(began time.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), max(drainTimeout-time.Since(began), leastToClose))
}

type serveCmd struct {
	Listen         string        `help:"Address to listen on." default:"127.0.0.1:8420" placeholder:"HOST:PORT"`
	OTLPListen     string        `help:"Second address, for OTLP over HTTP; off: none. Default: 127.0.0.1:4318, if it is free." name:"otlp-listen" placeholder:"HOST:PORT"`
	OTLPGRPCListen string        `help:"Address for OTLP over gRPC. Default: none." name:"otlp-grpc-listen" placeholder:"HOST:PORT"`
	OTLPOrigins    []string      `help:"Origins of web pages whose exporters may send OTLP, such as https://shop.example; * allows any." name:"otlp-origins" placeholder:"ORIGIN"`
	MaxConnections int           `help:"Most connections at once, of one address half; when there are as many, one without a request is closed." default:"10000"`
	MaxStreams     int           `help:"Most streams, and requests that wait for the end of a run, at once, of one API key or address a quarter; others are answered 503 or 429." default:"2000"`
	DrainDelay     time.Duration `help:"How long /readyz answers 503 before the server stops." default:"0s"`
	DetailDays     int           `help:"Drop cycles and tool calls that are older than this; trees and their figures stay. 0: never." default:"0" placeholder:"DAYS"`
	KeepDays       int           `help:"Delete whole trees that have ended and are older than this. 0: never." default:"0" placeholder:"DAYS"`
	InterruptAfter time.Duration `help:"Mark a run INTERRUPTED when its last heartbeat is older than this; a later one undoes that. 0: never." default:"15m"`
	TraceDays      int           `help:"Keep the spans of a trace until this long after the last one arrived; the trees made from them stay." default:"3" placeholder:"DAYS"`
	TraceQuiet     time.Duration `help:"Close a trace when no span arrived for this long: missing spans are not waited for, and what has not ended becomes UNKNOWN, until more arrives." default:"10m"`
	Ballast        int           `help:"Size of a file in the data folder that is removed if the disk is too full for the private Postgres to start, in MiB. 0: none." default:"64" placeholder:"MIB"`
	Workers        int           `help:"How many workers run agents; 0: none. Default: as many as there are processors, if there is a --config." default:"-1"`
	ReportURL      string        `help:"Login of a role that may only read the reports, postgres://user:password@host/database: assistants then have SQL (/mcp). Default: a login of the private Postgres; none on a configured one. Better pass a password in ACTLOG_REPORT_URL." name:"report-url" placeholder:"URL"`
	ReplicaURL     string        `help:"Standbys of --database-url, postgres://user:password@host/database: lists, searches, exports, charts and reports are read there. Default: none. Better pass a password in ACTLOG_REPLICA_URL." name:"replica-url" placeholder:"URL"`
	ReplicaLag     time.Duration `help:"How far behind a standby may be to be read; else the primary is." name:"replica-lag" default:"5s"`
	guardFlags
	runtimeFlags
	waitFlags
	poolerFlags
	databaseFlags

	listening func() error // called as soon as the server listens, before it reads its configuration; may be nil
}

func (c *serveCmd) Run(ctx context.Context, e *env) error {
	s, err := startServer(ctx, c, e.log)
	switch {
	case err != nil && ctx.Err() != nil:
		e.log.Info("stopped before it was ready", "error", err)
		return nil //nolint:nilerr // that it was stopped is why
	case err != nil:
		return err
	}

	if l := s.listeners.otlpHTTP; l != nil {
		fmt.Fprintf(e.stderr, "actlog takes OTLP on %s (%s)\n", l.URL(), otlpListenFlag)
	}
	if l := s.listeners.otlpGRPC; l != nil {
		fmt.Fprintf(e.stderr, "actlog takes OTLP over gRPC on %s (%s)\n", l.Addr(), otlpGRPCFlag)
	}

	fmt.Fprintf(e.stderr, "actlog serves on %s\n", s.url)
	return s.wait(ctx)
}

// server is a running actlog: the private Postgres, if there is one, the store and the API.
type server struct {
	url        string
	log        *slog.Logger
	postgres   *embedpg.Server // nil: the database is configured
	store      *runstore.Store
	reports    mcp.Reports // nil: assistants have no SQL
	upkeep     *upkeep.Upkeep
	lookup     *lookup.Lookup
	hub        *live.Hub
	agents     *agents
	runs       *runapi.Server
	runnable   *catalog.Catalog
	receiver   *receive.Receiver
	http       *httpd.Server
	listeners  listeners
	failed     chan error
	drainDelay time.Duration
	hangups    chan os.Signal // that ask to read the keys again; those that arrive before anybody looks wait
	stopKeys   func()         // stops watching the file of keys
}

// memoryLimit is when the garbage collector works harder, in bytes, unless GOMEMLIMIT says
// otherwise. What requests may hold together is well below.
const memoryLimit = 512 << 20

func (c *serveCmd) validate() error {
	switch {
	case c.MaxConnections < 1:
		return usageError("--max-connections must be at least 1")
	case c.MaxStreams < 1:
		return usageError("--max-streams must be at least 1")
	case c.DetailDays < 0 || c.KeepDays < 0 || c.InterruptAfter < 0:
		return usageError("--detail-days, --keep-days and --interrupt-after must not be negative")
	case c.Ballast < 0:
		return usageError("--ballast must not be negative")
	case c.DirectURL != "" && c.DatabaseURL == "":
		return usageError("--direct-url needs --database-url")
	case c.ReplicaURL != "" && c.DatabaseURL == "":
		return usageError("--replica-url needs --database-url: the private Postgres has no standbys")
	case c.ReplicaLag < store.LeastReplicaLag:
		return usageError(fmt.Sprintf("--replica-lag must be at least %s", store.LeastReplicaLag))
	case c.TraceDays < 1 || c.TraceQuiet < time.Second:
		return usageError("--trace-days must be at least 1, --trace-quiet at least 1s")
	}
	return c.runtimeFlags.validate()
}

// startServer checks what it was given, listens, waits for the database, migrates it and serves. Until then, requests
// are answered 503. The caller must wait for the server or close it.
func startServer(ctx context.Context, c *serveCmd, log *slog.Logger) (_ *server, err error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	config, err := c.guard()
	if err != nil {
		return nil, err
	}

	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}

	s := &server{log: log, drainDelay: c.DrainDelay, hangups: make(chan os.Signal, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()

	if c.APIKeys != "" {
		signal.Notify(s.hangups, syscall.SIGHUP)
	}

	// If a port is in use, no database has to be started.
	if s.listeners, err = c.open(ctx); err != nil {
		return nil, err
	}
	s.url, s.failed = s.listeners.api.URL(), make(chan error, len(s.listeners.all))

	if c.listening != nil {
		if err := c.listening(); err != nil {
			return nil, err
		}
	}
	if s.agents, err = openAgents(&c.runtimeFlags, secretFiles(c.databaseFlags, c.guardFlags), log); err != nil {
		return nil, err
	}

	config.Logger, config.Version = log, serverVersion()
	config.Origins, config.MaxStreams = c.OTLPOrigins, c.MaxStreams
	w := c.waiting(log)
	s.serveWaiting(httpd.New(config), w.reason, c.MaxConnections)
	if err := s.openStore(ctx, c, w); err != nil {
		return nil, err
	}

	s.openReports(ctx, c.ReportURL, c.ReplicaURL)
	s.hub = live.New(s.store, s.store.Feed(), s.store.Deltas(), log, c.MaxStreams)
	config.Logins, config.Marks = s.store, s.store
	s.http = httpd.New(config)
	s.lookup = lookup.New(s.store, s.http, lookup.Config{})
	s.http.Register(httpd.ConnectionMetrics(s.listeners.all)...)

	if err := s.agents.start(&c.runtimeFlags, s.store, c.workers(c.Workers)); err != nil {
		return nil, err
	}
	s.agents.register(s.http)
	if err := s.warnWithoutKeys(config.Keys != nil); err != nil {
		return nil, err
	}

	s.stopKeys = c.watch(s.hangups, s.http, log, s.hub.End) // no stream outlives its key; others reconnect
	s.startServers()

	if s.listeners.otlpTaken { // not before: a mistake that ends the start stands alone
		log.Warn("the default address for OTLP is in use; exporters can send to the address of this server, or to "+
			"another that you set with --otlp-listen", "usual", defaultOTLPListen, "own", s.url)
	}
	return s, nil
}

// warnWithoutKeys logs what programs can do that tools start, if the server has no keys.
func (s *server) warnWithoutKeys(keys bool) error {
	programs, err := s.agents.startsPrograms()
	if err == nil && programs && !keys {
		s.log.Warn("there are no API keys: programs that tools start can use this server, also to approve their own calls",
			"see", "--api-keys")
	}
	return err
}

// openStore opens the record, on a private Postgres if no database is configured.
func (s *server) openStore(ctx context.Context, c *serveCmd, w *waiting) (err error) {
	config := store.Config{
		DatabaseURL: c.DatabaseURL, DirectURL: c.DirectURL, ReplicaURL: c.ReplicaURL, ReplicaLag: c.ReplicaLag,
		Logger: s.log, Project: store.Projecting(otlp.NewProjection), TraceQuiet: c.TraceQuiet,
	}

	if config.DatabaseURL == "" {
		ballast := int64(c.Ballast) << 20
		if ballast == 0 {
			ballast = embedpg.NoBallast
		}

		s.postgres, err = embedpg.Start(ctx, embedpg.Config{Dir: c.folder(), Logger: s.log, Ballast: ballast})
		if err != nil {
			return c.withFolder(err)
		}
		config.DatabaseURL, config.CheckRoom = s.postgres.URL(), s.postgres.Room
	}

	err = w.until(ctx, func(ctx context.Context) error {
		if err := migrateUp(ctx, cmp.Or(config.DirectURL, config.DatabaseURL), s.log); err != nil {
			return err
		}
		record, err := store.Open(ctx, config)
		if err == nil {
			s.store = runstore.New(record)
		}
		return err
	})
	if err != nil {
		return err
	}

	s.upkeep, err = upkeep.Start(ctx, s.store.Store, upkeep.Config{
		Logger: s.log, DetailDays: c.DetailDays, KeepDays: c.KeepDays, InterruptAfter: c.InterruptAfter,
		TraceDays: c.TraceDays,
	})
	return err
}

// openReports logs in to read the reports, if a role for that is configured, or the Postgres is the server's own.
// Everything else is served without it.
func (s *server) openReports(ctx context.Context, url, replicaURL string) {
	var err error
	if url == "" && s.postgres != nil {
		url, err = report.Login(ctx, s.postgres.URL())
	}
	if url == "" && err == nil {
		return
	}

	var reports *report.Reports
	if err == nil {
		reports, err = report.Open(ctx, url, s.log)
	}
	if err == nil && replicaURL != "" {
		err = reports.ReadAt(s.store.Replica(), replicaURL)
	}

	if err != nil {
		s.log.Error("assistants have no SQL on the reports", "error", err)
		return
	}
	s.reports = reports
}

// serveWaiting refuses the requests at all addresses, until startServers is called.
func (s *server) serveWaiting(by *httpd.Server, why func() error, maxConnections int) {
	routes := []httpd.Route{by.Metrics()}
	for _, d := range doors {
		if d.waiting != nil {
			routes = append(routes, d.waiting(why)...)
		}
	}

	s.listeners.api.ServeHTTP(by.Handler(s.listeners.api.Loopback, routes...), maxConnections, s.log, s.failed)
	if l := s.listeners.otlpHTTP; l != nil {
		l.ServeHTTP(by.Handler(l.Loopback, receive.Waiting(why)...), maxConnections, s.log, s.failed)
	}
	if l := s.listeners.otlpGRPC; l != nil {
		l.ServeGRPC(by.CallHandler(l.Loopback, receive.WaitingCalls(why)...), maxConnections, s.log, s.failed)
	}
}

// startServers starts the HTTP servers: API with page and MCP, and the receivers of OTLP.
func (s *server) startServers() {
	routes := []httpd.Route{s.http.Metrics()}
	for _, d := range doors {
		routes = append(routes, d.open(s)...)
	}

	s.listeners.api.Handle(s.http.Handler(s.listeners.api.Loopback, routes...))
	if l := s.listeners.otlpHTTP; l != nil {
		l.Handle(s.http.Handler(l.Loopback, s.receiver.Routes(receive.DoorHTTP)...))
	}
	if l := s.listeners.otlpGRPC; l != nil {
		l.Handle(s.http.CallHandler(l.Loopback, s.receiver.Calls()...))
	}
}

// wait serves until ctx ends. Then /readyz answers 503 for drainDelay, so that load balancers
// notice, and the server stops.
func (s *server) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
		s.http.Drain()
		if s.drainDelay > 0 {
			timer := time.NewTimer(s.drainDelay)
			defer timer.Stop()
			select {
			case <-timer.C:
			case err := <-s.failed:
				return errors.Join(fmt.Errorf("serve: %w", err), s.close())
			}
		}
		return s.close()
	case err := <-s.failed:
		return errors.Join(fmt.Errorf("serve: %w", err), s.close())
	}
}

// close waits for running requests and for the queue, and stops Postgres.
func (s *server) close() error {
	began := time.Now()
	var errs []error
	signal.Stop(s.hangups)
	if s.stopKeys != nil {
		s.stopKeys()
	}

	if s.http != nil {
		s.http.Drain()
	}
	if s.hub != nil {
		s.hub.Close() // without this, streams would not end
	}
	if s.runs != nil {
		s.runs.Close()
	}

	var stopping sync.WaitGroup // runs and requests come to their ends at the same time
	var handedBack error
	if s.agents != nil {
		stopping.Go(func() { handedBack = s.agents.close() })
	}

	requests, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	errs = append(errs, httpd.Close(requests, s.listeners.all))
	stopping.Wait()
	errs = append(errs, handedBack)

	ctx, cancel := closing(began)
	defer cancel()
	if s.upkeep != nil {
		s.upkeep.Close()
	}
	if s.store != nil {
		errs = append(errs, s.store.Close(ctx))
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Close(ctx))
	}

	return errors.Join(errs...)
}
