package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"

	"github.com/actlog/actlog/internal/api"
)

// Timeouts of connections. A client may take a while to send a body of 64 MiB, but not to send
// the header.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 2 * time.Minute
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// The flags for addresses to listen on.
const (
	listenFlag     = "--listen"
	otlpListenFlag = "--otlp-listen"
	otlpGRPCFlag   = "--otlp-grpc-listen"
)

// defaultOTLPListen is where exporters send by default.
const defaultOTLPListen = "127.0.0.1:4318"

// door is an address that the server listens on, and what it serves there.
type door struct {
	flag     string
	loopback bool // no other machine can reach it
	listener net.Listener
	serve    func() error
	shutdown func(context.Context) error // waits for running requests; nil: nothing is served yet
}

// open listens on all addresses, on the one of the API first.
func (c *serveCmd) open(ctx context.Context, log *slog.Logger) (doors []*door, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeDoors(ctx, doors))
		}
	}()
	add := func(flag, address string) error {
		loopback, err := checkListen(flag, address, c.Insecure || c.APIKeys != "")
		if err != nil {
			return err
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", address, err)
		}
		doors = append(doors, &door{flag: flag, loopback: loopback, listener: listener})
		return nil
	}
	if err := add(listenFlag, c.Listen); err != nil {
		return doors, err
	}
	switch c.OTLPListen {
	case "off":
	case "":
		err := add(otlpListenFlag, defaultOTLPListen)
		if errors.Is(err, syscall.EADDRINUSE) {
			log.Warn("the default address for OTLP is in use; exporters can send to the address of this server, or to another that you set with --otlp-listen", "usual", defaultOTLPListen, "own", doors[0].url())
		} else if err != nil {
			return doors, err
		}
	default:
		if err := add(otlpListenFlag, c.OTLPListen); err != nil {
			return doors, err
		}
	}
	if c.OTLPGRPCListen != "" {
		return doors, add(otlpGRPCFlag, c.OTLPGRPCListen)
	}
	return doors, nil
}

func (d *door) url() string { return "http://" + d.listener.Addr().String() }

// prepare creates the server of a door.
func (d *door) prepare(a *api.Server, maxConnections int, log *slog.Logger) {
	listener := netutil.LimitListener(d.listener, maxConnections)
	if d.flag == otlpGRPCFlag {
		g := a.GRPC()
		d.serve = func() error { return g.Serve(listener) }
		d.shutdown = func(ctx context.Context) error { return stopGRPC(ctx, g) }
		return
	}
	server := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if d.flag == otlpListenFlag {
		server.Handler = a.OTLP(d.loopback)
	}
	d.serve = func() error { return server.Serve(listener) }
	d.shutdown = func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(fmt.Errorf("wait for requests: %w", err), server.Close())
		}
		return nil
	}
}

// stopGRPC waits for calls to end. When ctx ends, it cancels them.
func stopGRPC(ctx context.Context, g *grpc.Server) error {
	done := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		g.Stop()
		<-done
		return fmt.Errorf("wait for calls: %w", ctx.Err())
	}
}

// closeDoors closes all doors at the same time, and waits for their requests to end.
func closeDoors(ctx context.Context, doors []*door) error {
	errs := make(chan error, len(doors))
	for _, d := range doors {
		if d.shutdown == nil {
			errs <- d.listener.Close()
			continue
		}
		go func() { errs <- d.shutdown(ctx) }()
	}
	var all error
	for range doors {
		all = errors.Join(all, <-errs)
	}
	return all
}

// checkListen refuses addresses that other machines can reach, unless they are allowed. It
// reports whether the address is a loopback one.
func checkListen(flag, address string, meant bool) (loopback bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, usageError(fmt.Sprintf("%s %s: must be HOST:PORT", flag, address))
	}
	ip, err := netip.ParseAddr(host)
	loopback = host == "localhost" || err == nil && ip.Unmap().IsLoopback()
	if !loopback && !meant {
		return false, usageError(fmt.Sprintf("%s %s can be reached by other machines, and there are no API keys: pass a file of keys with --api-keys (actlog key creates them), or --insecure to serve without", flag, address))
	}
	return loopback, nil
}
