// Package modelhttp asks models over HTTP: it posts a request, reads the answer as a stream of events,
// and turns what goes wrong into errors of package model.
package modelhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/actlog/actlog/agent/model"
)

// Config says where a model is. BaseURL and Path make the URL.
type Config struct {
	Source
	BaseURL string
	Path    string
	Header  http.Header
	Timeout time.Duration // without a byte; default 120 s
	HTTP    *http.Client  // default: one that all models share
}

// Client asks one model.
type Client struct {
	Config
	url string
}

const (
	maxAnswer = 64 << 20 // bytes of an answer
	maxError  = 64 << 10 // bytes that are read of an error
	linger    = time.Second
)

// shared keeps enough connections for many runs of one provider.
var shared = sync.OnceValue(func() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1000, 1000
	return &http.Client{Transport: transport}
})

// New returns a client. Its errors name the field.
func New(config Config) (*Client, error) {
	if config.Model == "" {
		return nil, fmt.Errorf("%s: name of the model is missing", config.Provider)
	}
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		// it may contain a password
		return nil, fmt.Errorf("%s: base URL of model %s is not an absolute HTTP URL", config.Provider, config.Model)
	}
	if config.Timeout < 0 {
		return nil, fmt.Errorf("%s: timeout of model %s is negative", config.Provider, config.Model)
	}

	config.Timeout = cmp.Or(config.Timeout, 120*time.Second)
	client := *cmp.Or(config.HTTP, shared())
	// A redirect could carry the key to another host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	config.HTTP = &client
	return &Client{Config: config, url: strings.TrimRight(config.BaseURL, "/") + config.Path}, nil
}

// ErrDone is what the reader of an answer returns when it is complete.
var ErrDone = errors.New("done")

var errSilent = errors.New("nothing came for too long")

// Post sends body as JSON and hands each event of the answer to read, until it returns ErrDone or another
// error, or the answer ends. An answer that is not a stream is one event without a name. All errors
// are of type *model.Error, unless read returns another.
func (c *Client) Post(ctx context.Context, body any, read func(name string, data []byte) error) error {
	data, err := json.Marshal(body)
	if err != nil {
		return c.failed(model.KindInvalidRequest, "encode request: "+err.Error(), err)
	}

	asked, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.Timeout, func() { cancel(errSilent) })
	defer silence.Stop()

	req, err := http.NewRequestWithContext(asked, http.MethodPost, c.url, bytes.NewReader(data))
	if err != nil {
		return c.failed(model.KindInvalidRequest, err.Error(), err)
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "actlog")

	resp, err := c.HTTP.Do(req)
	if err != nil {
		return c.broken(asked, err)
	}
	defer resp.Body.Close()

	answer := &answer{body: resp.Body, silence: silence, timeout: c.Timeout, left: maxAnswer}
	if resp.StatusCode != http.StatusOK {
		answer.left = maxError
		data, _ := io.ReadAll(answer) // whatever came of it
		return c.refused(resp, data)
	}

	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" {
		data, err := io.ReadAll(answer)
		if err != nil {
			return c.broken(asked, err)
		}
		if err := read("", data); !errors.Is(err, ErrDone) {
			return err
		}
		return nil
	}

	for event, err := range sse.Read(answer, &sse.ReadConfig{MaxEventSize: maxAnswer}) {
		if errors.Is(err, sse.ErrUnexpectedEOF) {
			if errors.Is(answer.err, io.EOF) {
				break // its last line has no end: the reader knows whether it is complete without
			}
			err = answer.err
		}
		if err != nil {
			return c.broken(asked, err)
		}
		if err := read(event.Type, []byte(event.Data)); errors.Is(err, ErrDone) {
			answer.finish()
			break
		} else if err != nil {
			return err
		}
	}
	return nil
}

// answer reads a body, and ends when nothing comes for too long. It only counts the time that it waits
// for bytes, not what is done with them.
type answer struct {
	body    io.Reader
	silence *time.Timer
	timeout time.Duration
	left    int
	err     error // the last one
}

var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

func (a *answer) Read(p []byte) (int, error) {
	a.silence.Reset(a.timeout)
	defer a.silence.Stop()

	n, err := a.body.Read(p)
	if a.left -= n; a.left < 0 {
		n, err = 0, errTooLarge
	}
	a.err = err
	return n, err
}

// finish reads the end of a complete answer, if it comes at once: then the connection can be used again.
func (a *answer) finish() {
	a.timeout = min(a.timeout, linger)
	_, _ = io.Copy(io.Discard, a)
}

// broken is the error of an exchange that did not come to its end.
func (c *Client) broken(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		return c.failed(model.KindTimeout, fmt.Sprintf("nothing came for %s", c.Timeout), cause)
	case cause != nil:
		return c.failed(model.KindCancelled, cause.Error(), cause)
	case errors.Is(err, errTooLarge):
		return c.failed(model.KindServer, err.Error(), err)
	}
	return c.failed(model.KindNetwork, err.Error(), err)
}

// Sum adds up counts; nil if none is known.
func Sum(counts ...*int64) (sum *int64) {
	for _, count := range counts {
		switch {
		case count == nil:
		case sum == nil:
			sum = count
		default:
			sum = new(*sum + *count)
		}
	}
	return sum
}
