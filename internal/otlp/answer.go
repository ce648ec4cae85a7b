package otlp

import (
	"encoding/binary"
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// The bodies of answers are of the media type of the request.

// Accepted answers an export of anything that was taken as a whole.
func Accepted(contentType string) []byte {
	if isProtobuf(contentType) {
		return nil
	}
	return []byte("{}")
}

// Answer answers an export of traces: where spans were rejected it says how many,
// and why.
func (b *Batch) Answer(contentType string) ([]byte, error) {
	response := ptraceotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedSpans(int64(b.Rejected))
	response.PartialSuccess().SetErrorMessage(b.Reason)
	return b.answer(contentType, response.MarshalProto, response.MarshalJSON)
}

// AnswerLogs answers an export of logs alike.
func (b *Batch) AnswerLogs(contentType string) ([]byte, error) {
	response := plogotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedLogRecords(int64(b.Rejected))
	response.PartialSuccess().SetErrorMessage(b.Reason)
	return b.answer(contentType, response.MarshalProto, response.MarshalJSON)
}

func (b *Batch) answer(contentType string, proto, json func() ([]byte, error)) (body []byte, err error) {
	switch {
	case b.Rejected == 0:
		return Accepted(contentType), nil // the library would tell of zero
	case isProtobuf(contentType):
		body, err = proto()
	default:
		body, err = json()
	}
	if err != nil {
		return nil, fmt.Errorf("writing an answer: %w", err)
	}
	return body, nil
}

// Refused answers an export that was refused as a whole, with a google.rpc.Status.
func Refused(contentType, message string) []byte {
	if isProtobuf(contentType) {
		b := binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(message)))
		return append(b, message...)
	}
	return append(appendMember([]byte{'{'}, "message", message), '}')
}

// Partial reads a protobuf answer to traces or logs: how many were rejected, and
// why.
func Partial(answer []byte) (rejected int64, reason string, err error) {
	response := ptraceotlp.NewExportResponse() // that of logs has the same numbers
	if err := response.UnmarshalProto(answer); err != nil {
		return 0, "", fmt.Errorf("reading an answer: %w", err)
	}
	return response.PartialSuccess().RejectedSpans(), response.PartialSuccess().ErrorMessage(), nil
}

// Refusal reads what a protobuf body by [Refused] says; "" where it is none.
func Refusal(body []byte) string {
	if len(body) == 0 || body[0] != 2<<3|2 {
		return ""
	}
	size, n := binary.Uvarint(body[1:])
	if n <= 0 || size != uint64(len(body)-1-n) {
		return ""
	}
	return clean(string(body[1+n:]))
}
