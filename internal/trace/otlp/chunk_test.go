package otlp_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// everything returns a span with every field set.
func everything() otlp.Span {
	a := otlp.Attributes{
		{Key: "a", Value: otlp.Value{Text: "text"}}, {Key: "b", Value: otlp.Value{Type: otlp.Number, Text: "1"}},
		{Key: "c", Value: otlp.Value{Type: otlp.Bool, Text: "true"}}, {
			Key: "d", Value: otlp.Value{Type: otlp.JSON, Text: `{"x":[1]}`},
		},
	}
	return otlp.Span{
		TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331", ParentID: "b7ad6b7169203332",
		RemoteParent: true, Stub: true,
		Name: "chat", Kind: 3, Start: 1, End: 2, Status: 2, StatusMessage: "no", Attributes: a,
		Events: []otlp.Event{{Name: "e", Time: -4, Attributes: a[:1]}}, Links: []otlp.Link{
			{TraceID: "t", SpanID: "s", Attributes: a[1:2]},
		},
		Scope: otlp.Scope{Name: "n", Version: "v"}, Resource: a[2:3], Truncated: []string{"a", "b"},
	}
}

// encode encodes the only chunk of a body.
func encode(spans []otlp.Span) ([]byte, error) {
	return otlp.EncodeChunk(spans, new(otlp.MaxChunkBytes))
}

func TestChunks(t *testing.T) {
	t.Parallel()
	whole := everything()
	other := whole
	other.Resource = nil
	cases := map[string][]otlp.Span{
		"nothing": {}, "an empty span": {{}}, "everything": {whole, whole, other, whole}, "long": longTrace(1000),
	}
	for name, files := range fixtures {
		cases[name] = decode(t, files...)
	}

	for name, spans := range cases {
		chunk, err := encode(spans)
		if err != nil {
			t.Fatal(err)
		}
		got, err := otlp.DecodeChunk(chunk)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		// What is empty may be nil.
		want, err := json.Marshal(spans)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(string(want), string(again)); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
		for cut := range min(len(chunk), 1000) {
			if _, err := otlp.DecodeChunk(chunk[:cut]); err == nil {
				t.Fatalf("%s: its first %d bytes are a chunk", name, cut)
			}
		}
	}
}

// TestChunkSizeIsBounded: a chunk that is too large is neither read nor written.
func TestChunkSizeIsBounded(t *testing.T) {
	t.Parallel()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := otlp.DecodeChunk(w.EncodeAll(make([]byte, otlp.MaxChunkBytes+1), nil)); err == nil {
		t.Error("it was read")
	}

	span := everything()
	span.Attributes = nil
	text := otlp.Value{Text: string(make([]byte, otlp.MaxStringBytes))}
	for range otlp.MaxChunkBytes/otlp.MaxStringBytes + 1 {
		span.Attributes = append(span.Attributes, otlp.Attribute{Value: text})
	}
	if _, err := encode([]otlp.Span{span}); !errors.Is(err, otlp.ErrTooLarge) {
		t.Errorf("error = %v", err)
	}
}

// TestChunksOfABodyShareRoom: what several traces repeat counts in each of them. No chunk has spare
// capacity.
func TestChunksOfABodyShareRoom(t *testing.T) {
	t.Parallel()
	span := everything()
	span.Resource = otlp.Attributes{{Key: "large", Value: otlp.Value{Text: string(make([]byte, 1_000_000))}}}
	room := 2_500_000
	for range 2 {
		chunk, err := otlp.EncodeChunk([]otlp.Span{span}, &room)
		if err != nil {
			t.Fatal(err)
		}
		if cap(chunk) > 10_000 {
			t.Errorf("a chunk of %d bytes takes %d", len(chunk), cap(chunk))
		}
	}

	if room < 490_000 || room > 500_000 {
		t.Errorf("there is room for %d more", room)
	}
	if _, err := otlp.EncodeChunk([]otlp.Span{span}, &room); !errors.Is(err, otlp.ErrTooLarge) {
		t.Errorf("error = %v", err)
	}

	// What repeats within a trace is noticed before it fills memory.
	many := make([]otlp.Span, 20_000)
	for i := range many {
		many[i].Truncated = []string{span.Resource[0].Value.Text}
	}
	if _, err := encode(many); !errors.Is(err, otlp.ErrTooLarge) {
		t.Errorf("error = %v", err)
	}
}

func FuzzDecodeChunk(f *testing.F) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		f.Fatal(err)
	}

	chunk, err := encode([]otlp.Span{everything(), everything()})
	if err != nil {
		f.Fatal(err)
	}
	raw, err := r.DecodeAll(chunk, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)

	f.Fuzz(func(t *testing.T, raw []byte) {
		spans, err := otlp.DecodeChunk(w.EncodeAll(raw, nil))
		if err != nil {
			return
		}

		again, err := encode(spans)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := otlp.DecodeChunk(again); err != nil || !cmp.Equal(got, spans) {
			t.Fatalf("%+v, then %+v, %v", spans, got, err)
		}
	})
}

// BenchmarkChunk writes and reads chunks, and for comparison JSON compressed with zstd.
func BenchmarkChunk(b *testing.B) {
	spans := longTrace(100)
	chunk, err := encode(spans)
	if err != nil {
		b.Fatal(err)
	}

	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		b.Fatal(err)
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		b.Fatal(err)
	}

	inJSON := func() []byte {
		raw, err := json.Marshal(spans)
		if err != nil {
			b.Fatal(err)
		}
		return w.EncodeAll(raw, nil)
	}
	asJSON := inJSON()

	for _, bench := range []struct {
		name  string
		bytes int
		do    func() error
	}{
		{"encode", len(chunk), func() error { _, err := encode(spans); return err }},
		{"decode", len(chunk), func() error { _, err := otlp.DecodeChunk(chunk); return err }},
		{"encode-json", len(asJSON), func() error { inJSON(); return nil }},
		{"decode-json", len(asJSON), func() error {
			raw, err := r.DecodeAll(asJSON, nil)
			if err != nil {
				return err
			}
			var out []otlp.Span
			return json.Unmarshal(raw, &out)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.do(); err != nil {
					b.Fatal(err)
				}
			}
			perSpan(b, len(spans))
			b.ReportMetric(float64(bench.bytes)/float64(len(spans)), "B/span")
		})
	}
}
