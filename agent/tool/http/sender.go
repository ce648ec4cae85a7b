package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

type sender struct {
	rules    *rules
	client   *http.Client
	timeout  time.Duration
	maxBytes int
	hide     *strings.Replacer // the values of secret headers
}

func newSender(o Options) (*sender, error) {
	r, err := o.rules()
	if err != nil {
		return nil, err
	}

	c := &sender{rules: r, client: newClient(o), timeout: o.Timeout, maxBytes: o.MaxBytes, hide: secrets(o.Headers)}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.maxBytes == 0 {
		c.maxBytes = DefaultMaxBytes
	}
	return c, nil
}

// secrets returns what replaces the values of headers in texts, and the credentials in them.
func secrets(headers map[string]map[string]string) *strings.Replacer {
	const shortest = 6 // what is shorter would be found anywhere
	var pairs []string
	for _, values := range headers {
		for _, value := range values {
			for _, secret := range append([]string{value}, strings.Fields(value)...) {
				if len(secret) >= shortest && !strings.EqualFold(secret, "Bearer") {
					pairs = append(pairs, secret, "[secret]")
				}
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// do sends a request. The error is a *lostError if the server may have it, unless the context has ended.
func (c *sender) do(ctx context.Context, p *prepared) (*answer, error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	r, err := http.NewRequestWithContext(traced, p.method, p.url.String(), strings.NewReader(p.body))
	if err != nil {
		return nil, errors.New("url: it cannot be sent")
	}
	p.set(r.Header)

	response, err := c.client.Do(r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && connected.Load():
		return nil, &lostError{withoutURL(err)}
	case err != nil:
		return nil, unreachable(p.url.Host, err)
	}
	defer response.Body.Close()

	a := &answer{status: response.StatusCode, header: response.Header}
	a.body, a.broken = io.ReadAll(io.LimitReader(response.Body, int64(c.maxBytes)+1))
	if len(a.body) > c.maxBytes {
		a.body, a.more = a.body[:c.maxBytes], true
	}
	return a, nil
}
