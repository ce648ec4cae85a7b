package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
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

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/wire"
)

// grpcServices are the services of OTLP. Each has one method, Export.
var grpcServices = map[otlp.Signal]string{
	otlp.Traces:  "opentelemetry.proto.collector.trace.v1.TraceService",
	otlp.Logs:    "opentelemetry.proto.collector.logs.v1.LogsService",
	otlp.Metrics: "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

// GRPC makes a server of OTLP/gRPC, whose owner serves and stops it. A call is
// handled as a stream of one message: so it has shown its key before its message
// is read, and the message is held to our limits before it is decoded.
func (s *Server) GRPC() *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(wire.MaxBodyBytes), // packed and unpacked
		grpc.MaxConcurrentStreams(32),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute}),
		grpc.WaitForHandlers(true),
	)
	for signal, name := range grpcServices {
		g.RegisterService(&grpc.ServiceDesc{ServiceName: name, Streams: []grpc.StreamDesc{{
			StreamName: "Export",
			Handler:    func(_ any, stream grpc.ServerStream) error { return s.takeCall(signal, stream) },
		}}}, nil)
	}
	return g
}

// rawCodec hands messages over as they are.
type rawCodec struct{}

// Name implements [encoding.CodecV2].
func (rawCodec) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*message)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	*message = data.Materialize()
	return nil
}

// takeCall answers an export of a signal over gRPC.
func (s *Server) takeCall(signal otlp.Signal, stream grpc.ServerStream) error {
	began := time.Now()
	answer, size, key, err := s.answerCall(signal, stream)
	var p *problem
	code := http.StatusOK
	if err != nil {
		var known bool
		p, known = toProblem(err)
		code = p.Status
		if !known {
			s.log.Error("request failed", "door", doorOTLPGRPC, "signal", signal, "status", code, "error", err)
		}
	}
	s.metrics.answered(doorOTLPGRPC, signal, code)
	s.log.Info("request", "door", doorOTLPGRPC, "signal", signal, "status", code,
		"duration", time.Since(began), "received", size, "key", key)
	if p != nil {
		return p.grpcStatus()
	}
	return stream.SendMsg(&answer)
}

// answerCall gives the answer to a call, and how large its message was.
func (s *Server) answerCall(signal otlp.Signal, stream grpc.ServerStream) (answer []byte, size int, key string, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("a handler panicked", "door", doorOTLPGRPC, "signal", signal, "panic", v, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	if keys := s.keys.Load(); keys != nil {
		told, _ := metadata.FromIncomingContext(stream.Context())
		var refused *problem
		if key, refused = keys.admit(first(told, "authorization"), first(told, keyHeader), ScopeWrite); refused != nil {
			return nil, 0, key, refused
		}
	}
	body, err := s.receive(stream)
	if err != nil {
		return nil, 0, key, err
	}
	held := &lease{of: &s.bodies}
	defer held.giveBack()
	if err := held.take(int64(len(body))); err != nil {
		return nil, len(body), key, err
	}
	answer, err = s.take(stream.Context(), signal, otlp.TypeProtobuf, body, held)
	return answer, len(body), key, err
}

func first(md metadata.MD, name string) string {
	if values := md.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

const (
	// receivePatience is how long the message of a call may take to come.
	receivePatience = 2 * time.Minute
	// maxReceiving bounds the messages that come at once, over all connections: the
	// library has read one whole before it can count.
	maxReceiving = 64
)

// receive reads the message of a call. Where that takes too long, the end of the
// call ends the reading.
func (s *Server) receive(stream grpc.ServerStream) ([]byte, error) {
	select {
	case s.receiving <- struct{}{}:
		defer func() { <-s.receiving }()
	default:
		return nil, errBusy
	}
	type received struct {
		message []byte
		err     error
	}
	done := make(chan received, 1)
	go func() {
		var message []byte
		err := stream.RecvMsg(&message)
		done <- received{message, err}
	}()
	timer := time.NewTimer(receivePatience)
	defer timer.Stop()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, unreadCall(r.err)
		}
		return r.message, nil
	case <-timer.C:
		return nil, context.DeadlineExceeded
	}
}

// unreadCall says why there is no message to a call. The client has been told by
// the library already.
func unreadCall(err error) error {
	switch status.Code(err) {
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", wire.ErrTooLarge, err)
	case codes.Unimplemented:
		return fmt.Errorf("%w: %w", wire.ErrUnsupported, err)
	case codes.Canceled, codes.DeadlineExceeded:
		return context.Canceled
	}
	return &problem{Status: http.StatusBadRequest, Detail: err.Error()}
}

// grpcCodes are the codes of statuses; of others Internal.
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted, // without RetryInfo: not to be sent again
	http.StatusUnsupportedMediaType:  codes.Unimplemented,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// grpcStatus is the problem as clients of gRPC see it, with when to try again.
func (p *problem) grpcStatus() error {
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
