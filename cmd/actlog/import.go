package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

type importCmd struct {
	Files []string `arg:"" name:"file" help:"File to read; - is stdin. gzip and zstd are decompressed."`
	JSON  bool     `help:"Print the summary as JSON, one file per line."`
	serverFlags
}

func (*importCmd) Help() string {
	return `A file holds one record per line, as "actlog export" writes them and POST /api/v1/records takes them. Or it holds what
OpenTelemetry exporters send: one export as protobuf or JSON, or one JSON export per line, as the file exporter of a
collector writes them. A line may also be a span as OpenTelemetry's SDK for JavaScript has it, as in the file of GitHub
Copilot CLI. Each rejected record is reported on stderr as FILE:LINE: CODE: REASON. The others are written,
and the exit code is 1. If an import is interrupted, run it again: sending records twice does no harm.`
}

const (
	// importBatch is how many bytes of lines are sent in one request.
	importBatch = 8 << 20
	// importPatience is how long a request is repeated while the server is away or busy.
	importPatience = 2 * time.Minute
	// hopeless is how many records of a file may be rejected, with none accepted, before
	// the import skips the rest: the file holds something else.
	hopeless = 1_000
)

type imported struct {
	File     string `json:"file"`
	Records  int64  `json:"records"`
	Written  int64  `json:"written"`
	Rejected int64  `json:"rejected"`
	Error    string `json:"error,omitempty"` // why the file was not read to its end
}

func (c *importCmd) Run(ctx context.Context, e *env, client *client) error {
	if err := checkFiles(c.Files); err != nil {
		return err
	}
	if err := client.checkWritable(ctx); err != nil { // the import does not wait for a server to start
		return err
	}

	p := newProgress(e.stderr)
	defer p.end()
	sink, err := recorder.NewHTTP(c.Server, recorder.HTTPOptions{
		APIKey: c.APIKey, RetryFor: importPatience, Client: &http.Client{Timeout: importPatience},
		Logger: slog.New(slog.NewTextHandler(p, nil)),
	})
	if err != nil {
		return usageError("--server: " + err.Error())
	}

	var results []*imported
	for _, path := range c.Files {
		im := &importer{sink: sink, client: client, progress: p, imported: imported{File: path}}
		err = im.importFile(ctx, path, e.stdin)
		results = append(results, &im.imported)
		if err != nil { // the other files would meet it, too
			break
		}
	}

	p.end()
	if err == nil {
		err = checkComplete(results)
	}
	return errors.Join(c.summary(e, results), err)
}

// checkFiles checks that all files exist, before anything is written.
func checkFiles(paths []string) error {
	var errs []error
	for _, path := range paths {
		if path == "-" {
			continue
		}

		switch info, err := os.Stat(path); {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", terminal.Line(path), nameless(err)))
		case info.IsDir():
			errs = append(errs, fmt.Errorf("%s: is a folder; name the files in it", terminal.Line(path)))
		}
	}
	return errors.Join(errs...)
}

// checkComplete returns an error unless everything in the files was written.
func checkComplete(results []*imported) error {
	var records, rejected, unread int64
	for _, r := range results {
		records, rejected = records+r.Records, rejected+r.Rejected
		if r.Error != "" {
			unread++
		}
	}

	switch {
	case rejected > 0:
		return fmt.Errorf("%s of %s were rejected; the others are on record", words.Grouped(rejected),
			words.Plural(records, "record"))
	case unread > 0:
		return fmt.Errorf("%s could not be read to the end", words.Plural(unread, "file"))
	}
	return nil
}

func (c *importCmd) summary(e *env, results []*imported) error {
	if c.JSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetEscapeHTML(false)
		return encodeAll(enc, results)
	}
	return printTable(e.stdout, "FILE\tRECORDS\tWRITTEN\tREJECTED", results, func(r *imported) string {
		return fmt.Sprintf("%s\t%d\t%d\t%d", terminal.Line(r.File), r.Records, r.Written, r.Rejected)
	})
}

type importer struct {
	sink     *recorder.HTTPSink
	client   *client
	progress *progress
	imported

	// Records that were read and not sent yet, their lines, and the bytes of these lines and of texts
	// that were put together for them.
	batch []record.Change
	lines []int
	bytes int

	contents contents
	// Spans and log records that were read and not sent yet: full requests, and one that
	// is being filled.
	parts []otlp.Part
}

// importFile imports a file. It reports and notes problems of the file itself. The error that
// it returns is one that other files would meet, too.
func (im *importer) importFile(ctx context.Context, path string, stdin io.Reader) error {
	f, err := openRecords(ctx, path, stdin)
	if err != nil {
		im.complain(err)
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	defer im.contents.close()
	im.progress.begin(f.name, f.size)

	content := "records"
	if f.otlp != "" {
		content = "spans"
	}
	for {
		data, err := f.next()
		if err == nil {
			err = im.add(f, data)
		}

		if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
			im.Records++
			im.reject(f, f.line, invalid)
			if im.hopeless(f) {
				return nil
			}
			continue
		}

		ended := err != nil
		switch {
		case ended && !errors.Is(err, io.EOF):
			im.complain(fmt.Errorf("%s: %w", f.name, err))
		case ended && im.Records == 0:
			im.complain(fmt.Errorf("%s: holds no %s", f.name, content))
		}

		if err := im.sendRecords(ctx, f, ended); err != nil {
			return err
		}
		if err := im.sendParts(ctx, f, ended); err != nil || ended {
			return err
		}
	}
}

// add adds what a line holds: a record, an export, or a span of the SDK for JavaScript. A file of protobuf
// holds one export.
func (im *importer) add(f *recordFile, line []byte) error {
	if f.otlp == otlp.TypeProtobuf || otlpJSON.Match(line) {
		return im.addExport(cmp.Or(f.otlp, otlp.TypeJSON), line)
	}

	span, isSpan, err := otlp.SpanOfJS(line)
	switch {
	case err != nil:
		return invalid(record.CodeMalformed, "%s", err)
	case isSpan:
		im.addPart(span)
		return nil
	case f.otlp != "" && !isRecord.Match(line):
		return im.addExport(f.otlp, line)
	}
	return im.addRecord(f, line)
}

// isRecord matches a line that holds a record.
var isRecord = regexp.MustCompile(`"kind"\s*:\s*"`)

// addRecord adds the record of a line to the batch. A content is kept for the records behind it.
func (im *importer) addRecord(f *recordFile, line []byte) error {
	c, has, err := f.decode(line)
	switch {
	case err != nil:
		return err
	case c == nil:
		return im.contents.add(has)
	}

	joined, err := im.contents.join(c)
	if err != nil {
		return err
	}

	im.Records++
	im.batch, im.lines = append(im.batch, c), append(im.lines, f.line)
	im.bytes += len(line) + joined
	return nil
}

// sendRecords sends the batch if it is full, or if it is the last one. It keeps the order
// of the lines: where records contradict each other, the later one may have to win.
func (im *importer) sendRecords(ctx context.Context, f *recordFile, last bool) error {
	full := len(im.batch) == wire.MaxRecords || im.bytes >= importBatch
	if len(im.batch) == 0 || !full && !last {
		return nil
	}

	result, err := im.sink.Write(ctx, im.batch)
	if err != nil {
		return im.stopped(f, im.lines[0], err)
	}
	im.Written += int64(result.Accepted)
	for _, r := range result.Rejected {
		im.reject(f, im.lines[r.Index], r.Err)
	}

	clear(im.batch)
	im.batch, im.lines = im.batch[:0], im.lines[:0]
	im.bytes = 0
	im.progress.at(f.read, im.Records)
	return nil
}

// stopped notes that sending failed, and returns the error that ends the import.
func (im *importer) stopped(f *recordFile, line int, err error) error {
	im.Error = err.Error()
	return fmt.Errorf("%s: stopped before line %d: %w (run the import again: sending records twice does no harm)", f.name,
		max(line, 1), err)
}

func (im *importer) reject(f *recordFile, line int, err *record.InvalidError) {
	im.Rejected++
	r := wire.Reject(0, err)
	fmt.Fprintf(im.progress, "%s:%d: %s: %s\n", f.name, max(line, 1), r.Code, words.Clean(r.Message))
}

// hopeless reports whether the import skips the rest of the file.
func (im *importer) hopeless(f *recordFile) bool {
	if im.Records > im.Rejected || im.Rejected < hopeless {
		return false
	}
	im.complain(fmt.Errorf("%s: the first %s were all rejected; the rest is skipped", f.name,
		words.Plural(hopeless, "record")))
	return true
}

// complain reports a problem of the file as a whole.
func (im *importer) complain(err error) {
	im.Error = err.Error()
	fmt.Fprintln(im.progress, err)
}
