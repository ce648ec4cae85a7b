//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// traffic is how a proxy treats the traffic.
type traffic string

const (
	trafficPasses   traffic = "passes"
	trafficStalls   traffic = "stalls"
	trafficIsReset  traffic = "is reset"
	trafficTrickles traffic = "trickles"
	// Requests arrive completely, but answers are cut off: the client cannot know what is on record.
	trafficCut traffic = "loses answers"
)

// proxy is a network on loopback: between the clients and the server, or between two nodes of a pair.
type proxy struct {
	listener *net.TCPListener
	target   string
	running  sync.WaitGroup
	done     chan struct{}

	mu      sync.Mutex
	traffic traffic
	changed chan struct{} // closed when traffic changes
	conns   map[*net.TCPConn]bool
}

// anyPort is an address at which a proxy may listen.
const anyPort = "127.0.0.1:0"

func newProxy(listen, target string) (*proxy, error) {
	address, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("open the proxy: %w", err)
	}
	l, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open the proxy: %w", err)
	}

	p := &proxy{
		listener: l, target: target, done: make(chan struct{}),
		traffic: trafficPasses, changed: make(chan struct{}), conns: map[*net.TCPConn]bool{},
	}
	p.running.Go(p.accept)
	return p, nil
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

// set changes how the traffic is treated, also on open connections.
func (p *proxy) set(t traffic) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.traffic = t
	close(p.changed)
	p.changed = make(chan struct{})
	if t == trafficIsReset {
		for c := range p.conns {
			reset(c)
		}
	}
}

func (p *proxy) now() (traffic, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.traffic, p.changed
}

// close stops the proxy and closes all its connections.
func (p *proxy) close() {
	close(p.done)
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		reset(c)
	}
	p.mu.Unlock()
	p.running.Wait()
}

// reset closes a connection so that the other side sees it break.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// own registers a connection for close and set. It reports false if the connection must be closed.
func (p *proxy) own(c *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
	}

	p.conns[c] = true
	return p.traffic != trafficIsReset
}

func (p *proxy) serve(client *net.TCPConn) {
	defer p.drop(client)
	if !p.own(client) {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	cancel()
	if err != nil {
		return // the server is down
	}

	server := conn.(*net.TCPConn)
	defer p.drop(server)
	if !p.own(server) {
		return
	}

	var both sync.WaitGroup
	both.Go(func() { p.carry(client, server, false) })
	both.Go(func() { p.carry(server, client, true) })
	both.Wait()
}

func (p *proxy) drop(c *net.TCPConn) {
	reset(c)
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// carry copies bytes from one side to the other until one side closes the connection.
func (p *proxy) carry(from, to *net.TCPConn, answers bool) {
	defer reset(to)
	defer reset(from)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			p.await() // what stalls does not say that a side has left
			return
		}
		if !p.forward(to, buf[:n], answers) {
			return
		}
	}
}

// await waits while the traffic stalls. It reports false if the proxy has stopped.
func (p *proxy) await() bool {
	for {
		now, changed := p.now()
		if now != trafficStalls {
			return true
		}
		select {
		case <-changed:
		case <-p.done:
			return false
		}
	}
}

// forward writes data as the traffic mode says. It reports false if the connection must be closed.
func (p *proxy) forward(to *net.TCPConn, data []byte, answers bool) bool {
	for len(data) > 0 {
		if !p.await() {
			return false
		}

		now, _ := p.now()
		piece := len(data)
		switch {
		case now == trafficTrickles:
			piece = min(piece, 1+rand.IntN(40))
			select {
			case <-time.After(2 * time.Millisecond):
			case <-p.done:
				return false
			}
		case now == trafficCut && answers:
			_, _ = to.Write(data[:rand.IntN(len(data))])
			return false
		}

		if _, err := to.Write(data[:piece]); err != nil {
			return false
		}
		data = data[piece:]
	}

	return true
}
