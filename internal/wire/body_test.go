package wire_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/internal/wire"
)

// pack compresses a body.
func pack(t *testing.T, encoding, body string) string {
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
	for _, encoding := range []string{"gzip", "zstd"} {
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
			"damaged":               {packed[:len(packed)-6] + "\xff\xff" + packed[len(packed)-4:], "the body is not valid " + encoding},
			"followed by something": {packed + "more and more", "the body is not valid " + encoding},
			"a bomb":                {pack(t, encoding, bomb), "the body unpacks to over 67108864 bytes"},
		} {
			if encoding == "zstd" && name == "empty" {
				continue // zstd may be without any frame
			}
			for _, mediaType := range []string{wire.TypeJSON, wire.TypeNDJSON, ""} {
				if mediaType == wire.TypeJSON && name == "cut lines" {
					continue // they are no such JSON, cut or not
				}
				if name == "a bomb" && (encoding == "gzip") != (mediaType == wire.TypeJSON) {
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

// plainWords fails if an error shows names of Go and of its packages.
func plainWords(t *testing.T, message string) {
	t.Helper()
	for _, word := range []string{"jsontext", "gzip:", "flate", "zstd:", "unexpected EOF", "read error", "magic number", "checksum"} {
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
	for _, encoding := range []string{"", "gzip", "zstd"} {
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
		if _, err := wire.DecodeBody(strings.NewReader(packed), wire.TypeJSON, encoding, func(int64) error { return full }); !errors.Is(err, full) {
			t.Errorf("%q: %v", encoding, err)
		}
	}
}
