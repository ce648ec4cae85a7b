package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/record"
)

// The media types of a body of records.
const (
	TypeJSON   = "application/json"
	TypeNDJSON = "application/x-ndjson"
)

// ErrTooLarge means that a body or its number of records is over a limit.
var ErrTooLarge = errors.New("too large")

// ErrUnsupported means that a body has a type or an encoding that is not supported.
var ErrUnsupported = errors.New("unsupported")

// Item is an element of a body: a change, or why it is not one.
type Item struct {
	Change record.Change
	Err    *record.InvalidError
}

// DecodeBody reads the records of a body. An element that is not a record is an item with an
// error. take is called with the number of bytes that reading takes in memory, those of the
// decompressed body as they are read, and may end the reading with an error; nil: no bound but
// MaxBodyBytes. The error says why the body as a
// whole cannot be read; it wraps [ErrTooLarge], [ErrUnsupported] or that of take.
func DecodeBody(body io.Reader, contentType, contentEncoding string, take func(bytes int64) error) ([]Item, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != TypeJSON && mediaType != TypeNDJSON {
		return nil, fmt.Errorf("%w content type %.80q: send %s or %s", ErrUnsupported, contentType, TypeJSON, TypeNDJSON)
	}
	plain, err := decompress(body, contentEncoding, take)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	bounded := &boundedReader{r: plain, left: MaxBodyBytes, take: take}
	if mediaType == TypeNDJSON {
		return decodeLines(bounded)
	}
	return decodeEnvelope(bounded)
}

// ReadBody returns a body of any type, decompressed. size is how many bytes it has before that, if
// known. take and the errors are those of [DecodeBody].
func ReadBody(body io.Reader, size int64, contentEncoding string, take func(bytes int64) error) ([]byte, error) {
	plain, err := decompress(body, contentEncoding, take)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	if contentEncoding != "" {
		size = 0
	}
	// With the right size from the start, a buffer leaves no smaller ones behind.
	all := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), MaxBodyBytes)+bytes.MinRead))
	if _, err := all.ReadFrom(&boundedReader{r: plain, left: MaxBodyBytes, take: take}); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return all.Bytes(), nil
}

func decompress(body io.Reader, encoding string, take func(bytes int64) error) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(body), nil
	case "gzip":
		r, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("the body is not gzip: %w", err)
		}
		return r, nil
	case "zstd":
		return unzstd(bufio.NewReader(body), take)
	}
	return nil, fmt.Errorf("%w content encoding %.80q: send gzip, zstd or none", ErrUnsupported, encoding)
}

// The window of zstd is at most maxWindow bytes. One of minWindow is small enough for any body.
const (
	maxWindow = 16 << 20
	minWindow = 32 << 10
)

// unzstd decompresses zstd. The decoder holds the whole window from the start, however small the
// body is. The window of the first frame is taken, and no later one may be larger.
func unzstd(body *bufio.Reader, take func(bytes int64) error) (io.ReadCloser, error) {
	window := uint64(maxWindow)
	var head zstd.Header
	start, _ := body.Peek(zstd.HeaderMaxSize)
	if err := head.Decode(start); err == nil && !head.Skippable {
		window = head.WindowSize
		if head.SingleSegment {
			window = head.FrameContentSize
		}
		window = min(max(window, minWindow), maxWindow)
	}
	if take != nil {
		if err := take(int64(window)); err != nil {
			return nil, err
		}
	}
	r, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("the body is not zstd: %w", err)
	}
	return r.IOReadCloser(), nil
}

// boundedReader fails at its limit, instead of ending there.
type boundedReader struct {
	r    io.Reader
	left int64
	take func(bytes int64) error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: the body is over %d bytes", ErrTooLarge, int64(MaxBodyBytes))
	}
	if b.take != nil && n > 0 {
		if err := b.take(int64(n)); err != nil {
			return 0, err
		}
	}
	return n, err
}

// fullReader fills the buffer at each read. The JSON decoder scans white space again after
// every read: with reads that are small beside what it holds already, that would take time
// that grows with the square of a body's size.
type fullReader struct{ r io.Reader }

func (f fullReader) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = f.r.Read(p[n:])
		n += m
	}
	return n, err
}

var errTooMany = fmt.Errorf("%w: the body holds over %d records", ErrTooLarge, MaxRecords)

// decodeEnvelope reads {"records":[...]}.
func decodeEnvelope(body io.Reader) ([]Item, error) {
	dec := jsontext.NewDecoder(fullReader{body}, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	expect := func(want jsontext.Kind) error {
		token, err := dec.ReadToken()
		if err != nil {
			return unreadable(dec, err)
		}
		if token.Kind() != want {
			return fmt.Errorf(`the body must be an object {"records": [...]}; found %.40q at byte %d`, token.String(), dec.InputOffset())
		}
		return nil
	}
	if err := expect('{'); err != nil {
		return nil, err
	}
	items := []Item{}
	seen := false
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, unreadable(dec, err)
		}
		if name.String() != "records" || seen {
			return nil, fmt.Errorf(`the body must be an object with one member, "records"; found %q`, shown(name.String()))
		}
		seen = true
		if err := expect('['); err != nil {
			return nil, err
		}
		for dec.PeekKind() != ']' {
			if len(items) == MaxRecords {
				return nil, errTooMany
			}
			raw, err := dec.ReadValue()
			if err != nil {
				return nil, unreadable(dec, err)
			}
			items = append(items, item(raw))
		}
		if err := expect(']'); err != nil {
			return nil, err
		}
	}
	if err := expect('}'); err != nil {
		return nil, err
	}
	if !seen {
		return nil, errors.New(`the body must have a member "records"`)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		if err != nil && errors.Is(err, ErrTooLarge) {
			return nil, err
		}
		return nil, fmt.Errorf("something follows the object at byte %d", dec.InputOffset())
	}
	return items, nil
}

func unreadable(dec *jsontext.Decoder, err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the body ends at byte %d, in the middle of a value", dec.InputOffset())
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is not JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	return fmt.Errorf("read body: %w", err)
}

// decodeLines reads one record per line, and skips blank lines.
func decodeLines(body io.Reader) ([]Item, error) {
	items := []Item{}
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			if errors.Is(err, ErrTooLarge) {
				return nil, err
			}
			return nil, fmt.Errorf("read body: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if len(items) == MaxRecords {
				return nil, errTooMany
			}
			items = append(items, item(line))
		}
		if last {
			return items, nil
		}
	}
}

func item(raw []byte) Item {
	c, err := Decode(raw)
	if err != nil {
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) {
			invalid = &record.InvalidError{Code: record.CodeMalformed, Reason: err.Error()}
		}
		return Item{Err: invalid}
	}
	return Item{Change: c}
}
