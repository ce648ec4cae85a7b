package otlp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// TestPartsHoldAllSpans: parts of any size hold the spans of the export, one by one and concatenated.
func TestPartsHoldAllSpans(t *testing.T) {
	t.Parallel()
	for name, files := range fixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, file := range files {
				contentType := otlp.TypeJSON
				if strings.HasSuffix(file, ".pb") {
					contentType = otlp.TypeProtobuf
				}

				want := decode(t, file)
				for _, max := range []struct {
					bytes, count int
				}{{1, 100}, {1 << 20, 1}, {5_000, 3}, {1 << 20, 1_000}, {20_000, 1_000}} {
					parts, err := otlp.Cut(contentType, read(t, file), max.bytes, max.count)
					if err != nil {
						t.Fatal(err)
					}

					var got []otlp.Span
					var joined []byte
					for _, p := range parts {
						b, err := otlp.DecodeTraces(otlp.TypeProtobuf, p.Body)
						if err != nil || p.Signal != otlp.Traces || len(b.Spans) != p.Count || p.Count == 0 || p.Count > max.count {
							t.Fatalf("%v: a part of %d has %d: %v", max, p.Count, len(b.Spans), err)
						}
						if p.Count > 1 && len(p.Body) > max.bytes+5_000 { // the rest is resources
							t.Errorf("%v: a part of %d bytes", max, len(p.Body))
						}
						got, joined = append(got, b.Spans...), append(joined, p.Body...)
					}

					whole, err := otlp.DecodeTraces(otlp.TypeProtobuf, joined)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got) + cmp.Diff(want, whole.Spans); diff != "" {
						t.Errorf("%v (-whole +parts):\n%s", max, diff)
					}
				}
			}
		})
	}
}

func TestPartsOfLogsAndMetrics(t *testing.T) {
	t.Parallel()
	proto, err := new(plog.ProtoMarshaler).MarshalLogs(someLogs())
	if err != nil {
		t.Fatal(err)
	}
	js, err := new(plog.JSONMarshaler).MarshalLogs(someLogs())
	if err != nil {
		t.Fatal(err)
	}

	for contentType, body := range map[string][]byte{otlp.TypeProtobuf: proto, otlp.TypeJSON: js} {
		want, err := otlp.DecodeLogs(contentType, body)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := otlp.Cut(contentType, body, 1, 100)
		if err != nil || len(parts) != 3 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}

		var joined []byte
		for _, p := range parts {
			joined = append(joined, p.Body...)
		}
		if got, err := otlp.DecodeLogs(otlp.TypeProtobuf, joined); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v %s", contentType, err, cmp.Diff(want, got))
		}
	}

	for name, body := range map[string]string{
		"metrics": `{"resourceMetrics":[{"scopeMetrics":[]}]}`, "nothing": `{}`,
		"no spans": `{"resourceSpans":[{"scopeSpans":[{}]}]}`,
	} {
		if parts, err := otlp.Cut(otlp.TypeJSON, []byte(body), 1, 1); err != nil || len(parts) != 0 {
			t.Errorf("%s: %v %v", name, parts, err)
		}
	}
	for _, body := range [][]byte{[]byte("{"), []byte(`{"resourceSpans":3}`), bytes.Repeat([]byte("["), 100_000)} {
		if _, err := otlp.Cut(otlp.TypeJSON, body, 1, 1); err == nil {
			t.Errorf("%.20q was cut", body)
		}
	}
}
