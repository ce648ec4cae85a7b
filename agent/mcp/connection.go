package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

var errClosed = errors.New("the pool is closed")

// connection is the place of a server in a pool. It has a session while one is needed.
type connection struct {
	server Server
	log    *slog.Logger
	idle   time.Duration
	ctx    context.Context // ends connecting when the pool is closed
	cancel context.CancelFunc

	connecting chan struct{} // holds a token while somebody connects
	mu         sync.Mutex
	session    *session
	users      int
	timer      *time.Timer // runs while there are no users
	closed     bool
	closing    sync.WaitGroup
}

func newConnection(name string, s Server, log *slog.Logger, idle time.Duration) *connection {
	ctx, cancel := context.WithCancel(context.Background())
	return &connection{
		server: s, log: log.With("server", name), idle: idle, ctx: ctx, cancel: cancel, connecting: make(chan struct{}, 1),
	}
}

// use returns a session that is alive, after connecting if there is none. The caller calls release
// when it no longer needs it.
func (c *connection) use(ctx context.Context) (s *session, release func(), err error) {
	c.mu.Lock()
	c.users++
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()

	release = sync.OnceFunc(c.release)
	defer func(release func()) {
		if err != nil {
			release()
		}
	}(release)

	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}

	c.mu.Lock()
	s, closed := c.session, c.closed
	c.mu.Unlock()
	if closed {
		return nil, nil, errClosed
	}
	if s != nil && s.alive() {
		return s, release, nil
	}

	limit, cancel := context.WithTimeout(ctx, c.server.RegisterTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	if s, err = connect(limit, c.server, c.log); err != nil {
		if c.ctx.Err() != nil {
			err = errClosed
		}
		return nil, nil, err
	}

	c.mu.Lock()
	closed = c.closed
	if !closed {
		c.session = s
	}
	c.mu.Unlock()

	if closed {
		s.close()
		return nil, nil, errClosed
	}
	return s, release, nil
}

func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 || c.closed {
		return
	}
	c.timer = time.AfterFunc(c.idle, c.disconnect)
}

// disconnect closes the session if nobody uses it.
func (c *connection) disconnect() {
	c.mu.Lock()
	s := c.session
	if c.users > 0 || s == nil || c.closed {
		c.mu.Unlock()
		return
	}

	c.session = nil
	c.closing.Add(1)
	c.mu.Unlock()
	defer c.closing.Done()
	s.close()
}

// drop gives up a session that is of no use any more.
func (c *connection) drop(s *session) {
	c.mu.Lock()
	if c.session == s {
		c.session = nil
	}
	c.mu.Unlock()
	s.close()
}

func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()

	c.cancel()
	c.connecting <- struct{}{} // nobody connects any more
	<-c.connecting

	c.mu.Lock()
	s := c.session
	c.session = nil
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	c.closing.Wait()
}
