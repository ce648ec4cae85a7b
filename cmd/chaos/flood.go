//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shovels is the number of connections that send garbage.
	shovels = 64
	// shovelful is the number of garbage requests in one write.
	shovelful = 16
)

// garbage has invalid or pointless requests.
var garbage = []string{
	"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /api/executor/details/no-such-plan HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /api/v1/plans?limit=-1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /api/v1/plans?cursor=%00%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
	"BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"DELETE /api/v1/plans/no-such-plan HTTP/1.1\r\nHost: localhost\r\n\r\n",
	post("application/json", "", `{"records":[{"kind":"plan"`),
	post("application/json", "", `{"records":[{"kind":"pot"},{"kind":"plan"},7,null]}`),
	post("application/x-ndjson", "", "\xff\xfe\x00\n\n{}\n"),
	post("application/json", "gzip", "this is no gzip"),
}

// lastGarbage has requests after which the server closes the connection.
var lastGarbage = []string{
	post("application/json", "", strings.Repeat("[", 4000)),
	post("application/json", "zstd", "nor zstd"),
	post("text/plain", "", "hello"),
	"POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS it is not\r\n\r\n",
	"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 70<<10) + "\r\n\r\n",
}

func post(contentType, encoding, body string) string {
	head := fmt.Sprintf("POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n",
		contentType, len(body))
	if encoding != "" {
		head += "Content-Encoding: " + encoding + "\r\n"
	}
	return head + "\r\n" + body
}

// flood lets many slow clients and much garbage come in while good clients continue.
func (d *driver) flood(ctx context.Context) error {
	if err := d.underLoad(ctx); err != nil {
		return err
	}

	flood, dry := context.WithTimeout(ctx, d.config.lasts)
	defer dry()
	var wg sync.WaitGroup
	var open, sent, answered atomic.Int64
	for n := range d.config.connections {
		wg.Go(func() {
			pause(flood, time.Duration(n)*time.Millisecond) // not all at the same time
			for flood.Err() == nil {
				_ = d.dawdle(flood, n, &open) // the server decides when to close it
				pause(flood, 100*time.Millisecond)
			}
		})
	}

	for n := range shovels {
		r := rand.New(rand.NewPCG(d.config.seed, uint64(n)))
		wg.Go(func() {
			for next := time.Now(); flood.Err() == nil; {
				_ = d.shovel(flood, r, &next, &sent, &answered)
				pause(flood, 10*time.Millisecond)
			}
		})
	}

	most := int64(0)
	wg.Go(func() {
		for flood.Err() == nil {
			most = max(most, open.Load())
			pause(flood, 50*time.Millisecond)
		}
	})

	stopProbing := d.probing(ctx)
	ready := &answers{counts: map[string]int{}}
	for flood.Err() == nil {
		sentAt := time.Now()
		status, retryAfter, err := d.ask(ctx, http.MethodGet, "/readyz", "")
		ready.add(status, retryAfter, err, time.Since(sentAt))
		pause(flood, 200*time.Millisecond)
	}

	writes := stopProbing()
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.say("     flooded for %s: up to %d slow connections, %.0f garbage requests per second, %d answers to them",
		d.config.lasts, most, float64(sent.Load())/d.config.lasts.Seconds(), answered.Load())

	for _, good := range []struct {
		what string
		a    *answers
	}{{"/readyz", ready}, {"writes", writes}} {
		d.say("     %s: answered %v, the slowest after %.2fs", good.what, good.a.counts, good.a.longest.Seconds())
		for answer := range good.a.counts {
			if answer != "200" {
				d.violated("in the flood, %s was answered %s", good.what, answer)
			}
		}
		if good.a.longest > d.config.within {
			d.violated("in the flood, %s took %s", good.what, good.a.longest)
		}
	}

	if d.server.starts > 1 {
		d.violated("the server did not survive the flood")
	}
	return nil
}

// dawdle is one slow client. Its number decides how it is slow. It returns when the server closes the
// connection.
func (d *driver) dawdle(ctx context.Context, n int, open *atomic.Int64) error {
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	open.Add(1)
	defer open.Add(-1)

	start, drop := "GET /livez HTTP/1.1\r\n", "X-A: a\r\n" // a request header that never ends
	switch n % 4 {
	case 1: // a body that never ends
		start, drop = "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 1000000\r\n\r\n{", " "
	case 2: // sends requests and does not read
		start, drop = "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"
	case 3: // sends nothing
		start, drop = "", ""
	}

	if n%4 != 2 {
		go func() { // notices when the server closes the connection
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
	}
	if _, err := conn.Write([]byte(start)); err != nil {
		return err
	}

	for pause(ctx, time.Second); ctx.Err() == nil; pause(ctx, time.Second) {
		if err := conn.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte(drop)); err != nil {
			return err
		}
	}
	return nil
}

// shovel sends garbage over a connection until the server closes it. The first write is at next.
func (d *driver) shovel(ctx context.Context, r *rand.Rand, next *time.Time, sent, answered *atomic.Int64) error {
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	var read sync.WaitGroup
	read.Go(func() {
		defer func() { _ = conn.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buf)
			answered.Add(int64(bytes.Count(buf[:n], []byte("HTTP/1.1 "))))
			if err != nil {
				return
			}
		}
	})
	defer read.Wait()

	every := time.Second * shovels * shovelful / time.Duration(d.config.garbage)
	for ; ctx.Err() == nil; *next = next.Add(every) {
		pause(ctx, time.Until(*next))
		var load []byte
		for n := range shovelful {
			kinds := garbage
			if n == shovelful-1 && r.IntN(2) == 0 {
				kinds = lastGarbage
			}
			load = append(load, kinds[r.IntN(len(kinds))]...)
		}

		if _, err := conn.Write(load); err != nil {
			return err
		}
		sent.Add(shovelful)
	}
	return nil
}

func (d *driver) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", d.server.listen)
}
