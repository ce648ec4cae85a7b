package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/wire"
)

// door is where a request came in. It is a label of metrics.
type door string

const (
	doorServer   door = "server" // the API's own port, which has all paths
	doorOTLPHTTP door = "http"   // one that takes exports and nothing else
	doorOTLPGRPC door = "grpc"
)

const doorKey = "door"

// through notes the door of requests.
func through(by door) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(doorKey, by)
			return next(c)
		}
	}
}

// doorOf gives the door of a request.
func doorOf(c echo.Context) door {
	by, _ := c.Get(doorKey).(door)
	return by
}

// signalOf gives the signal that is sent to a path; "" where none is.
func signalOf(path string) otlp.Signal {
	for _, signal := range otlp.Signals {
		if path == signal.Path() {
			return signal
		}
	}
	return ""
}

// OTLP serves what exporters send, and nothing else, for a port of its own.
func (s *Server) OTLP(loopbackOnly bool) http.Handler {
	e := s.newEcho(doorOTLPHTTP, loopbackOnly)
	for _, signal := range otlp.Signals {
		e.Add(http.MethodPost, signal.Path(), s.takeSignal(signal))
	}
	return compressed(e)
}

// allowOrigins lets exporters in web pages of some origins send. A page's browser
// asks first, without a key. Some exporters send as beacons, which count as sent
// with credentials; there are none here that a browser would add by itself.
func allowOrigins(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper:      func(c echo.Context) bool { return signalOf(c.Request().URL.Path) == "" },
		AllowOrigins: origins,
		AllowMethods: []string{http.MethodPost},
		MaxAge:       int((2 * time.Hour).Seconds()), // longer than that no browser remembers

		AllowCredentials: true, UnsafeWildcardOriginWithAllowCredentials: true,
	})
}

// takeSignal answers an export of a signal over HTTP.
func (s *Server) takeSignal(signal otlp.Signal) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		contentType := bodyType(r)
		if contentType == "" {
			return &problem{Status: http.StatusUnsupportedMediaType, Detail: "send " + otlp.TypeProtobuf + " or " + otlp.TypeJSON}
		}
		held := &lease{of: &s.bodies}
		defer held.giveBack()
		var body []byte
		var err error
		if signal == otlp.Metrics { // no one will look at it
			_, err = io.CopyN(io.Discard, r.Body, wire.MaxBodyBytes)
			if errors.Is(err, io.EOF) {
				err = nil
			}
		} else {
			body, err = wire.ReadHeld(r.Body, r.Header.Get(echo.HeaderContentEncoding), held.take)
		}
		if err != nil {
			return unreadable(err)
		}
		answer, err := s.take(r.Context(), signal, contentType, body, held)
		if err != nil {
			return err
		}
		return c.Blob(http.StatusOK, contentType, answer)
	}
}

// unreadable says that it is the client whose body cannot be read, unless it is
// not.
func unreadable(err error) error {
	if p, known := toProblem(err); known {
		return p
	}
	return &problem{Status: http.StatusBadRequest, Detail: err.Error()}
}

// bodyType is the media type of an export and of the answer to it, without
// parameters; "" where it is none that is read here.
func bodyType(r *http.Request) string {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if err != nil || mediaType != otlp.TypeProtobuf && mediaType != otlp.TypeJSON {
		return ""
	}
	return mediaType
}

// take puts what a body tells on record and gives the body of the answer, after
// commit. held is what was taken for the body. The errors are for [toProblem].
func (s *Server) take(ctx context.Context, signal otlp.Signal, contentType string, body []byte, held *lease) ([]byte, error) {
	if signal == otlp.Metrics {
		return otlp.Accepted(contentType), nil
	}
	batch, traces, err := s.decode(ctx, signal, contentType, body, held)
	if err != nil {
		return nil, err
	}
	kept := 0
	for i := range traces {
		kept += traces[i].Count
	}
	if kept > 0 {
		ctx, cancel := context.WithTimeout(ctx, s.config.ExportTimeout)
		defer cancel()
		var rejected *store.RejectedTracesError
		switch err := s.store.ReplaceTraces(ctx, traces); {
		case errors.As(err, &rejected):
			for _, t := range rejected.Traces {
				kept -= t.Count
				batch.Rejected += t.Count
				batch.Reason = cmp.Or(batch.Reason, t.Err.Error())
			}
		case err != nil:
			return nil, err
		}
	}
	s.metrics.exported(signal, kept, batch.Rejected, batch.Ignored)
	if signal == otlp.Logs {
		return batch.AnswerLogs(contentType)
	}
	return batch.Answer(contentType)
}

// decode reads a body, and gives its spans as they are kept only. It keeps a
// processor busy, so that more at once would but hold more memory. They take the place
// of the body, and more where they need it.
func (s *Server) decode(ctx context.Context, signal otlp.Signal, contentType string, body []byte, held *lease) (otlp.Batch, []store.Trace, error) {
	select {
	case s.decoding <- struct{}{}:
		defer func() { <-s.decoding }()
	case <-ctx.Done():
		return otlp.Batch{}, nil, ctx.Err()
	}
	read := otlp.DecodeTraces
	if signal == otlp.Logs {
		read = otlp.DecodeLogs
	}
	batch, err := read(contentType, body)
	if err != nil {
		return otlp.Batch{}, nil, unreadable(err)
	}
	var traces []store.Trace
	room, free := otlp.MaxChunkBytes, len(body)
	for _, spans := range otlp.ByTrace(batch.Spans) {
		if ctx.Err() != nil {
			return otlp.Batch{}, nil, ctx.Err()
		}
		chunk, err := otlp.EncodeChunk(spans, &room)
		if err != nil {
			return otlp.Batch{}, nil, unreadable(err)
		}
		if free -= len(chunk); free < 0 {
			if err := held.take(int64(-free)); err != nil {
				return otlp.Batch{}, nil, err
			}
			free = 0
		}
		traces = append(traces, store.Trace{ID: spans[0].TraceID, Spans: chunk, Count: len(spans)})
	}
	batch.Spans = nil // large, and the store may take its time
	return batch, traces, nil
}
