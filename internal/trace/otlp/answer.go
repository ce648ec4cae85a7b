package otlp

import (
	"cmp"
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// The body of an answer has the media type of the request.

// Accepted answers an export that was accepted as a whole.
func Accepted(contentType string) []byte {
	if isProtobuf(contentType) {
		return nil
	}
	return []byte("{}")
}

// Answer answers an export of traces. If spans were rejected it says how many, and why. If all were
// taken and none was understood, it has the warning: a partial success with nothing rejected.
func (b *Batch) Answer(contentType string) ([]byte, error) {
	response := ptraceotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedSpans(int64(b.Rejected))
	response.PartialSuccess().SetErrorMessage(cmp.Or(b.Reason, b.Warning))
	return b.answer(contentType, response.MarshalProto, response.MarshalJSON)
}

// AnswerLogs is [Batch.Answer] for an export of logs.
func (b *Batch) AnswerLogs(contentType string) ([]byte, error) {
	response := plogotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedLogRecords(int64(b.Rejected))
	response.PartialSuccess().SetErrorMessage(b.Reason)
	return b.answer(contentType, response.MarshalProto, response.MarshalJSON)
}

func (b *Batch) answer(contentType string, proto, json func() ([]byte, error)) (body []byte, err error) {
	switch {
	case b.Rejected == 0 && b.Warning == "":
		return Accepted(contentType), nil // the library would write a partial success of 0
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
		return appendField(nil, statusMessage, []byte(message))
	}
	return append(appendMember([]byte{'{'}, "message", message), '}')
}

// statusMessage is the number of the field message of google.rpc.Status.
const statusMessage = 2

// Partial reads a protobuf answer to traces or logs: how many were rejected, and why. If none was, the
// reason is a warning, or empty.
func Partial(answer []byte) (rejected int64, reason string, err error) {
	response := ptraceotlp.NewExportResponse() // the answer to logs has the same field numbers
	if err := response.UnmarshalProto(answer); err != nil {
		return 0, "", fmt.Errorf("reading an answer: %w", err)
	}
	return response.PartialSuccess().RejectedSpans(), response.PartialSuccess().ErrorMessage(), nil
}

// Refusal returns the message of a protobuf body that [Refused] wrote, "" for any other body.
func Refusal(body []byte) string {
	tag, message, rest, ok := nextField(body)
	if !ok || tag != statusMessage<<3|2 || len(rest) > 0 {
		return ""
	}
	return clean(string(message))
}
