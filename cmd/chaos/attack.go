//go:build linux

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// attack is one way to take much of a server with little effort.
type attack struct {
	name string
	what string
	// clients is how many there are at scale 1.
	clients int
	// once attacks once and returns when the server has answered or cut the connection.
	once func(ctx context.Context, t target, n int) (result, error)
	// held reports that some of the clients must be refused or cut off.
	held bool
}

// target is what is attacked.
type target struct {
	api, grpc string // HOST:PORT
	key       string // empty: none
	tree      string // a plan with a large tree
	step      string // a step with large texts
	packed    []byte // a slow body, of gzip
	message   int    // bytes of an unfinished message
	calls     []*http.Transport
	http      *http.Client
}

// result is how the server answered a client.
type result struct {
	status string // of HTTP, or of gRPC; "cut" without an answer, or with half of one
	again  bool   // it says when to try again
}

var attacks = []attack{
	{"a", "slow readers of a tree", 24, readSlowly, true},
	{"b", "searches without a hit", 60, search, false},
	{"b-220", "searches without a hit", 220, search, false},
	{"c", "slow bodies of gzip", 120, sendSlowly, true},
	{"d", "reads of a step of large texts", 12, readStep, false},
	{"e", "unfinished messages of gRPC", 64, callSlowly, true},
}

func attackNames() (names []string) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

// outcome counts the results of an attack.
type outcome struct {
	mu      sync.Mutex
	counts  map[string]int
	without int // refused without a time to try again
}

func (o *outcome) add(r result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[r.status]++
	if (r.status == "429" || r.status == "503" || r.status == "grpc 8" || r.status == "grpc 14") && !r.again {
		o.without++
	}
}

// refused counts those who were refused or cut off.
func (o *outcome) refused() (n int) {
	for status, count := range o.counts {
		if status != "200" && status != "grpc 0" {
			n += count
		}
	}
	return n
}

// run attacks with all clients, each again and again, until ctx ends.
func (a attack) run(ctx context.Context, t target, clients int, o *outcome) {
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := a.once(ctx, t, n)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					r = result{status: "cut"}
				}
				o.add(r)
				pause(ctx, 200*time.Millisecond)
			}
		})
	}
	all.Wait()
}

// dialTo connects until ctx ends.
func dialTo(ctx context.Context, address string) (net.Conn, func(), error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, func() { stop(); _ = conn.Close() }, nil
}

// head is the head of a request, without the empty line at its end.
func (t target) head(method, path string) string {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	if t.key != "" {
		head += "Authorization: Bearer " + t.key + "\r\n"
	}
	return head
}

// readSlowly reads a tree with a few KiB per second.
func readSlowly(ctx context.Context, t target, _ int) (result, error) {
	conn, done, err := dialTo(ctx, t.api)
	if err != nil {
		return result{}, err
	}
	defer done()

	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(4 << 10); err != nil {
			return result{}, err
		}
	}

	if _, err := io.WriteString(conn, t.head(http.MethodGet, "/api/executor/details/"+t.tree)+"\r\n"); err != nil {
		return result{}, err
	}
	return readAnswer(ctx, bufio.NewReaderSize(conn, 1<<10), true)
}

// readAnswer reads an answer whole, slowly if it is a good one.
func readAnswer(ctx context.Context, from *bufio.Reader, slowly bool) (result, error) {
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		return result{}, err
	}
	defer resp.Body.Close()

	r := result{strconv.Itoa(resp.StatusCode), resp.Header.Get("Retry-After") != ""}
	for err == nil {
		if slowly && resp.StatusCode == http.StatusOK {
			pause(ctx, 100*time.Millisecond)
		}
		_, err = io.CopyN(io.Discard, resp.Body, 1<<10)
	}

	if errors.Is(err, io.EOF) {
		err = nil
	}
	return r, err
}

// get reads an answer as fast as it comes.
func (t target) get(ctx context.Context, path string) (result, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.api+path, nil)
	if err != nil {
		return result{}, err
	}
	if t.key != "" {
		r.Header.Set("Authorization", "Bearer "+t.key)
	}
	r.Header.Set("Accept-Encoding", "gzip") // by hand: it is not unpacked then

	resp, err := t.http.Do(r)
	if err != nil {
		return result{}, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return result{strconv.Itoa(resp.StatusCode), resp.Header.Get("Retry-After") != ""}, err
}

func search(ctx context.Context, t target, n int) (result, error) {
	return t.get(ctx, fmt.Sprintf("/api/v1/plans?q=nothing-has-this-%d", n))
}

func readStep(ctx context.Context, t target, _ int) (result, error) {
	return t.get(ctx, "/api/executor/agent-execution/"+t.step)
}

// packedBlanks is the gzip of n blanks, but for its end.
func packedBlanks(n int) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, strings.Repeat(" ", n))
	err = errors.Join(err, w.Flush())
	return packed.Bytes(), err
}

// sendSlowly sends a small body that unpacks to a large one, but for its end.
func sendSlowly(ctx context.Context, t target, _ int) (result, error) {
	conn, done, err := dialTo(ctx, t.api)
	if err != nil {
		return result{}, err
	}
	defer done()

	head := t.head(http.MethodPost, "/api/v1/records") +
		"Content-Type: application/x-ndjson\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := fmt.Fprintf(conn, "%s%x\r\n%s\r\n", head, len(t.packed), t.packed); err != nil {
		return result{}, err
	}
	return readAnswer(ctx, bufio.NewReader(conn), false)
}

// callSlowly sends a large message over gRPC, but for its end.
func callSlowly(ctx context.Context, t target, n int) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	size := t.message
	start := []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}
	body := io.MultiReader(bytes.NewReader(start), io.LimitReader(zeros{}, int64(size-1)), stalled{ctx.Done()})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+t.grpc+"/opentelemetry.proto.collector.trace.v1.TraceService/Export", body)
	if err != nil {
		return result{}, err
	}

	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	if t.key != "" {
		r.Header.Set("Authorization", "Bearer "+t.key)
	}

	resp, err := t.calls[n%len(t.calls)].RoundTrip(r)
	if err != nil {
		return result{}, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)

	from := resp.Header
	if from.Get("Grpc-Status") == "" {
		from = resp.Trailer
	}
	return result{"grpc " + from.Get("Grpc-Status"), from.Get("Grpc-Status-Details-Bin") != ""}, err
}

// callConnections returns connections for calls of gRPC.
func callConnections(n int) (all []*http.Transport) {
	for range n {
		one := &http.Transport{Protocols: new(http.Protocols)}
		one.Protocols.SetUnencryptedHTTP2(true)
		all = append(all, one)
	}
	return all
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// stalled has nothing to read until it is done.
type stalled struct{ done <-chan struct{} }

func (s stalled) Read([]byte) (int, error) {
	<-s.done
	return 0, io.ErrUnexpectedEOF
}
