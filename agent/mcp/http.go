package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// httpClient returns a client that sends the headers of a server, and what closes its connections.
func httpClient(s Server) (*http.Client, func()) {
	// Servers close connections that are idle, in Node after 5 s. A call that is sent just then is lost,
	// and nobody knows whether it arrived. So this side closes them first.
	base := &http.Transport{
		IdleConnTimeout: 4 * time.Second, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 64 << 10,
	}

	return &http.Client{
		Transport: withHeaders{base, s.Headers},
		// The headers may be secrets, which another host must not get.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server redirects; configure the url that it leads to")
		},
	}, base.CloseIdleConnections
}

type withHeaders struct {
	http.RoundTripper
	headers map[string]string
}

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.headers) > 0 {
		r = r.Clone(r.Context())
		for name, value := range h.headers {
			r.Header.Set(name, value)
		}
	}

	resp, err := h.RoundTripper.RoundTrip(r)
	if sent, ok := r.Context().Value(sentKey{}).(*atomic.Bool); ok && r.Method == http.MethodPost &&
		!notTaken(r, resp, err) {
		sent.Store(true)
	}
	if err != nil {
		return nil, err
	}

	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media {
	case "text/event-stream":
		resp.Body = &events{Closer: resp.Body, lines: bufio.NewReader(resp.Body)}
	case "application/json":
		resp.Body = &exactBody{body: &boundedBody{resp.Body, maxMessage}}
	default:
		resp.Body = &boundedBody{resp.Body, maxMessage}
	}
	return resp, nil
}

// sentKey is the key of a context for the *atomic.Bool that says whether a server may have got a call.
type sentKey struct{}

// notTaken reports whether a server cannot have got a request, or did not know its session.
func notTaken(r *http.Request, resp *http.Response, err error) bool {
	if err != nil {
		dial, ok := errors.AsType[*net.OpError](err)
		return ok && dial.Op == "dial"
	}
	return resp.StatusCode == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != ""
}

// boundedBody fails after a number of bytes.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("the answer is too long")
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// exactBody is a body that is one message, which it makes exact.
type exactBody struct {
	body    io.ReadCloser
	message *bytes.Reader
}

func (b *exactBody) Read(p []byte) (int, error) {
	if b.message == nil {
		message, err := io.ReadAll(b.body)
		if err != nil {
			return 0, err
		}
		b.message = bytes.NewReader(exact(message))
	}
	return b.message.Read(p)
}

func (b *exactBody) Close() error { return b.body.Close() }
