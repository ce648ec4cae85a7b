package pgtest

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Address is one address that leads to one of several servers, such as that of a service or a virtual IP.
type Address struct {
	// URL is that of the database at the address.
	URL string

	listener net.Listener
	mu       sync.Mutex
	passes   *sync.Cond
	leads    string // the socket of a server
	frozen   string
	conns    []net.Conn
	all      sync.WaitGroup
}

// NewAddress returns an address that leads to the server of a URL, which names its socket.
func NewAddress(t testing.TB, to string) *Address {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = l.Addr().String(), "sslmode=disable"

	a := &Address{URL: u.String(), listener: l}
	a.passes = sync.NewCond(&a.mu)
	a.Lead(t, to)
	a.all.Go(a.accept)

	t.Cleanup(func() {
		err := l.Close()
		a.mu.Lock()
		for _, c := range a.conns {
			_ = c.Close() // maybe once more
		}
		a.mu.Unlock()

		a.Freeze(t, "")
		if a.all.Wait(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Lead makes new connections lead to the server of a URL. The others stay where they are.
func (a *Address) Lead(t testing.TB, to string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leads = socketOf(t, to)
}

// Freeze makes all connections to the server of a URL stall; empty: they go on.
func (a *Address) Freeze(t testing.TB, server string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen = ""
	if server != "" {
		a.frozen = socketOf(t, server)
	}
	a.passes.Broadcast()
}

func socketOf(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	return filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port"))
}

func (a *Address) accept() {
	for {
		from, err := a.listener.Accept()
		if err != nil {
			return
		}

		a.mu.Lock()
		leads := a.leads
		a.mu.Unlock()

		to, err := new(net.Dialer).DialContext(context.Background(), "unix", leads)
		if err != nil {
			_ = from.Close() // as of a server that is away
			continue
		}

		a.mu.Lock()
		a.conns = append(a.conns, from, to)
		a.mu.Unlock()
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			a.all.Go(func() { a.forward(way[0], way[1], leads) })
		}
	}
}

// forward copies what is sent to or from a server, unless that is frozen.
func (a *Address) forward(from, to net.Conn, server string) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		a.mu.Lock()
		for a.frozen == server {
			a.passes.Wait()
		}
		a.mu.Unlock()

		if n > 0 && err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}
