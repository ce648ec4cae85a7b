package httpd

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// connections is a listener with a bounded number of connections, of which one address has at most half. When there is
// no room for another one, a connection that can be spared is closed: so whoever holds connections open without a
// request, or without a key, keeps nobody out.
type connections struct {
	net.Listener
	proxies Proxies // their clients share no address

	closed chan struct{} // with the listener
	close  sync.Once
	freed  chan struct{} // holds a token when there may be room

	open  *quota              // by network; its lock guards what follows, too
	spare [unspared]list.List // of *connection; those that have been so for the longest time come first
	ended [unspared]int64     // how many were closed to make room
}

// What a connection does, in the order in which they are closed to make room.
const (
	silent   = iota // it waits for a request, and none of its requests brought a key
	resting         // it waits for a request
	unknown         // its request has not brought a key yet
	unspared        // it serves a request, and is not closed
)

type connection struct {
	net.Conn
	listener *connections
	client   Client // its name is the network; empty: a proxy's

	// Guarded by the listener.
	state    http.ConnState
	admitted bool // a request of it was admitted
	gone     bool
	does     int
	element  *list.Element // in the list of those that do the same; nil: in none
}

func newConnections(l net.Listener, most int, proxies Proxies) *connections {
	return &connections{
		Listener: l, proxies: proxies, closed: make(chan struct{}), freed: make(chan struct{}, 1),
		open: newQuota(int64(most), int64(half(most)), nil, nil),
	}
}

// Accept implements [net.Listener]. It waits while all connections serve requests.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) { // the server tries again soon
			l.makeRoom()
		}
		if err != nil {
			return nil, err
		}

		c := &connection{Conn: conn, listener: l}
		if a := addressOf(conn.RemoteAddr().String()); !l.proxies.has(a) {
			c.client.Name = networkOf(a)
		}
		if l.admit(c) {
			return c, nil
		}
		_ = conn.Close()
	}
}

func (l *connections) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// admit counts a new connection, once there is room for it. It reports whether its address may have another one.
func (l *connections) admit(c *connection) bool {
	for {
		l.open.Lock()
		over := l.open.over(c.client, 1)
		crowded := over == &l.open.limits[ofClient]
		var spared *connection
		switch {
		case crowded:
			spared = l.spareOf(c.client.Name)
		case over != nil:
			spared = l.spareOf("")
		}

		if over == nil || spared != nil {
			l.open.add(c.client, 1)
			c.is(http.StateNew)
			l.open.Unlock()
			if spared != nil {
				_ = spared.Conn.Close()
			}
			return true
		}
		if crowded {
			over.refused++
		}
		l.open.Unlock()
		if crowded {
			return false
		}

		select {
		case <-l.freed:
		case <-l.closed:
			return false
		}
	}
}

// makeRoom closes a connection that can be spared, if there is one.
func (l *connections) makeRoom() {
	l.open.Lock()
	spared := l.spareOf("")
	l.open.Unlock()
	if spared != nil {
		_ = spared.Conn.Close()
	}
}

// spareOf forgets the connection that can be spared first, of a network or, if that is empty, of all. It is nil if
// there is none. The caller closes it. The listener is locked.
func (l *connections) spareOf(network string) *connection {
	for does := range l.spare {
		for e := l.spare[does].Front(); e != nil; e = e.Next() {
			if c, _ := e.Value.(*connection); network == "" || c.client.Name == network {
				l.ended[does]++
				c.forget()
				return c
			}
		}
	}
	return nil
}

// changed notes what a connection does now. It is for [http.Server.ConnState].
func (l *connections) changed(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*connection)
	if !ok || state == http.StateClosed {
		return // [connection.Close] has noted it
	}

	l.open.Lock()
	c.is(state)
	l.open.Unlock()
	l.signal()
}

// signal wakes who waits for room.
func (l *connections) signal() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// is notes what a connection does now. The listener is locked.
func (c *connection) is(state http.ConnState) {
	if c.gone {
		return
	}

	c.state = state
	idle := state == http.StateNew || state == http.StateIdle
	does := unspared
	switch {
	case idle && c.admitted:
		does = resting
	case idle:
		does = silent
	case state == http.StateActive && !c.admitted:
		does = unknown
	}

	if c.element != nil && does == c.does {
		return
	}

	c.unlist()
	if c.does = does; does != unspared {
		c.element = c.listener.spare[does].PushBack(c)
	}
}

// unlist takes a connection off its list. The listener is locked.
func (c *connection) unlist() {
	if c.element != nil {
		c.listener.spare[c.does].Remove(c.element)
		c.element = nil
	}
}

// forget no longer counts a connection. The listener is locked.
func (c *connection) forget() {
	if c.gone {
		return
	}
	c.gone = true
	c.unlist()
	c.listener.open.add(c.client, -1)
}

func (c *connection) Close() error {
	c.listener.open.Lock()
	c.forget()
	c.listener.open.Unlock()
	c.listener.signal()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is for [http.Server.ConnContext].
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// holdConnection notes that a request was admitted: its connection is not closed for the sake of others while it serves
// requests.
func holdConnection(ctx context.Context) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}

	c.listener.open.Lock()
	defer c.listener.open.Unlock()
	if !c.admitted {
		c.admitted = true
		c.is(c.state)
	}
}
