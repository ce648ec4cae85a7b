package otlp_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/actlog/actlog/internal/otlp"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	for contentType, accepted := range map[string]string{otlp.TypeProtobuf: "", otlp.TypeJSON: "{}"} {
		body, err := new(otlp.Batch).Answer(contentType)
		if err != nil || string(body) != accepted || string(otlp.Accepted(contentType)) != accepted {
			t.Errorf("%s: %q %v", contentType, body, err)
		}
		if body, err = (&otlp.Batch{Rejected: 3, Reason: "why"}).Answer(contentType); err != nil {
			t.Fatal(err)
		}
		got := ptraceotlp.NewExportResponse()
		if contentType == otlp.TypeProtobuf {
			err = got.UnmarshalProto(body)
		} else {
			err = got.UnmarshalJSON(body)
		}
		if p := got.PartialSuccess(); err != nil || p.RejectedSpans() != 3 || p.ErrorMessage() != "why" {
			t.Errorf("%s %q: %v", contentType, body, err)
		}
	}
	if got := string(otlp.Refused(otlp.TypeJSON, `a "b"`)); got != `{"message":"a \"b\""}` {
		t.Error(got)
	}
	if got := string(otlp.Refused(otlp.TypeProtobuf, "ab")); got != "\x12\x02ab" {
		t.Errorf("%q", got)
	}
}
