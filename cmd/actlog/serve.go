package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

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
	Listen   string `help:"Address to listen on." default:"127.0.0.1:8420" placeholder:"HOST:PORT"`
	Insecure bool   `help:"Listen on an address that other machines reach, without any keys."`
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
	url      string
	log      *slog.Logger
	postgres *embedpg.Server // nil where the database is configured
	store    *store.Store
	http     *http.Server
	failed   chan error
}

// startServer migrates and serves. The caller waits, or closes.
func startServer(ctx context.Context, c *serveCmd, log *slog.Logger) (_ *server, err error) {
	loopback, err := checkListen(c.Listen, c.Insecure)
	if err != nil {
		return nil, err
	}
	// Listening first: a port that is taken should not cost the start of a database.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	s := &server{url: "http://" + listener.Addr().String(), log: log, failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			_ = listener.Close()
			err = errors.Join(err, s.close())
		}
	}()
	url, err := s.openDatabase(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := migrateUp(ctx, url, log); err != nil {
		return nil, err
	}
	if s.store, err = store.Open(ctx, store.Config{DatabaseURL: url, Logger: log}); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           api.New(s.store, api.Config{Logger: log, LoopbackOnly: loopback}),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { s.failed <- s.http.Serve(listener) }()
	return s, nil
}

// openDatabase gives the configured database, or starts the private one.
func (s *server) openDatabase(ctx context.Context, c *serveCmd) (url string, err error) {
	if c.DatabaseURL != "" {
		return c.DatabaseURL, nil
	}
	s.postgres, err = embedpg.Start(ctx, embedpg.Config{Dir: filepath.Join(c.DataDir, "postgres"), Logger: s.log})
	if err != nil {
		return "", err
	}
	return s.postgres.URL(), nil
}

// wait serves until ctx ends, then drains.
func (s *server) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
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
func checkListen(address string, insecure bool) (loopback bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, usageError(fmt.Sprintf("--listen %s: must be HOST:PORT", address))
	}
	ip, err := netip.ParseAddr(host)
	loopback = host == "localhost" || err == nil && ip.Unmap().IsLoopback()
	if !loopback && !insecure {
		return false, usageError(fmt.Sprintf("--listen %s can be reached by other machines, and there are no keys: say --insecure if that is meant", address))
	}
	return loopback, nil
}
