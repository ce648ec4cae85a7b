package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/embedpg"
	"github.com/actlog/actlog/internal/store"
)

// Time-outs of connections. Reading a body of 64 MiB may take a while; a client
// that sends nothing may not.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 2 * time.Minute
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// drainTimeout bounds how long the end takes: requests, queue, Postgres.
	drainTimeout = 30 * time.Second
)

type serveCmd struct {
	Listen         string        `help:"Address to listen on." default:"127.0.0.1:8420" placeholder:"HOST:PORT"`
	APIKeys        string        `help:"File of the API keys that clients need, as actlog key makes them; read anew on SIGHUP." name:"api-keys" placeholder:"FILE" type:"path"`
	Insecure       bool          `help:"Listen on an address that other machines reach, without any keys."`
	MaxConnections int           `help:"Connections served at once; more wait." default:"10000"`
	DrainDelay     time.Duration `help:"How long /readyz says that the server goes, before it does." default:"0s"`
	DetailDays     int           `help:"Drop cycles and tool calls that are older; trees and their figures stay. 0: never." default:"0" placeholder:"DAYS"`
	KeepDays       int           `help:"Delete whole trees that have ended and are older. 0: never." default:"0" placeholder:"DAYS"`
	InterruptAfter time.Duration `help:"Mark runs as INTERRUPTED that sent heartbeats and have been silent for so long. 0: never." default:"0s"`
	TraceDays      int           `help:"Keep the spans of traces for so long after the last of them came; the trees made of them stay." default:"3" placeholder:"DAYS"`
	TraceQuiet     time.Duration `help:"Close traces from which nothing came for so long: what has not ended in them is UNKNOWN, until more comes." default:"10m"`
	databaseFlags
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, e *env) error {
	s, err := startServer(ctx, c, e.log)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "actlog serves on %s\n", s.url)
	return s.wait(ctx)
}

// server is a running actlog: Postgres where it is private, store, API.
type server struct {
	url        string
	log        *slog.Logger
	postgres   *embedpg.Server // nil where the database is configured
	store      *store.Store
	api        *api.Server
	http       *http.Server
	failed     chan error
	drainDelay time.Duration
	// stopKeys ends the watch over the file of keys; nil where there is none.
	stopKeys func()
}

// startServer migrates and serves. The caller waits, or closes.
func startServer(ctx context.Context, c *serveCmd, log *slog.Logger) (_ *server, err error) {
	loopback, err := checkListen(c.Listen, c.Insecure || c.APIKeys != "")
	if err != nil {
		return nil, err
	}
	if c.MaxConnections < 1 {
		return nil, usageError("--max-connections must be at least 1")
	}
	if c.DetailDays < 0 || c.KeepDays < 0 || c.InterruptAfter < 0 {
		return nil, usageError("--detail-days, --keep-days and --interrupt-after must not be negative")
	}
	if c.TraceDays < 1 || c.TraceQuiet < time.Second {
		return nil, usageError("--trace-days must be at least 1, --trace-quiet at least 1s")
	}
	var keys *api.Keys
	if c.APIKeys != "" {
		if keys, err = readKeys(c.APIKeys); err != nil {
			return nil, err
		}
	}
	// Listening first: a port that is taken should not cost the start of a database.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	s := &server{url: "http://" + listener.Addr().String(), log: log, failed: make(chan error, 1), drainDelay: c.DrainDelay}
	defer func() {
		if err != nil {
			_ = listener.Close()
			err = errors.Join(err, s.close())
		}
	}()
	config := store.Config{DatabaseURL: c.DatabaseURL, Logger: log, DetailDays: c.DetailDays, KeepDays: c.KeepDays, InterruptAfter: c.InterruptAfter}
	config.TraceDays, config.TraceQuiet = c.TraceDays, c.TraceQuiet
	if config.DatabaseURL == "" {
		s.postgres, err = embedpg.Start(ctx, embedpg.Config{Dir: filepath.Join(c.DataDir, "postgres"), Logger: log})
		if err != nil {
			return nil, err
		}
		config.DatabaseURL, config.Room = s.postgres.URL(), s.postgres.Room
	}
	if err := migrateUp(ctx, config.DatabaseURL, log); err != nil {
		return nil, err
	}
	if s.store, err = store.Open(ctx, config); err != nil {
		return nil, err
	}
	s.api = api.New(s.store, api.Config{Logger: log, LoopbackOnly: loopback, Keys: keys, Version: strings.TrimPrefix(version(), "actlog ")})
	if c.APIKeys != "" {
		s.stopKeys = s.watchKeys(c.APIKeys)
	}
	s.http = &http.Server{
		Handler:           s.api,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { s.failed <- s.http.Serve(netutil.LimitListener(listener, c.MaxConnections)) }()
	return s, nil
}

func readKeys(path string) (*api.Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--api-keys: %w", err)
	}
	defer f.Close()
	keys, err := api.ReadKeys(f)
	if err != nil {
		return nil, fmt.Errorf("--api-keys %s: %w", path, err)
	}
	return keys, nil
}

// watchKeys reads the file of keys anew on SIGHUP. Keys that cannot be read change
// nothing: no one is locked out by a slip in an editor. The function it gives ends
// the watch.
func (s *server) watchKeys(path string) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
			}
			keys, err := readKeys(path)
			if err != nil {
				s.log.Error("the API keys were not read anew; those of before still count", "error", err)
				continue
			}
			s.api.SetKeys(keys)
			s.log.Info("the API keys were read anew", "keys", keys.Len())
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		watch.Wait()
	}
}

// wait serves until ctx ends, then drains: first it says so, for as long as
// balancers take to notice, then it ends.
func (s *server) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
		s.api.Drain()
		if s.drainDelay > 0 {
			timer := time.NewTimer(s.drainDelay)
			defer timer.Stop()
			select {
			case <-timer.C:
			case err := <-s.failed:
				return errors.Join(fmt.Errorf("serving: %w", err), s.close())
			}
		}
		return s.close()
	case err := <-s.failed:
		return errors.Join(fmt.Errorf("serving: %w", err), s.close())
	}
}

// close ends in-flight requests, lets the queue run empty, stops Postgres.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	var errs []error
	if s.stopKeys != nil {
		s.stopKeys()
	}
	if s.api != nil {
		s.api.Drain()
	}
	if s.http != nil {
		if err := s.http.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("ending requests: %w", err), s.http.Close())
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close(ctx))
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Close(ctx))
	}
	return errors.Join(errs...)
}

// checkListen holds that only this machine is listened to, unless someone said
// otherwise on purpose.
func checkListen(address string, meant bool) (loopback bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, usageError(fmt.Sprintf("--listen %s: must be HOST:PORT", address))
	}
	ip, err := netip.ParseAddr(host)
	loopback = host == "localhost" || err == nil && ip.Unmap().IsLoopback()
	if !loopback && !meant {
		return false, usageError(fmt.Sprintf("--listen %s can be reached by other machines, and there are no keys: name a file of them with --api-keys (actlog key makes them), or say --insecure if that is meant", address))
	}
	return loopback, nil
}
