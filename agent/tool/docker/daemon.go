package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

type daemon struct {
	Options
	client *http.Client
}

// Bounds of answers, in bytes.
const (
	maxAnswer = 8 << 20
	maxLogs   = 16 << 20
	maxError  = 2 << 10

	maxHeaders = 64 << 10
)

func newDaemon(o Options) *daemon {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}

	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", o.Socket)
	}
	return &daemon{o, &http.Client{
		Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

const dialTimeout = 5 * time.Second

// refusedError is an answer of the daemon that says no.
type refusedError struct {
	status  int
	message string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the daemon says: %s (%d)", e.message, e.status)
}

// do sends a request and returns the body of the answer, which the caller closes. A status of 304 is none that failed:
// there was nothing to do. If a request that writes was sent and has no answer, the error is [tool.ErrUnknown].
func (d *daemon) do(ctx context.Context, method, path string, query url.Values) (io.ReadCloser, error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	at := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(traced, method, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}

	response, err := d.client.Do(r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && connected.Load() && method != http.MethodGet:
		return nil, fmt.Errorf("the daemon was asked and did not answer: %w", tool.ErrUnknown)
	case err != nil && connected.Load():
		return nil, errUnreadable
	case err != nil:
		return nil, errors.New("the Docker daemon cannot be reached now")
	}
	if response.StatusCode < 300 || response.StatusCode == http.StatusNotModified {
		return response.Body, nil
	}

	defer response.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(response.Body, maxError)) // what cannot be read says nothing
	var refused struct{ Message string }
	if json.Unmarshal(b, &refused) != nil || refused.Message == "" {
		refused.Message = http.StatusText(response.StatusCode)
	}
	return nil, &refusedError{response.StatusCode, clean(refused.Message)}
}

func (d *daemon) get(ctx context.Context, path string, query url.Values, into any) error {
	return d.read(ctx, path, query, func(answer *json.Decoder) error { return answer.Decode(into) })
}

const maxElements = 5000

// listOf reads an answer that is a list, one element after another, so that a long one takes neither time nor memory.
func listOf[T any](ctx context.Context, d *daemon, path string, query url.Values) (all []T, err error) {
	err = d.read(ctx, path, query, func(answer *json.Decoder) error {
		if start, err := answer.Token(); err != nil || start != json.Delim('[') {
			return errors.Join(err, errUnreadable)
		}

		for answer.More() {
			if len(all) == maxElements {
				return errTooMany
			}
			all = append(all, *new(T))
			if err := answer.Decode(&all[len(all)-1]); err != nil {
				return err
			}
		}

		_, err := answer.Token() // without the end of the list, there is none
		return err
	})
	return all, err
}

var (
	errUnreadable = errors.New("the daemon's answer cannot be read")
	errTooMany    = fmt.Errorf("the daemon has more than %d of them", maxElements)
)

// read lets do read an answer, within its bounds.
func (d *daemon) read(ctx context.Context, path string, query url.Values, do func(*json.Decoder) error) error {
	body, err := d.do(ctx, http.MethodGet, path, query)
	if err != nil {
		return err
	}
	defer body.Close()

	limited := &io.LimitedReader{R: body, N: maxAnswer}
	err = do(json.NewDecoder(limited))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.N <= 0:
		return fmt.Errorf("the daemon's answer has more than %d MiB", maxAnswer>>20)
	}
	if errors.Is(err, errTooMany) {
		return err
	}
	return errUnreadable
}
