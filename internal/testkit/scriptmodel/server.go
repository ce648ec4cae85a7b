package scriptmodel

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server serves a script on a free port of 127.0.0.1 until it is closed.
type Server struct {
	*Handler
	url    string
	server *http.Server
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Start serves script. opts may be nil.
func Start(script Script, opts *Options) (*Server, error) {
	handler, err := NewHandler(script, opts)
	if err != nil {
		return nil, err
	}

	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("scripted model: %w", err)
	}

	around := func(script http.Handler) http.Handler { return script }
	if opts != nil && opts.Around != nil {
		around = opts.Around
	}

	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		Handler: handler,
		url:     "http://" + listener.Addr().String() + "/v1",
		cancel:  cancel,
	}

	s.server = &http.Server{
		Handler:           around(handler),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.wg.Go(func() { _ = s.server.Serve(listener) }) // until Close
	return s, nil
}

// URL returns the base URL for an OpenAI client. It ends in /v1, which an Anthropic client adds itself.
func (s *Server) URL() string { return s.url }

// Close aborts the current requests and stops the server.
func (s *Server) Close() error {
	s.cancel()
	err := s.server.Close()
	s.wg.Wait()
	return err
}
