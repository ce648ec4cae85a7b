// Package receive owns OTLP: it takes what exporters send, over HTTP and gRPC, and answers
// when it is on record.
package receive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// Store is where spans go.
type Store interface {
	ReplaceTraces(ctx context.Context, traces []store.Trace) error
	Stats() store.Stats
}

// Door is how an export came in. It is a label of metrics.
type Door string

// The doors.
const (
	DoorServer Door = "server" // the API's own address
	DoorHTTP   Door = "http"   // an address that takes exports only
	DoorGRPC   Door = "grpc"
)

// DefaultTimeout is how long an export may take. Most exporters wait for ten seconds, and do not
// repeat what was answered in time.
const DefaultTimeout = 8 * time.Second

// beginning is how much of a body of metrics is looked at, in bytes: enough to see whether it holds
// another signal.
const beginning = 32 << 10

// Receiver takes exports. It is safe for concurrent use.
type Receiver struct {
	store    Store
	server   *httpd.Server
	timeout  time.Duration
	decoding chan struct{} // holds a token for each body that is decoded
	exports  *prometheus.CounterVec
	items    *prometheus.CounterVec
	rowless  *rowless
}

// New returns a receiver, and registers its metrics. timeout 0 means [DefaultTimeout].
func New(s Store, server *httpd.Server, timeout time.Duration) *Receiver {
	r := &Receiver{
		store: s, server: server, timeout: cmp.Or(timeout, DefaultTimeout),
		decoding: make(chan struct{}, runtime.GOMAXPROCS(0)),
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_otlp_requests_total",
			Help: "Exports over OTLP that were answered; those by gRPC with the status that HTTP would have.",
		}, []string{"door", "signal", "status"}),
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_otlp_items_total",
			Help: "Spans and log records of exports that were answered 200: accepted are on record, ignored are log records " +
				"of no span.",
		}, []string{"signal", "result"}),
		rowless: newRowless(server.Log()),
	}
	server.Register(r.exports, r.items, r.rowless.total)
	return r
}

// Routes are those of OTLP over HTTP, for a door.
func (r *Receiver) Routes(by Door) (routes []httpd.Route) {
	for _, signal := range otlp.Signals {
		routes = append(routes, httpd.Route{
			Method: http.MethodPost, Path: signal.Path(), Need: httpd.ScopeWrite, Beacon: true,
			Handle:   func(c echo.Context) error { return r.export(c, signal) },
			Refuse:   refuse,
			Answered: func(status int) { r.answered(by, signal, status) },
		})
	}
	return routes
}

// Waiting returns the routes of OTLP over HTTP while there is no store yet: every export is refused with the error of
// why, as an exporter reads it.
func Waiting(why func() error) (routes []httpd.Route) {
	for _, signal := range otlp.Signals {
		routes = append(routes, httpd.Route{
			Method: http.MethodPost, Path: signal.Path(), Need: httpd.ScopeNone, Beacon: true, Quiet: true,
			Handle: func(echo.Context) error { return why() },
			Refuse: refuse,
		})
	}
	return routes
}

// Unknown is the route of the list of what was sent and is not shown.
func (r *Receiver) Unknown() httpd.Route {
	return httpd.Route{Method: http.MethodGet, Path: otlp.RowlessPath, Need: httpd.ScopeRead,
		Handle: func(c echo.Context) error {
			if names := slices.Sorted(maps.Keys(c.QueryParams())); len(names) > 0 {
				return httpd.BadField(names[0], "is not known here; the query may have no members")
			}
			return c.JSON(http.StatusOK, r.rowless.list(int(r.store.Stats().TracesWithoutRows)))
		}}
}

func (r *Receiver) answered(by Door, signal otlp.Signal, status int) {
	r.exports.WithLabelValues(string(by), string(signal), strconv.Itoa(status)).Inc()
}

// refuse answers an error as exporters read it: they read no problem documents.
func refuse(c echo.Context, p *httpd.Problem) error {
	contentType := cmp.Or(bodyType(c.Request()), otlp.TypeJSON)
	return c.Blob(p.Status, contentType, otlp.Refused(contentType, p.Detail))
}

// export answers an export of a signal over HTTP.
func (r *Receiver) export(c echo.Context, signal otlp.Signal) error {
	request := c.Request()
	contentType := bodyType(request)
	if contentType == "" {
		return &httpd.Problem{
			Status: http.StatusUnsupportedMediaType, Detail: "send " + otlp.TypeProtobuf + " or " + otlp.TypeJSON,
		}
	}

	body, err := r.server.Body(c)
	defer body.Return()
	if err != nil {
		return err
	}

	message, err := r.read(signal, body, request.ContentLength, request.Header.Get(echo.HeaderContentEncoding), body.Take)
	if err != nil {
		return unreadable(err)
	}
	answer, err := r.take(request.Context(), signal, contentType, message, body)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, contentType, answer)
}

// read returns the message of an export, decompressed. Nobody reads metrics: of those it returns the
// beginning.
func (r *Receiver) read(
	signal otlp.Signal, from io.Reader, size int64, encoding string, take func(int64) error,
) ([]byte, error) {
	if signal == otlp.Metrics {
		message := wire.Beginning(from, encoding, beginning, take)
		_, err := io.CopyN(io.Discard, from, wire.MaxBodyBytes)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return message, err
	}
	return wire.ReadBody(from, size, encoding, take)
}

// unreadable returns the problem of a body that cannot be read.
func unreadable(err error) error {
	if errors.Is(err, otlp.ErrTooLarge) {
		return &httpd.Problem{Status: http.StatusRequestEntityTooLarge, Detail: err.Error()}
	}
	return httpd.Unreadable(err)
}

// bodyType is the media type of an export and of its answer, without parameters; empty if it
// is not supported.
func bodyType(r *http.Request) string {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if err != nil || mediaType != otlp.TypeProtobuf && mediaType != otlp.TypeJSON {
		return ""
	}
	return mediaType
}

// take puts what a message says on record and returns the body of the answer, after commit. held
// holds the bytes of the message. The errors are for [httpd.ProblemOf].
func (r *Receiver) take(
	ctx context.Context, signal otlp.Signal, contentType string, message []byte, held *httpd.Body,
) ([]byte, error) {
	if signal == otlp.Metrics {
		if err := otlp.Misplaced(signal, contentType, message); err != nil {
			return nil, unreadable(err)
		}
		r.rowless.count(metricsDropped, 1)
		return otlp.Accepted(contentType), nil
	}

	batch, traces, err := r.decode(ctx, signal, contentType, message, held)
	if err != nil {
		return nil, err
	}
	kept := 0
	for i := range traces {
		kept += traces[i].Count
	}

	if kept > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()

		var rejected *store.RejectedTracesError
		switch err := r.store.ReplaceTraces(ctx, traces); {
		case errors.As(err, &rejected):
			for _, t := range rejected.Traces {
				kept -= t.Count
				batch.Rejected += t.Count
				r.rowless.count(otlp.Rejected, t.Count)
				batch.Reason = cmp.Or(batch.Reason, t.Err.Error())
			}
		case err != nil:
			return nil, err
		}
	}

	r.rowless.add(batch.Rowless)
	for result, n := range map[string]int{"accepted": kept, "rejected": batch.Rejected, "ignored": batch.Ignored} {
		r.items.WithLabelValues(string(signal), result).Add(float64(n))
	}
	if signal == otlp.Logs {
		return batch.AnswerLogs(contentType)
	}
	return batch.Answer(contentType)
}

// decode reads a message. It keeps a processor busy, so more of them at once would only hold more
// memory. The spans, and the chunks that are made of them, take the place of the message in what
// is held, and more if they need it.
func (r *Receiver) decode(
	ctx context.Context, signal otlp.Signal, contentType string, message []byte, held *httpd.Body,
) (otlp.Batch, []store.Trace, error) {
	select {
	case r.decoding <- struct{}{}:
		defer func() { <-r.decoding }()
	case <-ctx.Done():
		return otlp.Batch{}, nil, ctx.Err()
	}

	read := otlp.DecodeTraces
	if signal == otlp.Logs {
		read = otlp.DecodeLogs
	}
	batch, err := read(contentType, message)
	if err != nil {
		return otlp.Batch{}, nil, unreadable(err)
	}

	var traces []store.Trace
	room, free := otlp.MaxChunkBytes, len(message)
	resources := map[*otlp.Attribute]bool{}
	for _, spans := range otlp.ByTrace(batch.Spans) {
		if ctx.Err() != nil {
			return otlp.Batch{}, nil, ctx.Err()
		}
		chunk, err := otlp.EncodeChunk(spans, &room)
		if err != nil {
			return otlp.Batch{}, nil, unreadable(err)
		}

		if free -= len(chunk) + otlp.Memory(spans, resources); free < 0 {
			if err := held.Take(int64(-free)); err != nil {
				return otlp.Batch{}, nil, err
			}
			free = 0
		}
		traces = append(traces, store.Trace{ID: spans[0].TraceID, Chunk: chunk, Spans: spans, Count: len(spans)})
	}
	batch.Spans = nil
	return batch, traces, nil
}
