package otlp_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/actlog/actlog/internal/trace/otlp"
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

		if body, err = (&otlp.Batch{Rejected: 3, Reason: "why"}).AnswerLogs(contentType); err != nil {
			t.Fatal(err)
		}
		if contentType == otlp.TypeJSON {
			if string(body) != `{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"why"}}` {
				t.Errorf("AnswerLogs = %s", body)
			}
		} else if n, reason, err := otlp.Partial(body); err != nil || n != 3 || reason != "why" {
			t.Errorf("otlp.Partial(body) = %d %q %v", n, reason, err)
		}
	}

	if got := string(otlp.Refused(otlp.TypeJSON, `a "b"`)); got != `{"message":"a \"b\""}` {
		t.Errorf("string = %v", got)
	}
	if got := string(otlp.Refused(otlp.TypeProtobuf, "ab")); got != "\x12\x02ab" {
		t.Errorf("string = %q", got)
	}

	for _, said := range []string{"", "ab", strings.Repeat("é", 200)} {
		if got := otlp.Refusal(otlp.Refused(otlp.TypeProtobuf, said)); got != said {
			t.Errorf("%q became %q", said, got)
		}
	}
	for _, body := range []string{"", "\x12", "\x12\x05ab", "\x12\x02abc", `{"message":"m"}`, "<html>"} {
		if got := otlp.Refusal([]byte(body)); got != "" {
			t.Errorf("%q says %q", body, got)
		}
	}
}
