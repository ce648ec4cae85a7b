package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Time-outs of connections. To read a body of 64 MiB may take a while; a client that sends
// nothing may not.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 2 * time.Minute
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Limits of a connection for gRPC.
const (
	idleCallsTimeout = 15 * time.Minute
	maxCalls         = 32        // at once
	receiveWindow    = 256 << 10 // bytes that nobody has read yet
)

// Listener is an address that a server listens on, and what it serves there.
type Listener struct {
	net.Listener
	// Loopback reports that no other machine can reach it.
	Loopback bool
	// Proxies may have more than half of the connections: those of all their clients.
	Proxies Proxies

	connections atomic.Pointer[connections] // nil: nothing is served yet

	shutdown func(context.Context) error // lets requests end; nil: nothing is served yet

	handler atomic.Pointer[http.Handler]
}

// Listen listens on an address. The caller closes the listener.
func Listen(ctx context.Context, address string, loopback bool) (*Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &Listener{Listener: l, Loopback: loopback}, nil
}

// URL is the listener's address, as a client names it.
func (l *Listener) URL() string { return "http://" + l.Addr().String() }

// ServeHTTP serves HTTP over at most maxConnections connections until the listener is closed. For
// another one, one without a request is closed; if all serve requests, it waits. One address has at
// most half of them. The error goes to failed.
func (l *Listener) ServeHTTP(h http.Handler, maxConnections int, log *slog.Logger, failed chan<- error) {
	l.Handle(h)
	l.serve(l.newServer(log), maxConnections, failed)
}

// Handle makes another handler answer from now on. Requests that are being served are not disturbed.
func (l *Listener) Handle(h http.Handler) { l.handler.Store(&h) }

// ServeGRPC is ServeHTTP for gRPC, which is HTTP/2 without TLS.
func (l *Listener) ServeGRPC(h http.Handler, maxConnections int, log *slog.Logger, failed chan<- error) {
	l.Handle(h)
	server := l.newServer(log)
	server.IdleTimeout = idleCallsTimeout
	server.Protocols = new(http.Protocols)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          maxCalls,
		MaxReceiveBufferPerConnection: receiveWindow,
		MaxReceiveBufferPerStream:     receiveWindow,
	}

	l.serve(server, maxConnections, failed)
}

func (l *Listener) newServer(log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			(*l.handler.Load()).ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func (l *Listener) serve(server *http.Server, maxConnections int, failed chan<- error) {
	limited := newConnections(l.Listener, maxConnections, l.Proxies)
	l.connections.Store(limited)
	server.ConnState, server.ConnContext = limited.changed, withConnection
	go func() { failed <- server.Serve(limited) }()

	l.shutdown = func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(fmt.Errorf("end requests: %w", err), server.Close())
		}
		return nil
	}
}

// Close closes all listeners at once, and waits until their requests have ended, or ctx has.
func Close(ctx context.Context, listeners []*Listener) error {
	errs := make(chan error, len(listeners))
	for _, l := range listeners {
		if l.shutdown == nil {
			errs <- l.Listener.Close()
			continue
		}
		go func() { errs <- l.shutdown(ctx) }()
	}

	var all error
	for range listeners {
		all = errors.Join(all, <-errs)
	}
	return all
}

// ConnectionMetrics returns the metrics of the connections of listeners.
func ConnectionMetrics(listeners []*Listener) []prometheus.Collector {
	sum := func(of func(l *connections) int64) func() float64 {
		return func() (n float64) {
			for _, l := range listeners {
				if c := l.connections.Load(); c != nil {
					c.open.Lock()
					n += float64(of(c))
					c.open.Unlock()
				}
			}
			return n
		}
	}

	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_connections", Help: "Connections of clients that are open.",
		}, sum(func(l *connections) int64 { return l.open.used() })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_http_connections_refused_total",
			Help: "Connections that were refused because their address had its share.",
		}, sum(func(l *connections) int64 { return l.open.limits[ofClient].refused })),
	}

	for does, name := range [unspared]string{silent: "silent", resting: "resting", unknown: "unknown"} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_http_connections_closed_total",
			Help: "Connections that were closed to make room for others: without a key and a request, without a " +
				"request, without a key.",
			ConstLabels: prometheus.Labels{"were": name},
		}, sum(func(l *connections) int64 { return l.ended[does] })))
	}
	return all
}
