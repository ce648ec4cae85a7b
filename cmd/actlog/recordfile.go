package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// recordFile is a file of records, decompressed as it is read.
type recordFile struct {
	name    string // for messages
	size    int64  // on disk; -1: unknown
	read    int64  // of size
	closers []io.Closer
	text    *bufio.Reader
	line    int    // the number of the line that was read last, from 1
	bytes   []byte // that line
	maxLine int    // bytes
	// otlp is the media type of the OpenTelemetry exports that the file holds instead of
	// records; empty: it holds records.
	otlp    string
	hadLine bool // the first line was returned
}

// openRecords opens a file of records. "-" is stdin, which is read until ctx ends.
func openRecords(ctx context.Context, path string, stdin io.Reader) (_ *recordFile, err error) {
	f := &recordFile{name: terminal.Line(path), size: -1, maxLine: maxRecordLine}
	defer func() {
		if err != nil {
			_ = f.Close()
			err = fmt.Errorf("%s: %w", f.name, err)
		}
	}()

	var content io.ReadCloser
	if path == "-" {
		f.name = "stdin"
		content = interruptible(ctx, stdin)
		f.closers = append(f.closers, content)
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, nameless(err) // the prefix names the file
		}
		content = file
		f.closers = append(f.closers, file)
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			f.size = info.Size()
		}
	}

	f.text = bufio.NewReaderSize(&countingReader{content, &f.read}, 64<<10)
	if err := f.decompress(); err != nil {
		return nil, err
	}
	return f, f.recognise()
}

func (f *recordFile) Close() (err error) {
	for _, c := range slices.Backward(f.closers) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// decompress makes f.text read the decompressed content if the file begins as gzip or zstd
// does.
func (f *recordFile) decompress() error {
	head, err := f.text.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	var content io.ReadCloser
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		content, err = gzip.NewReader(f.text)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var d *zstd.Decoder
		if d, err = zstd.NewReader(f.text, zstd.WithDecoderConcurrency(1)); err == nil {
			content = d.IOReadCloser()
		}
	default:
		return nil
	}

	if err != nil {
		return truncated(err)
	}
	f.closers = append(f.closers, content)
	f.text = bufio.NewReaderSize(content, 64<<10)
	return nil
}

// recognise detects the format of the file, and sets it to be read as such: records, one per
// line, or OpenTelemetry exports. The error says what to do about another format.
func (f *recordFile) recognise() error {
	_, err := f.text.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("is empty")
	case err != nil:
		return truncated(err)
	}

	head, _ := f.text.Peek(f.text.Buffered()) // what was read without waiting for more
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
		return errors.New("is UTF-16; import reads UTF-8 (convert it with iconv -f UTF-16 -t UTF-8)")
	case len(line) == 0: // blank lines
	case whole && (len(line) == 1 && line[0] == '{' || line[0] == '[' && !bytes.HasSuffix(line, []byte("]"))):
		return errors.New("is JSON that is spread over lines; import reads one record per line (jq -c '.records[]' " +
			"extracts them from a request, jq -c . joins lines)")
	case bytes.HasPrefix(line, []byte(`{"records"`)):
		return errors.New("is a request with records; import reads one record per line (jq -c '.records[]' extracts them)")
	case line[0] == '[':
		return errors.New("is a JSON list; import reads one record per line (jq -c '.[]' extracts them)")
	case line[0] != '{':
		return errors.New("is in no format that import reads: records as JSON, one per line, as \"actlog export\" writes " +
			"them, or OTLP traces")
	}
	return nil
}

// truncated explains an error of reading a compressed file that ends too early.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the compressed file is truncated")
	}
	return err
}

const (
	// maxRecordLine limits a line: a record has to fit into a request.
	maxRecordLine = wire.MaxBodyBytes - 1
	// maxExport limits an export, which is held in memory.
	maxExport = 512 << 20
)

// otlpJSON matches the beginning of an export. It includes metrics, because a collector may
// write all its signals into one file.
var otlpJSON = regexp.MustCompile(`^\s*\{\s*"resource(Spans|Logs|Metrics)"\s*:`)

// isOTLPProtobuf reports whether a file begins as an export does: with a resource, and with
// bytes that do not occur in text.
func isOTLPProtobuf(head []byte) bool {
	return head[0] == 1<<3|2 && bytes.ContainsFunc(head, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r'
	})
}

// next returns the next line that is not blank, or the next export, which may take several
// lines. It returns io.EOF after the last one. The error is an [*record.InvalidError] if only
// this line is at fault.
func (f *recordFile) next() ([]byte, error) {
	if f.otlp == otlp.TypeProtobuf {
		return f.rest(nil)
	}

	for {
		line, err := f.readLine()
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case len(line) > 0 && f.isFirstPartOfExport(line):
			return f.rest(line)
		case len(line) > 0:
			f.hadLine = true
			return line, nil
		case err != nil:
			return nil, io.EOF
		}
	}
}

// isFirstPartOfExport reports whether the file is one export in JSON that is spread over lines, of which line is the
// first.
func (f *recordFile) isFirstPartOfExport(line []byte) bool {
	return f.otlp != "" && !f.hadLine && f.lineEnded() && !json.Valid(line)
}

// rest returns what was read of the file followed by all that is left of it, or io.EOF if
// that is nothing.
func (f *recordFile) rest(read []byte) ([]byte, error) {
	all := bytes.NewBuffer(bytes.Clone(read))
	n, err := io.Copy(all, io.LimitReader(f.text, maxExport+1-int64(len(read))))
	switch {
	case err != nil:
		return nil, truncated(err)
	case all.Len() > maxExport:
		return nil, fmt.Errorf("the export is over %d bytes long: split it", maxExport)
	case n == 0 && len(read) == 0:
		return nil, io.EOF
	}
	return all.Bytes(), nil
}

// readLine returns the next line without the white space around it. The last line may come
// with io.EOF. A line that is too long is an [*record.InvalidError].
func (f *recordFile) readLine() ([]byte, error) {
	f.line++
	f.bytes = f.bytes[:0]
	long := false
	for {
		part, err := f.text.ReadSlice('\n')
		if long = long || len(f.bytes)+len(part) > f.maxLine; !long {
			f.bytes = append(f.bytes, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("after line %d: %w", f.line-1, truncated(err))
		case long:
			return nil, invalid(record.CodeInvalidValue, "the line is over %d bytes long", f.maxLine)
		}
		return bytes.TrimSpace(f.bytes), err
	}
}

// lineEnded reports whether the line that was read last ended before the file did.
func (f *recordFile) lineEnded() bool { return bytes.HasSuffix(f.bytes, []byte("\n")) }

// decode returns the record of the line that was read last, or nil and a content. The error, an
// [*record.InvalidError], says what is wrong with the line.
func (f *recordFile) decode(line []byte) (record.Change, wire.Content, error) {
	if !utf8.Valid(line) {
		valid := 0
		for r, n := utf8.DecodeRune(line); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(line[valid:]) {
			valid += n
		}
		return nil, wire.Content{}, invalid(record.CodeMalformed, "the line is not UTF-8 from byte %d on", valid+1)
	}

	c, has, err := wire.DecodeOnce(line)
	if err == nil {
		return c, has, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(line, new(json.RawMessage))); ok {
		if !f.lineEnded() {
			return nil, has, invalid(record.CodeMalformed, "the file ends in the middle of this record: it is truncated")
		}
		return nil, has, invalid(record.CodeMalformed, "the line is not JSON at byte %d: %s", syntax.Offset, syntax)
	}
	return nil, has, err
}

// countingReader adds the bytes that are read to n.
type countingReader struct {
	io.Reader
	n *int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	*r.n += int64(n)
	return n, err
}

func invalid(code record.Code, format string, args ...any) *record.InvalidError {
	return &record.InvalidError{Code: code, Reason: fmt.Sprintf(format, args...)}
}
