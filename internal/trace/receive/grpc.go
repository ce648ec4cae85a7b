package receive

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// services are those of OTLP. Each has one method, Export.
var services = map[otlp.Signal]string{
	otlp.Traces:  "opentelemetry.proto.collector.trace.v1.TraceService",
	otlp.Logs:    "opentelemetry.proto.collector.logs.v1.LogsService",
	otlp.Metrics: "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

// callPath is the path of the calls of a signal.
func callPath(signal otlp.Signal) string { return "/" + services[signal] + "/Export" }

// Calls are the routes of OTLP over gRPC, for [httpd.Listener.ServeGRPC]. A call is a request
// of HTTP/2 with one message in its body. A library would read the whole message before we
// could count it.
func (r *Receiver) Calls() (routes []httpd.Route) {
	for _, signal := range otlp.Signals {
		routes = append(routes, httpd.Route{
			Method: http.MethodPost, Path: callPath(signal), Need: httpd.ScopeWrite,
			Handle:   func(c echo.Context) error { return r.call(c, signal) },
			Refuse:   refuseCall,
			Answered: func(status int) { r.answered(DoorGRPC, signal, status) },
		})
	}
	return routes
}

// WaitingCalls is [Waiting] for OTLP over gRPC.
func WaitingCalls(why func() error) (routes []httpd.Route) {
	for _, signal := range otlp.Signals {
		routes = append(routes, httpd.Route{
			Method: http.MethodPost, Path: callPath(signal), Need: httpd.ScopeNone, Quiet: true,
			Handle: func(echo.Context) error { return why() },
			Refuse: refuseCall,
		})
	}
	return routes
}

// call answers an export of a signal over gRPC.
func (r *Receiver) call(c echo.Context, signal otlp.Signal) error {
	c.Response().Header().Set("Grpc-Accept-Encoding", "gzip, zstd, snappy, deflate")
	request := c.Request()
	switch request.Header.Get(echo.HeaderContentType) {
	case typeGRPC, typeGRPC + "+proto":
	default:
		return &httpd.Problem{Status: http.StatusUnsupportedMediaType, Detail: "send " + typeGRPC}
	}

	body, err := r.server.Body(c)
	defer body.Return()
	if err != nil {
		return err
	}

	message, err := r.message(signal, body, request.Header.Get("Grpc-Encoding"))
	if err != nil {
		return unreadable(err)
	}
	answer, err := r.take(request.Context(), signal, otlp.TypeProtobuf, message, body)
	if err != nil {
		return err
	}

	response := c.Response()
	response.Header().Set(echo.HeaderContentType, typeGRPC)
	response.WriteHeader(http.StatusOK)
	if _, err := response.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))),
		answer...)); err != nil {
		return fmt.Errorf("%w: %w", httpd.ErrGone, err)
	}
	response.Header().Set(http.TrailerPrefix+grpcStatus, "0")
	return nil
}

const (
	typeGRPC   = "application/grpc"
	grpcStatus = "Grpc-Status"
)

// message returns the message of a call, decompressed. A byte before it says whether it is
// compressed, four say its length. There must be room for that before it is read.
func (r *Receiver) message(signal otlp.Signal, body *httpd.Body, encoding string) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("the call has no message")
		}
		return nil, err
	}

	length := int64(binary.BigEndian.Uint32(head[1:]))
	if length > wire.MaxBodyBytes {
		return nil, fmt.Errorf("%w: the message is over %d bytes", wire.ErrTooLarge, wire.MaxBodyBytes)
	}
	if head[0] == 0 {
		encoding = ""
	}
	if signal != otlp.Metrics {
		if err := body.Reserve(length); err != nil {
			return nil, err
		}
	}

	packed := &io.LimitedReader{R: body, N: length}
	message, err := r.read(signal, packed, length, encoding, body.Take)
	if err == nil && packed.N > 0 && encoding == "" {
		err = io.ErrUnexpectedEOF
	}
	return message, err
}

// grpcCodes are the codes of HTTP statuses. Others are Internal.
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted, // without RetryInfo: not to be sent again
	http.StatusUnsupportedMediaType:  codes.Unimplemented,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// refuseCall answers a call with a problem as clients of gRPC see it, and with when to try
// again.
func refuseCall(c echo.Context, p *httpd.Problem) error {
	code, ok := grpcCodes[p.Status]
	if !ok {
		code = codes.Internal
	}

	header := c.Response().Header()
	header.Set(echo.HeaderContentType, typeGRPC)
	header.Set(grpcStatus, strconv.Itoa(int(code)))
	header.Set("Grpc-Message", escape(p.Detail))

	if p.RetryAfter > 0 {
		st, err := status.New(code, p.Detail).WithDetails(&errdetails.RetryInfo{
			RetryDelay: durationpb.New(time.Duration(p.RetryAfter) * time.Second),
		})
		if err != nil {
			return err
		}
		details, err := proto.Marshal(st.Proto())
		if err != nil {
			return err
		}
		header.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	return c.NoContent(http.StatusOK)
}

// escape writes a text as a header of gRPC: printable ASCII, all else as %XX.
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
