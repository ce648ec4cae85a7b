package apitest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

// JSON encodes a value.
func JSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Lookup walks into a JSON value: "agentExecutionSequence.0.stepId". "#" is the length of a
// list.
func Lookup(t testing.TB, v any, path string) any {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case Obj:
			member, ok := x[name]
			if !ok {
				t.Fatalf("%s: no member %s", path, name)
			}
			v = member
		case []any:
			if name == "#" {
				v = float64(len(x))
				continue
			}
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(x) {
				t.Fatalf("%s: no item %s among %d", path, name, len(x))
			}
			v = x[i]
		default:
			t.Fatalf("%s: %s of %v", path, name, v)
		}
	}
	return v
}

// Expect compares the values at some paths of a JSON value.
func Expect(t testing.TB, got any, want Obj) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		var plain any
		if err := json.Unmarshal(JSON(t, want[path]), &plain); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain, Lookup(t, got, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// WantStatus checks a status and returns the answer.
func WantStatus(t testing.TB, a Answer, want int) Answer {
	t.Helper()
	if a.Status != want {
		t.Errorf("status %d, want %d: %.500s", a.Status, want, a.Body)
	}
	return a
}

// WantProblem checks a problem document and the field that it names; nil: none.
func WantProblem(t testing.TB, a Answer, status int, field any) {
	t.Helper()
	WantStatus(t, a, status)
	p, _ := a.JSON(t).(Obj)
	if diff := cmp.Diff(field, p["field"]); diff != "" {
		t.Errorf("field of %s (-want +got):\n%s", a.Body, diff)
	}
	if detail, _ := p["detail"].(string); strings.Contains(detail, "%%") || strings.Contains(detail, "%!") {
		t.Errorf("a format was not applied, or twice: %s", detail)
	}
}

// NewKey makes a key, and the line of a file of keys that accepts it.
func NewKey(t testing.TB, name string, scopes ...httpd.Scope) (secret, line string) {
	t.Helper()
	secret, line, err := httpd.NewKey(name, scopes)
	if err != nil {
		t.Fatal(err)
	}
	return secret, line
}

// Keys reads the lines of a file of keys.
func Keys(t testing.TB, lines ...string) *httpd.Keys {
	t.Helper()
	keys, err := httpd.ReadKeys(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Log is a log that can be read while it is written.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Lines returns the lines that contain all of some texts.
func (l *Log) Lines(texts ...string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}

// Gzip compresses b.
func Gzip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Zstd compresses b.
func Zstd(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(b, nil)
}

// Packers compress a body, by the Content-Encoding that says so: all that are taken.
var Packers = map[string]func(t testing.TB, b []byte) []byte{
	"": asItIs, "identity": asItIs, "gzip": Gzip, "zstd": Zstd,
	"snappy":          func(_ testing.TB, b []byte) []byte { return snappy.Encode(nil, b) },
	"x-snappy-framed": packer(func(w io.Writer) io.WriteCloser { return snappy.NewBufferedWriter(w) }),
	"zlib":            packer(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
	"deflate":         packer(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
	"lz4":             packer(func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) }),
}

func asItIs(_ testing.TB, b []byte) []byte { return b }

// packer returns a function that compresses a body with a writer.
func packer(open func(io.Writer) io.WriteCloser) func(testing.TB, []byte) []byte {
	return func(t testing.TB, b []byte) []byte {
		t.Helper()
		var out bytes.Buffer
		w := open(&out)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
}

// Decompress returns the content of an answer in an encoding; empty: as it is.
func Decompress(t testing.TB, encoding string, raw []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(raw)
	switch encoding {
	case "gzip":
		gz, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = gz
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}

	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
