package otlp

import (
	"encoding/binary"
	"fmt"

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
	if b.Rejected == 0 {
		return Accepted(contentType), nil // the library would tell of zero
	}
	response := ptraceotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedSpans(int64(b.Rejected))
	response.PartialSuccess().SetErrorMessage(b.Reason)
	marshal := response.MarshalJSON
	if isProtobuf(contentType) {
		marshal = response.MarshalProto
	}
	body, err := marshal()
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
