package receive

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // what exporters may pack with
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/wire"
)

// services are those of OTLP. Each has one method, Export.
var services = map[otlp.Signal]string{
	otlp.Traces:  "opentelemetry.proto.collector.trace.v1.TraceService",
	otlp.Logs:    "opentelemetry.proto.collector.logs.v1.LogsService",
	otlp.Metrics: "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

// GRPC returns a server of OTLP/gRPC. The caller serves and stops it. A call is handled as a
// stream of one message: so it shows its key before its message is read, and the message is
// checked against our limits before it is decoded.
func (r *Receiver) GRPC() *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(wire.MaxBodyBytes), // compressed and not
		grpc.MaxConcurrentStreams(32),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute}),
		grpc.WaitForHandlers(true),
	)
	for signal, name := range services {
		g.RegisterService(&grpc.ServiceDesc{ServiceName: name, Streams: []grpc.StreamDesc{{
			StreamName: "Export",
			Handler:    func(_ any, stream grpc.ServerStream) error { return r.serve(signal, stream) },
		}}}, nil)
	}
	return g
}

// rawCodec passes messages on as they are.
type rawCodec struct{}

// Name implements [encoding.CodecV2].
func (rawCodec) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*message)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	*message = data.Materialize()
	return nil
}

// serve answers an export of a signal over gRPC.
func (r *Receiver) serve(signal otlp.Signal, stream grpc.ServerStream) error {
	began, log := time.Now(), r.server.Log()
	answer, size, key, err := r.answer(signal, stream)
	var p *httpd.Problem
	code := http.StatusOK
	if err != nil {
		var known bool
		p, known = httpd.ProblemOf(err)
		code = p.Status
		if !known {
			log.Error("request failed", "door", DoorGRPC, "signal", signal, "status", code, "error", err)
		}
	}
	r.answered(DoorGRPC, signal, code)
	log.Info("request", "door", DoorGRPC, "signal", signal, "status", code,
		"duration", time.Since(began), "received", size, "key", key)
	if p != nil {
		return grpcStatus(p)
	}
	return stream.SendMsg(&answer)
}

// answer returns the answer to a call, the size of its message and the name of its key.
func (r *Receiver) answer(signal otlp.Signal, stream grpc.ServerStream) (answer []byte, size int, key string, err error) {
	defer r.server.Recover(&err, "door", DoorGRPC, "signal", signal)
	headers, _ := metadata.FromIncomingContext(stream.Context())
	key, refused := r.server.Admit(first(headers, "authorization"), first(headers, "x-api-key"), httpd.ScopeWrite)
	if refused != nil {
		return nil, 0, key, refused
	}
	body, err := r.message(stream)
	if err != nil {
		return nil, 0, key, err
	}
	lease := r.server.Bodies().Lease(httpd.Client{})
	defer lease.Return()
	if err := lease.Take(int64(len(body))); err != nil {
		return nil, len(body), key, err
	}
	answer, err = r.take(stream.Context(), signal, otlp.TypeProtobuf, body, lease)
	return answer, len(body), key, err
}

func first(md metadata.MD, name string) string {
	if values := md.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// receivePatience is how long the message of a call may take to arrive.
const receivePatience = 2 * time.Minute

// message reads the message of a call. If that takes too long, the end of the call ends the
// reading.
func (r *Receiver) message(stream grpc.ServerStream) ([]byte, error) {
	select {
	case r.receiving <- struct{}{}:
		defer func() { <-r.receiving }()
	default:
		return nil, httpd.ErrBusy
	}
	var message []byte
	done := make(chan error, 1)
	go func() { done <- stream.RecvMsg(&message) }()
	timer := time.NewTimer(receivePatience)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			return nil, unreadCall(err)
		}
		return message, nil
	case <-timer.C:
		return nil, context.DeadlineExceeded
	}
}

// unreadCall returns why a call has no message. The library has answered the client already.
func unreadCall(err error) error {
	switch status.Code(err) {
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", wire.ErrTooLarge, err)
	case codes.Unimplemented:
		return fmt.Errorf("%w: %w", wire.ErrUnsupported, err)
	case codes.Canceled, codes.DeadlineExceeded:
		return context.Canceled
	}
	return &httpd.Problem{Status: http.StatusBadRequest, Detail: err.Error()}
}

// grpcCodes are the codes of HTTP statuses. Others are Internal.
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted, // without RetryInfo: not to be sent again
	http.StatusUnsupportedMediaType:  codes.Unimplemented,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// grpcStatus is a problem as clients of gRPC see it, with when to try again.
func grpcStatus(p *httpd.Problem) error {
	code, ok := grpcCodes[p.Status]
	if !ok {
		code = codes.Internal
	}
	st := status.New(code, p.Detail)
	if p.RetryAfter > 0 {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(p.RetryAfter) * time.Second)}); err == nil {
			st = detailed
		}
	}
	return st.Err()
}
