package otlp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Spans are stored as chunks: one span after the other, field by field, compressed with zstd. A
// short text is written once, and then referred to by its number. Decoding copies no text.

const (
	// MaxChunkBytes bounds all chunks of a body together, before compression, and so each of them.
	MaxChunkBytes = 256 << 20
	// chunkVersion is the first byte before compression.
	chunkVersion = 1
	// maxShared is the longest text, in bytes, that is written only once.
	maxShared = 128
)

var errChunk = errors.New("the chunk is damaged")

// Neither of them starts a goroutine, because nothing is streamed.
var (
	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxChunkBytes))
)

// ByTrace groups spans by trace, in the order of the first span of each trace.
func ByTrace(spans []Span) [][]Span {
	var traces [][]Span
	index := map[string]int{}
	for _, s := range spans {
		i, ok := index[s.TraceID]
		if !ok {
			i = len(traces)
			index[s.TraceID] = i
			traces = append(traces, nil)
		}
		traces[i] = append(traces[i], s)
	}
	return traces
}

// EncodeChunk encodes spans of one trace as a chunk. The chunks of a body share room: EncodeChunk
// subtracts the chunk's bytes before compression from it, and returns [ErrTooLarge] if there are
// too few. A small body can have large chunks, because each trace repeats its resources.
func EncodeChunk(spans []Span, room *int) ([]byte, error) {
	w := writer{b: append(make([]byte, 0, estimateSize(spans)), chunkVersion), seen: map[string]uint64{}}
	w.uint(uint64(len(spans)))
	for i := range spans {
		if w.span(&spans[i]); len(w.b) > *room {
			return nil, fmt.Errorf("%w: the traces of the body hold over %d bytes, each with its resources: send fewer at once",
				ErrTooLarge, MaxChunkBytes)
		}
	}

	*room -= len(w.b)
	packed := compressor.EncodeAll(w.b, make([]byte, 0, len(w.b)/2))
	return bytes.Clone(packed), nil // without the spare capacity
}

// estimateSize returns about how many bytes the spans take before compression.
func estimateSize(spans []Span) (n int) {
	for i := range spans {
		n += 128 + len(spans[i].Name) + spans[i].Attributes.Size()
		for _, e := range spans[i].Events {
			n += 16 + e.Attributes.Size()
		}
	}
	return n
}

// Memory estimates how many bytes spans hold in memory. Spans often share their resource, which
// counts once: seen holds those that were counted, by their first attributes.
func Memory(spans []Span, seen map[*Attribute]bool) (n int) {
	const span, attribute = 400, 48
	of := func(a Attributes) int { return attribute*len(a) + a.Size() }

	for i := range spans {
		s := &spans[i]
		n += span + len(s.Name) + len(s.StatusMessage) + of(s.Attributes)
		for _, e := range s.Events {
			n += attribute + len(e.Name) + of(e.Attributes)
		}
		for _, l := range s.Links {
			n += attribute + of(l.Attributes)
		}
		if len(s.Resource) > 0 && !seen[&s.Resource[0]] {
			seen[&s.Resource[0]] = true
			n += of(s.Resource)
		}
	}
	return n
}

// DecodeChunk returns the spans of a chunk.
func DecodeChunk(chunk []byte) ([]Span, error) {
	b, err := decompressor.DecodeAll(chunk, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errChunk, err)
	}

	r := reader{s: string(b)}
	if v := r.byte(); v != chunkVersion {
		return nil, fmt.Errorf("%w: its version is %d", errChunk, v)
	}

	spans := make([]Span, r.len(minSpanBytes))
	for i := range spans {
		r.span(&spans[i])
	}
	if r.bad || r.s != "" {
		return nil, errChunk
	}
	return spans, nil
}

// writer appends to a chunk.
type writer struct {
	b        []byte
	seen     map[string]uint64 // the number of each short text, from 0
	resource Attributes        // of the previous span
}

func (w *writer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }
func (w *writer) int(n int64)   { w.b = binary.AppendVarint(w.b, n) }

// text writes twice the length of a text and then the text, or, for one that was written before,
// twice its number plus one.
func (w *writer) text(s string) {
	if len(s) <= maxShared {
		if n, ok := w.seen[s]; ok {
			w.uint(n<<1 | 1)
			return
		}
		w.seen[s] = uint64(len(w.seen))
	}
	w.uint(uint64(len(s)) << 1)
	w.b = append(w.b, s...)
}

// Flags of a span.
const (
	flagRemote = 1 << iota
	flagStub
	flagResource // its resource follows; without the flag it is that of the previous span
	flagLogged
)

// minSpanBytes is the size of an empty span.
const minSpanBytes = 15

func (w *writer) span(s *Span) {
	flags := byte(0)
	if s.RemoteParent {
		flags |= flagRemote
	}
	if s.Stub {
		flags |= flagStub
	}
	if s.Logged {
		flags |= flagLogged
	}

	if !slices.Equal(w.resource, s.Resource) {
		flags |= flagResource
	}
	w.b = append(w.b, flags)
	w.text(s.TraceID)
	w.text(s.SpanID)
	w.text(s.ParentID)
	w.text(s.Name)

	w.int(int64(s.Kind))
	w.int(s.Start)
	w.int(s.End)
	w.int(int64(s.Status))
	w.text(s.StatusMessage)
	w.attributes(s.Attributes)

	w.uint(uint64(len(s.Events)))
	for i := range s.Events {
		w.text(s.Events[i].Name)
		w.int(s.Events[i].Time)
		w.attributes(s.Events[i].Attributes)
	}
	w.uint(uint64(len(s.Links)))
	for i := range s.Links {
		w.text(s.Links[i].TraceID)
		w.text(s.Links[i].SpanID)
		w.attributes(s.Links[i].Attributes)
	}

	w.text(s.Scope.Name)
	w.text(s.Scope.Version)
	if flags&flagResource != 0 {
		w.attributes(s.Resource)
		w.resource = s.Resource
	}
	w.uint(uint64(len(s.Truncated)))
	for _, name := range s.Truncated {
		w.text(name)
	}
}

func (w *writer) attributes(a Attributes) {
	w.uint(uint64(len(a)))
	for i := range a {
		w.text(a[i].Key)
		w.b = append(w.b, byte(a[i].Value.Type))
		w.text(a[i].Value.Text)
	}
}

// reader reads what writer wrote. After the first error bad is set, and nothing more is read.
type reader struct {
	s        string
	bad      bool
	seen     []string
	resource Attributes
}

func (r *reader) fail() {
	r.s, r.bad = "", true
}

func (r *reader) byte() byte {
	if r.s == "" {
		r.fail()
		return 0
	}
	b := r.s[0]
	r.s = r.s[1:]
	return b
}

func (r *reader) uint() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	r.fail()
	return 0
}

func (r *reader) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

// len reads how many items follow, each of at least minBytes.
func (r *reader) len(minBytes int) int {
	n := r.uint()
	if n > uint64(len(r.s)/minBytes) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.uint()
	if n&1 == 1 {
		if n >>= 1; n < uint64(len(r.seen)) {
			return r.seen[n]
		}
		r.fail()
		return ""
	}
	if n >>= 1; n > uint64(len(r.s)) {
		r.fail()
		return ""
	}

	s := r.s[:n]
	r.s = r.s[n:]
	if len(s) <= maxShared {
		r.seen = append(r.seen, s)
	}
	return s
}

func (r *reader) span(s *Span) {
	flags := r.byte()
	s.RemoteParent = flags&flagRemote != 0
	s.Stub, s.Logged = flags&flagStub != 0, flags&flagLogged != 0
	s.TraceID, s.SpanID = r.text(), r.text()
	s.ParentID, s.Name = r.text(), r.text()

	s.Kind = int32(r.int())
	s.Start, s.End = r.int(), r.int()
	s.Status = int32(r.int())
	s.StatusMessage = r.text()
	s.Attributes = r.attributes()

	if n := r.len(3); n > 0 {
		s.Events = make([]Event, n)
		for i := range s.Events {
			s.Events[i] = Event{Name: r.text(), Time: r.int(), Attributes: r.attributes()}
		}
	}
	if n := r.len(3); n > 0 {
		s.Links = make([]Link, n)
		for i := range s.Links {
			s.Links[i] = Link{TraceID: r.text(), SpanID: r.text(), Attributes: r.attributes()}
		}
	}

	s.Scope = Scope{Name: r.text(), Version: r.text()}
	if flags&flagResource != 0 {
		r.resource = r.attributes()
	}
	s.Resource = r.resource
	if n := r.len(1); n > 0 {
		s.Truncated = make([]string, n)
		for i := range s.Truncated {
			s.Truncated[i] = r.text()
		}
	}
}

func (r *reader) attributes() Attributes {
	n := r.len(3)
	if n == 0 {
		return nil
	}

	a := make(Attributes, n)
	for i := range a {
		a[i].Key = r.text()
		a[i].Value.Type = ValueType(r.byte())
		a[i].Value.Text = r.text()
	}
	return a
}
