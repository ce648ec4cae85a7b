package wire_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/actlog/actlog/internal/record/wire"
)

// pack compresses a body.
func pack(t testing.TB, encoding, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	case "zlib", "deflate":
		w = zlib.NewWriter(&b)
	case "lz4":
		w = lz4.NewWriter(&b)
	case "x-snappy-framed":
		w = snappy.NewBufferedWriter(&b)
	case "snappy":
		return string(snappy.Encode(nil, []byte(body)))
	default:
		return body
	}

	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestUnreadableBodies (N26) expects each error to say what is wrong with the body, as a client sent
// it, and none to show how it is read here.
func TestUnreadableBodies(t *testing.T) {
	t.Parallel()
	const envelope = `{"records":[{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}]}`
	bomb := `{"records":[` + strings.Repeat(" ", wire.MaxBodyBytes) + `]}`
	for _, encoding := range []string{"gzip", "zstd", "zlib", "deflate", "lz4"} {
		packed := pack(t, encoding, envelope)
		text := pack(t, encoding, strings.Repeat(envelope+"\n", 100))
		for name, tt := range map[string]struct{ body, want string }{
			"cut behind the object": {packed[:len(packed)-1], "the body is cut off: its " + encoding + " data has no end"},
			"cut by eight bytes":    {packed[:len(packed)-8], "the body is cut off"},
			"cut in the object":     {packed[:len(packed)/2], "the body is cut off"},
			"cut in the head":       {packed[:3], "the body is cut off"},
			"cut lines":             {text[:len(text)-2], "the body is cut off"},
			"empty":                 {"", "the body is cut off"},
			"not compressed":        {envelope, "the body is not valid " + encoding},
			"damaged":               {flipped(flipped(packed, 6), 2), "the body is not valid " + encoding},
			"followed by something": {packed + "more and more", "the body is not valid " + encoding},
			"a bomb":                {pack(t, encoding, bomb), "the body unpacks to over 67108864 bytes"},
		} {
			if name == "empty" && (encoding == "zstd" || encoding == "lz4") {
				continue // both may be without any frame
			}
			for _, mediaType := range []string{wire.TypeJSON, wire.TypeNDJSON, ""} {
				if mediaType == wire.TypeJSON && name == "cut lines" {
					continue // they are no such JSON, cut or not
				}
				if name == "a bomb" && (encoding == "zstd") == (mediaType == wire.TypeJSON) {
					continue // each takes a second
				}

				var err error
				if mediaType == "" {
					_, err = wire.ReadBody(strings.NewReader(tt.body), 0, encoding, nil)
				} else {
					_, err = wire.DecodeBody(strings.NewReader(tt.body), mediaType, encoding, nil)
				}

				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s %s as %q: %v, want %q", encoding, name, mediaType, err, tt.want)
				}
				if err != nil {
					plainWords(t, err.Error())
				}
				if name == "a bomb" && !errors.Is(err, wire.ErrTooLarge) {
					t.Errorf("%s %s as %q: %v", encoding, name, mediaType, err)
				}
			}
		}
	}

	for body, want := range map[string]string{
		bomb:                     "the body is over 67108864 bytes",
		`{"records":[{"kind":`:   "in the middle of a value",
		envelope + "x":           "something follows the object at byte",
		`{"records":[}`:          "not JSON at byte",
		`{"records":[01]}`:       "not JSON at byte",
		`{"records" [1]}`:        "not JSON at byte",
		"{\"records\":[\"\x01\"": "not JSON at byte",
	} {
		_, err := wire.DecodeBody(strings.NewReader(body), wire.TypeJSON, "", nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", body, err, want)
			continue
		}
		plainWords(t, err.Error())
	}
}

// flipped returns a body with other bits in the byte that is so far from its end.
func flipped(body string, fromEnd int) string {
	at := len(body) - fromEnd
	return body[:at] + string([]byte{^body[at]}) + body[at+1:]
}

// plainWords fails if an error shows names of Go and of its packages.
func plainWords(t *testing.T, message string) {
	t.Helper()
	for _, word := range []string{
		"jsontext", "gzip:", "flate:", "zlib:", "lz4:", "s2:", "snappy:", "zstd:", "unexpected EOF", "read error",
		"magic number", "checksum",
	} {
		if strings.Contains(message, word) {
			t.Errorf("%q in %q", word, message)
		}
	}
}

// broken fails with an error of its own after its text.
type broken struct {
	io.Reader
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return n, err
}

// TestErrorOfTheConnection (N26): the error of the body itself is no fault of what it says, and
// callers recognise it.
func TestErrorOfTheConnection(t *testing.T) {
	t.Parallel()
	mine := errors.New("too slow")
	for _, encoding := range []string{"", "gzip", "zstd", "zlib", "deflate", "lz4", "snappy", "x-snappy-framed"} {
		packed := pack(t, encoding, `{"records":[{"kind":"plan"}]}`)
		for _, n := range []int{0, 2, len(packed) - 2} {
			_, err := wire.DecodeBody(broken{strings.NewReader(packed[:n]), mine}, wire.TypeJSON, encoding, nil)
			if !errors.Is(err, mine) {
				t.Errorf("%q after %d bytes: %v", encoding, n, err)
			}

			_, err = wire.DecodeBody(broken{strings.NewReader(packed[:n]), io.ErrUnexpectedEOF}, wire.TypeJSON, encoding, nil)
			if err == nil || !strings.Contains(err.Error(), "the connection ended before") {
				t.Errorf("%q after %d bytes: %v", encoding, n, err)
			}
		}

		full := errors.New("no room")
		if _, err := wire.DecodeBody(strings.NewReader(packed), wire.TypeJSON, encoding, func(int64) error {
			return full
		}); !errors.Is(err, full) {
			t.Errorf("%q: %v", encoding, err)
		}
	}
}

// TestEncodings: a body comes out as it went in, in each encoding of the OpenTelemetry Collector, whether it
// is small, large, random or empty, also in several pieces where the encoding allows that.
func TestEncodings(t *testing.T) {
	t.Parallel()
	random := make([]byte, 9<<20)
	source := rand.NewChaCha8([32]byte{20})
	_, _ = source.Read(random) // never fails
	texts := map[string]string{
		"small": `{"records":[]}`, "large": strings.Repeat("a text that repeats, and again; ", 1<<18),
		"random": string(random), "empty": "",
	}

	raw := func(text string) string {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.DefaultCompression)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text) // a buffer never fails
		_ = w.Close()
		return b.String()
	}

	for name, text := range texts {
		for _, encoding := range []string{
			"", "identity", "gzip", "GZIP", " zstd", "zlib", "deflate", "lz4", "snappy", "x-snappy-framed",
		} {
			plain := strings.ToLower(strings.TrimSpace(encoding))
			bodies := map[string]string{"": pack(t, plain, text)}
			switch plain {
			case "deflate":
				bodies["raw"] = raw(text)
			case "snappy":
				if text != "" {
					bodies["framed"] = pack(t, "x-snappy-framed", text)
				}
			}

			for form, body := range bodies {
				for _, size := range []int64{-1, 0, int64(len(body))} {
					read, err := wire.ReadBody(strings.NewReader(body), size, encoding, nil)
					if err != nil || string(read) != text {
						t.Errorf("%s %s %s: %d bytes, %v, want %d", encoding, form, name, len(read), err, len(text))
					}
				}
				first := wire.Beginning(strings.NewReader(body), encoding, 1000, nil)
				if string(first) != text[:min(1000, len(text))] {
					t.Errorf("%s %s %s: it begins with %.100q", encoding, form, name, first)
				}
			}
		}
	}

	for _, encoding := range []string{"gzip", "zstd", "lz4", "x-snappy-framed"} {
		body := pack(t, encoding, texts["large"]) + pack(t, encoding, texts["small"]) + pack(t, encoding, "") +
			pack(t, encoding, "end")
		read, err := wire.ReadBody(strings.NewReader(body), -1, encoding, nil)
		if want := texts["large"] + texts["small"] + "end"; err != nil || string(read) != want {
			t.Errorf("%s in pieces: %d bytes, %v, want %d", encoding, len(read), err, len(want))
		}
	}
}

// TestUnreadableSnappy: snappy has no end, so a body that is cut off is one that is damaged.
func TestUnreadableSnappy(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(`{"kind":"plan"} and other words, `, 8000) // several chunks
	length := func(n uint64, more string) string { return string(binary.AppendUvarint(nil, n)) + more }

	for encoding, bodies := range map[string]map[string]string{
		"snappy": {
			"cut":                   pack(t, "snappy", text)[:5000],
			"followed by something": pack(t, "snappy", text) + "more",
			"two":                   pack(t, "snappy", text) + pack(t, "snappy", text),
			"not compressed":        text,
			"empty":                 "",
			"a length without text": length(60<<20, "\x00a"),
			"a length of no number": strings.Repeat("\xff", 12),
			"framed and cut":        pack(t, "x-snappy-framed", text)[:5000],
		},
		"x-snappy-framed": {
			"cut":             pack(t, "x-snappy-framed", text)[:5000],
			"cut in the head": pack(t, "x-snappy-framed", text)[:7],
			"not compressed":  text,
			"a block":         pack(t, "snappy", text),
			"damaged":         strings.Replace(pack(t, "x-snappy-framed", text), "words", "WORDS", 1),
		},
	} {
		for name, body := range bodies {
			_, err := wire.ReadBody(strings.NewReader(body), int64(len(body)), encoding, nil)
			if err == nil || !strings.Contains(err.Error(),
				"the body is not valid "+encoding+", which Content-Encoding says it is, or it is cut off") {
				t.Errorf("%s %s: %v", encoding, name, err)
			}
		}
	}

	large := strings.Repeat("a", wire.MaxBodyBytes+1)
	for body, encoding := range map[string]string{
		pack(t, "snappy", large): "snappy", pack(t, "x-snappy-framed", large): "x-snappy-framed",
		length(1<<62, "\x00a"): "snappy",
	} {
		_, err := wire.ReadBody(strings.NewReader(body), -1, encoding, nil)
		if !errors.Is(err, wire.ErrTooLarge) || !strings.Contains(err.Error(), "the body unpacks to over 67108864 bytes") {
			t.Errorf("%s: %v", encoding, err)
		}
	}
}

// TestRoomOfEncodings: what reading a body holds is taken before it is there, and at most that which the
// body needs.
func TestRoomOfEncodings(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	text := strings.Repeat("0123456789abcdef", size/16)

	lz4Of := func(block lz4.BlockSize, text string) string {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(lz4.BlockSizeOption(block)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text) // a buffer never fails
		_ = w.Close()
		return b.String()
	}
	legacy := func(text string) string {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(lz4.LegacyOption(true)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text) // a buffer never fails
		_ = w.Close()
		return b.String()
	}

	skipped := "\x5a\x2a\x4d\x18\x05\x00\x00\x00frame"
	for name, tt := range map[string]struct {
		encoding, body string
		least, most    int64
	}{
		"plain":               {"", text, size, size},
		"gzip":                {"gzip", pack(t, "gzip", text), size, size},
		"zlib":                {"zlib", pack(t, "zlib", text), size, size},
		"deflate":             {"deflate", pack(t, "deflate", text), size, size},
		"snappy in frames":    {"x-snappy-framed", pack(t, "x-snappy-framed", text), size, size},
		"snappy":              {"snappy", pack(t, "snappy", text), size, size + size/10},
		"lz4":                 {"lz4", pack(t, "lz4", text), size + 8<<20, size + 9<<20},
		"lz4 of small blocks": {"lz4", lz4Of(lz4.Block64Kb, text), size + 128<<10, size + 300<<10},
		"lz4, then larger blocks": {
			"lz4", lz4Of(lz4.Block64Kb, text) + lz4Of(lz4.Block1Mb, "") + lz4Of(lz4.Block256Kb, ""), size + 2<<20, size + 3<<20,
		},
		"lz4, something before": {"lz4", skipped + lz4Of(lz4.Block64Kb, text) + skipped, size + 128<<10, size + 300<<10},
	} {
		var taken, most int64
		read, err := wire.ReadBody(strings.NewReader(tt.body), -1, tt.encoding, func(n int64) error {
			taken += n
			most = max(most, taken)
			return nil
		})

		if err != nil || string(read) != text {
			t.Errorf("%s: %d bytes, %v", name, len(read), err)
		}
		if most < tt.least || most > tt.most {
			t.Errorf("%s: %d bytes were taken, want %d to %d", name, most, tt.least, tt.most)
		}
		if taken < size {
			t.Errorf("%s: only %d bytes are still held", name, taken)
		}
	}

	full := errors.New("no room")
	for name, tt := range map[string]struct {
		encoding, body string
		room           int64
	}{
		"snappy that unpacks to more": {"snappy", pack(t, "snappy", text), size - 1},
		"lz4 of large blocks":         {"lz4", pack(t, "lz4", "small"), 8<<20 - 1},
		"lz4, then larger blocks":     {"lz4", lz4Of(lz4.Block64Kb, "small") + lz4Of(lz4.Block4Mb, "large"), 1 << 20},
	} {
		left := tt.room
		_, err := wire.ReadBody(strings.NewReader(tt.body), -1, tt.encoding, func(n int64) error {
			if left -= n; left < 0 {
				return full
			}
			return nil
		})

		if !errors.Is(err, full) {
			t.Errorf("%s: %v, want that there is no room", name, err)
		}
	}

	for name, body := range map[string]string{
		"legacy": legacy(text), "legacy, later": lz4Of(lz4.Block64Kb, "small") + legacy(text),
		"a dictionary":               "\x04\x22\x4d\x18\x61\x40\x01\x00\x00\x00\x00",
		"blocks of no size":          "\x04\x22\x4d\x18\x60\x00\x00",
		"a block larger than blocks": lz4Of(lz4.Block64Kb, "")[:7] + "\xff\xff\xff\x7f" + text,
	} {
		if _, err := wire.ReadBody(strings.NewReader(body), -1, "lz4", nil); err == nil ||
			!strings.Contains(err.Error(), "the body is not valid lz4") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRoomOfABlock checks that the capacity of the block that snappy needs is taken before the block has it, that of a
// smaller one that is copied until then as well, and that all but the text is returned.
func TestRoomOfABlock(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	text := make([]byte, 4<<20)
	_, _ = random.Read(text[:1<<20]) // it never fails; what is random cannot be compressed
	packed := pack(t, "snappy", string(text))
	const capacity = 2 << 20 // for a block of more than 1<<20 bytes

	var taken, most int64
	read, err := wire.ReadBody(strings.NewReader(packed), -1, "snappy", func(n int64) error {
		taken += n
		most = max(most, taken)
		return nil
	})
	if err != nil || string(read) != string(text) {
		t.Fatalf("%d bytes, %v", len(read), err)
	}
	if size := int64(len(text)); most != size+capacity || taken != size {
		t.Errorf("at most %d bytes were taken and %d at the end, of a text of %d", most, taken, size)
	}

	full := errors.New("no room")
	for _, room := range []int64{0, 4 << 10, 64 << 10, 256 << 10} {
		left, body := room, strings.NewReader(packed)
		_, err := wire.ReadBody(body, -1, "snappy", func(n int64) error {
			if left -= n; left < 0 {
				return full
			}
			return nil
		})

		const ahead = 4 << 10 // what is read to find out what the body is
		if got := body.Size() - int64(body.Len()); !errors.Is(err, full) || got > room+ahead {
			t.Errorf("in %d bytes %d were read, and then: %v", room, got, err)
		}
	}
}
