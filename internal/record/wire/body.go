package wire

import (
	"bufio"
	"bytes"
	"cmp"
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
// decompressed body as they are read, and may end the reading with an error. A negative number is
// of bytes that are held no longer. nil: no bound but MaxBodyBytes. The error says why the body as a
// whole cannot be read; it wraps [ErrTooLarge], [ErrUnsupported] or that of take.
func DecodeBody(body io.Reader, contentType, contentEncoding string, take func(bytes int64) error) ([]Item, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != TypeJSON && mediaType != TypeNDJSON {
		return nil, fmt.Errorf("%w content type %.80q: send %s or %s", ErrUnsupported, contentType, TypeJSON, TypeNDJSON)
	}

	plain, err := newPlainReader(body, contentEncoding, take)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	if mediaType == TypeNDJSON {
		return decodeLines(plain)
	}
	return decodeEnvelope(plain)
}

// ReadBody returns a body of any type, decompressed. size is how many bytes it has before that, if
// known. take and the errors are those of [DecodeBody].
func ReadBody(body io.Reader, size int64, contentEncoding string, take func(bytes int64) error) ([]byte, error) {
	plain, err := newPlainReader(body, contentEncoding, take)
	if err != nil {
		return nil, err
	}
	defer plain.Close()

	if plain.whole != nil {
		return plain.whole, nil
	}
	if plain.encoding != "" {
		size = 0
	}

	// With the right size from the start, a buffer leaves no smaller ones behind.
	all := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), MaxBodyBytes)+bytes.MinRead))
	if _, err := all.ReadFrom(plain); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// Beginning returns the first bytes of a body of any type, decompressed: at most n, and fewer if the
// body is shorter or cannot be read. take is that of [DecodeBody].
func Beginning(body io.Reader, contentEncoding string, n int, take func(bytes int64) error) []byte {
	plain, err := newPlainReader(body, contentEncoding, take)
	if err != nil {
		return nil
	}
	defer plain.Close()
	first := make([]byte, n)
	read, _ := io.ReadFull(plain, first) // the caller wants no more than there is
	return first[:read]
}

// plainReader reads a body, decompressed. It fails at its limit, instead of ending there.
type plainReader struct {
	io.Closer
	plain    io.Reader // what the decompressor returns
	whole    []byte    // all of it, if it had to be decompressed at once
	sent     *sentReader
	encoding string // empty: the body is not compressed
	left     int64
	take     func(bytes int64) error
	err      error // the first one but io.EOF: decoders hide it behind their own
}

// sentReader reads a body as it was sent, and keeps the first error but io.EOF: decompressors do
// not say whether it is theirs.
type sentReader struct {
	io.Reader
	err error
}

func (r *sentReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = cmp.Or(r.err, err)
	}
	return n, err
}

func newPlainReader(body io.Reader, encoding string, take func(bytes int64) error) (*plainReader, error) {
	r := &plainReader{
		sent: &sentReader{Reader: body}, encoding: strings.ToLower(strings.TrimSpace(encoding)), left: MaxBodyBytes,
		take: take,
	}
	unpack, ok := unpackers[r.encoding]
	if !ok {
		return nil, fmt.Errorf("%w content encoding %.80q: send %s", ErrUnsupported, encoding, encodings)
	}

	plain, err := unpack(r)
	switch {
	case r.err != nil:
		return nil, r.err
	case err != nil:
		return nil, r.unreadable(err)
	}
	r.Closer, r.plain = plain, plain
	return r, nil
}

// reserve takes bytes of memory, if the caller bounds it, and keeps why it may not.
func (r *plainReader) reserve(bytes int64) error {
	if r.take == nil {
		return nil
	}
	err := r.take(bytes)
	r.err = cmp.Or(r.err, err)
	return err
}

func (r *plainReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}

	n, err := r.plain.Read(p)
	switch {
	case r.err != nil: // the decompressor may not have more memory
		return 0, r.err
	case err != nil && (!errors.Is(err, io.EOF) || r.sent.err != nil):
		err = r.unreadable(err)
	}

	if r.left -= int64(n); r.left < 0 {
		n, err = 0, r.tooLarge()
	} else if n > 0 && r.whole == nil {
		if refused := r.reserve(int64(n)); refused != nil {
			n, err = 0, refused
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (r *plainReader) tooLarge() error {
	is := "is"
	if r.encoding != "" {
		is = "unpacks to"
	}
	return fmt.Errorf("%w: the body %s over %d bytes", ErrTooLarge, is, int64(MaxBodyBytes))
}

// unreadable returns the error for clients, of one that reading returned.
func (r *plainReader) unreadable(err error) error {
	switch {
	case errors.Is(r.sent.err, io.ErrUnexpectedEOF):
		return errors.New("the body is cut off: the connection ended before all of it had arrived")
	case r.sent.err != nil:
		return fmt.Errorf("read body: %w", r.sent.err)
	case strings.Contains(r.encoding, "snappy"): // it has no end
		return fmt.Errorf("the body is not valid %s, which Content-Encoding says it is, or it is cut off", r.encoding)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("the body is cut off: its %s data has no end", r.encoding)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("the body is zstd with a window of over %d bytes, or with a later window larger than the "+
			"first: compress it with a smaller one", int64(maxWindow))
	}
	return fmt.Errorf("the body is not valid %s, which Content-Encoding says it is", r.encoding)
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
func decodeEnvelope(body *plainReader) ([]Item, error) {
	dec := jsontext.NewDecoder(fullReader{body}, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	expect := func(want jsontext.Kind) error {
		token, err := dec.ReadToken()
		if err != nil {
			return notJSON(dec, body, err)
		}
		if token.Kind() != want {
			return fmt.Errorf(`the body must be an object {"records": [...]}; found %.40q at byte %d`, token.String(),
				dec.InputOffset())
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
			return nil, notJSON(dec, body, err)
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
				return nil, notJSON(dec, body, err)
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

	_, err := dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return items, nil
	case body.err != nil:
		return nil, body.err
	}
	return nil, fmt.Errorf("something follows the object at byte %d", dec.InputOffset())
}

// notJSON returns why the decoder of a body failed.
func notJSON(dec *jsontext.Decoder, body *plainReader, err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case body.err != nil:
		return body.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the body ends at byte %d, in the middle of a value", dec.InputOffset())
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is not JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	return fmt.Errorf("the body is not JSON at byte %d", dec.InputOffset())
}

// decodeLines reads one record per line, and skips blank lines.
func decodeLines(body io.Reader) ([]Item, error) {
	items := []Item{}
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return nil, err
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
