package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
)

// recordFile is a file that records are read from, unpacked where it is packed.
type recordFile struct {
	name  string // as people know it
	size  int64  // as it lies on disk; -1: not known
	read  int64  // of size
	close []func() error
	text  *bufio.Reader
	line  int    // that was read last, from 1
	bytes []byte // of it
	// otlp is the media type of the exports of OpenTelemetry that the file holds
	// instead; empty: it holds records.
	otlp    string
	maxLine int // bytes of a line
	exports int // that were read, where each has its line
}

// openRecords opens a file that holds records. "-" is stdin.
func openRecords(path string, stdin io.Reader) (_ *recordFile, err error) {
	f := &recordFile{name: path, size: -1, maxLine: maxRecordLine}
	defer func() {
		if err != nil {
			_ = f.Close()
			err = fmt.Errorf("%s: %w", f.name, err)
		}
	}()
	if path == "-" {
		f.name = "stdin"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, errors.Unwrap(err) // its name is told already
		}
		f.close = append(f.close, file.Close)
		stdin = file
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			f.size = info.Size()
		}
	}
	f.text = bufio.NewReaderSize(&countingReader{stdin, &f.read}, 64<<10)
	if err := f.unpack(); err != nil {
		return nil, err
	}
	return f, f.recognise()
}

// Close closes the file.
func (f *recordFile) Close() (err error) {
	for i := len(f.close) - 1; i >= 0; i-- {
		err = errors.Join(err, f.close[i]())
	}
	return err
}

// unpack reads on unpacked where the file begins as gzip or zstd does.
func (f *recordFile) unpack() error {
	head, err := f.text.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(f.text)
		if err != nil {
			return cutOff(err)
		}
		f.text = bufio.NewReaderSize(r, 64<<10)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(f.text, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return cutOff(err)
		}
		f.close = append(f.close, func() error { r.Close(); return nil })
		f.text = bufio.NewReaderSize(r, 64<<10)
	}
	return nil
}

// recognise holds that what the file begins with is a format that import reads:
// records, one a line, or exports of OpenTelemetry.
func (f *recordFile) recognise() error {
	_, err := f.text.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("is empty")
	case err != nil:
		return cutOff(err)
	}
	head, _ := f.text.Peek(f.text.Buffered()) // all that is there already
	if isOTLPProtobuf(head) {
		f.otlp = otlp.TypeProtobuf
		return nil
	}
	if rest, marked := bytes.CutPrefix(head, []byte("\xef\xbb\xbf")); marked {
		_, _ = f.text.Discard(len(head) - len(rest))
		head = rest
	}
	if otlpJSON.Match(head) {
		f.otlp, f.maxLine = otlp.TypeJSON, maxExport
		return nil
	}
	line, _, whole := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	line = bytes.TrimSpace(line)
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errors.New("is UTF-16; import reads UTF-8 (iconv -f UTF-16 -t UTF-8 makes it that)")
	case len(line) == 0: // blank lines
	case whole && (len(line) == 1 && line[0] == '{' || line[0] == '[' && !bytes.HasSuffix(line, []byte("]"))):
		return errors.New("is JSON that is spread over lines; import reads a record a line (jq -c '.records[]' takes them out of a request, jq -c . joins lines)")
	case bytes.HasPrefix(line, []byte(`{"records"`)):
		return errors.New("is a request with records; import reads a record a line (jq -c '.records[]' takes them out)")
	case line[0] == '[':
		return errors.New("is a JSON list; import reads a record a line (jq -c '.[]' takes them out)")
	case line[0] != '{':
		return errors.New("is in no format that import reads: records as JSON, one a line, as \"actlog export\" writes them, or traces as OTLP has them")
	}
	return nil
}

// cutOff says what it means that a file ends before its end.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the packed file is cut off")
	}
	return err
}

const (
	// maxRecordLine bounds a line: a record has to fit a request.
	maxRecordLine = wire.MaxBodyBytes - 1
	// maxExport bounds an export of a file, which is held in memory.
	maxExport = 512 << 20
)

// otlpJSON is how an export begins. Those of metrics stand among the others where a
// collector writes all that it has to one file.
var otlpJSON = regexp.MustCompile(`^\s*\{\s*"resource(Spans|Logs|Metrics)"\s*:`)

// isOTLPProtobuf tells whether a file begins as an export does: with a resource, and
// bytes that no text has.
func isOTLPProtobuf(head []byte) bool {
	return head[0] == 1<<3|2 && bytes.ContainsFunc(head, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' })
}

// nextExport gives the next export of OpenTelemetry, of which there may be one a
// line; io.EOF after the last. The error is an [*record.InvalidError] where only the
// line is at fault.
func (f *recordFile) nextExport() ([]byte, error) {
	if f.otlp == otlp.TypeProtobuf {
		return f.rest(nil)
	}
	for {
		line, ended, err := f.readLine()
		var invalid *record.InvalidError
		switch {
		case errors.As(err, &invalid):
			return nil, err
		case err != nil && !errors.Is(err, io.EOF):
			return nil, cutOff(err)
		case len(line) > 0 && f.exports == 0 && ended && !json.Valid(line):
			return f.rest(line) // the file is one, spread over lines
		case len(line) > 0:
			f.exports++
			return line, nil
		case err != nil:
			return nil, io.EOF
		}
	}
}

// rest gives all that is left of the file, after what was read of it; io.EOF where
// that is nothing.
func (f *recordFile) rest(read []byte) ([]byte, error) {
	all := bytes.NewBuffer(bytes.Clone(read))
	n, err := io.Copy(all, io.LimitReader(f.text, maxExport+1-int64(len(read))))
	switch {
	case err != nil:
		return nil, cutOff(err)
	case all.Len() > maxExport:
		return nil, fmt.Errorf("the export is over %d bytes: cut it", maxExport)
	case n == 0 && len(read) == 0:
		return nil, io.EOF
	}
	return all.Bytes(), nil
}

// next reads the record of the next line that is not blank, and tells how long its
// line is; io.EOF after the last. The error is an [*record.InvalidError] where only
// the line is at fault.
func (f *recordFile) next() (c record.Change, bytes int, err error) {
	for {
		line, ended, err := f.readLine()
		var invalid *record.InvalidError
		switch {
		case errors.As(err, &invalid):
			return nil, 0, err
		case err != nil && !errors.Is(err, io.EOF):
			return nil, 0, cutOff(err)
		case len(line) > 0:
			c, err := decodeLine(line, ended)
			return c, len(line), err
		case err != nil:
			return nil, 0, io.EOF
		}
	}
}

// readLine reads a line without the white space around it. ended is false where the
// file ends before the line does. The error is an [*record.InvalidError] where the
// line is too long.
func (f *recordFile) readLine() (line []byte, ended bool, err error) {
	f.line++
	f.bytes = f.bytes[:0]
	long := false
	for {
		part, err := f.text.ReadSlice('\n')
		if long = long || len(f.bytes)+len(part) > f.maxLine; !long {
			f.bytes = append(f.bytes, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && (err == nil || errors.Is(err, io.EOF)) {
			return nil, true, invalid(record.CodeInvalidValue, fmt.Sprintf("the line is over %d bytes long", f.maxLine))
		}
		return bytes.TrimSpace(f.bytes), err == nil, err
	}
}

// decodeLine reads the record of a line, and says what is wrong with one that holds
// none.
func decodeLine(line []byte, ended bool) (record.Change, error) {
	if !utf8.Valid(line) {
		return nil, invalid(record.CodeMalformed, fmt.Sprintf("the line is not UTF-8 from byte %d on", len(validPart(line))+1))
	}
	c, err := wire.Decode(line)
	if err == nil {
		return c, nil
	}
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(line, new(json.RawMessage)), &syntax) {
		if !ended {
			return nil, invalid(record.CodeMalformed, "the file ends in the middle of this record: it is cut off")
		}
		return nil, invalid(record.CodeMalformed, fmt.Sprintf("the line is no JSON at byte %d: %s", syntax.Offset, syntax))
	}
	return nil, err
}

// validPart gives what stands before the first bytes that are no UTF-8.
func validPart(b []byte) []byte {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return b[:i]
		}
		i += n
	}
	return b
}

// countingReader counts what is read.
type countingReader struct {
	io.Reader
	n *int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	*r.n += int64(n)
	return n, err
}

func invalid(code record.Code, reason string) *record.InvalidError {
	return &record.InvalidError{Code: code, Reason: reason}
}
