package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

type importCmd struct {
	Files []string `arg:"" name:"file" help:"File to read; - is stdin. One that is packed (gzip, zstd) is unpacked."`
	JSON  bool     `help:"Print the summary as JSON, a file a line."`
	serverFlags
}

// Help implements kong's: what the long help adds.
func (*importCmd) Help() string {
	return `Files hold records, one a line, as "actlog export" writes them and POST /api/v1/records takes them; or what exporters of
OpenTelemetry send: an export as protobuf or JSON, or one a line, as the file exporter of a collector writes them. What is
refused is named on stderr, as FILE:LINE: CODE: REASON; all else is written, and the exit code is 1. Whatever interrupts
an import, running it again does no harm.`
}

const (
	// importBatch is how many bytes of lines are sent at once.
	importBatch = 8 << 20
	// importPatience is how long a server that is away or busy is asked again.
	importPatience = 2 * time.Minute
	// hopeless is how many records of a file are refused, with none accepted,
	// before it is given up: it holds something else.
	hopeless = 1_000
)

// imported says what became of a file.
type imported struct {
	File     string `json:"file"`
	Records  int64  `json:"records"`
	Written  int64  `json:"written"`
	Rejected int64  `json:"rejected"`
	Error    string `json:"error,omitempty"` // why it was not read to its end
}

// Run implements the command.
func (c *importCmd) Run(ctx context.Context, e *env) error {
	client, err := newClient(c.serverFlags)
	if err != nil {
		return err
	}
	if err := checkFiles(c.Files); err != nil {
		return err
	}
	if err := client.mayWrite(ctx); err != nil { // one that is not there is not waited for
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
	var done []*imported
	var failed error // ends the import, as other files would meet the same
	for _, path := range c.Files {
		im := &importer{sink: sink, client: client, progress: p, imported: imported{File: path}}
		failed = im.file(ctx, path, e.stdin)
		done = append(done, &im.imported)
		if failed != nil {
			break
		}
	}
	p.end()
	if failed == nil {
		failed = toll(done)
	}
	return errors.Join(c.summary(e, done), failed)
}

// checkFiles makes sure that all files are there before anything is written.
func checkFiles(paths []string) error {
	var errs []error
	for _, path := range paths {
		if path == "-" {
			continue
		}
		switch info, err := os.Stat(path); {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", path, errors.Unwrap(err)))
		case info.IsDir():
			errs = append(errs, fmt.Errorf("%s: is a folder; name the files in it", path))
		}
	}
	return errors.Join(errs...)
}

// toll is an error where not everything is on record.
func toll(done []*imported) error {
	var records, rejected int64
	unread := 0
	for _, im := range done {
		records, rejected = records+im.Records, rejected+im.Rejected
		if im.Error != "" {
			unread++
		}
	}
	switch {
	case rejected > 0:
		return fmt.Errorf("%s of %s were rejected; the others are on record", grouped(rejected), plural(records, "record"))
	case unread > 0:
		return fmt.Errorf("%s could not be read to the end", plural(int64(unread), "file"))
	}
	return nil
}

func (c *importCmd) summary(e *env, done []*imported) error {
	if c.JSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetEscapeHTML(false)
		for _, im := range done {
			if err := enc.Encode(im); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tRECORDS\tWRITTEN\tREJECTED")
	for _, im := range done {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", clean(im.File), im.Records, im.Written, im.Rejected)
	}
	return w.Flush()
}

// importer sends the records of a file.
type importer struct {
	sink     *recorder.HTTPSink
	client   *client
	progress *progress
	imported

	batch []record.Change
	lines []int // of the batch
	bytes int   // of its lines
}

// file imports a file. What is wrong with it is told, and noted; the error is what
// other files would meet, too.
func (im *importer) file(ctx context.Context, path string, stdin io.Reader) error {
	f, err := openRecords(path, stdin)
	if err != nil {
		im.complain(err)
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	im.progress.begin(f.name, f.size)
	if f.otlp != "" {
		return im.exports(ctx, f)
	}
	for {
		c, n, err := f.next()
		var invalid *record.InvalidError
		switch {
		case errors.As(err, &invalid):
			im.Records++
			im.reject(f, f.line, invalid)
			if im.hopeless(f, len(im.batch)) {
				return nil
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			im.complain(fmt.Errorf("%s: after line %d: %w", f.name, f.line-1, err))
			return im.send(ctx, f)
		case err != nil:
			if im.Records == 0 {
				im.complain(fmt.Errorf("%s: holds no records", f.name))
			}
			return im.send(ctx, f)
		}
		im.Records++
		im.batch, im.lines, im.bytes = append(im.batch, c), append(im.lines, f.line), im.bytes+n
		if len(im.batch) == wire.MaxRecords || im.bytes >= importBatch {
			if err := im.send(ctx, f); err != nil {
				return err
			}
		}
	}
}

// send writes the batch, in the order of its lines: where records contradict each
// other, the later one may have to win.
func (im *importer) send(ctx context.Context, f *recordFile) error {
	if len(im.batch) == 0 {
		return nil
	}
	result, err := im.sink.Write(ctx, im.batch)
	if err != nil {
		im.Error = err.Error()
		return fmt.Errorf("%s: stopped before line %d; running this again goes over it anew, which does no harm: %w", f.name, im.lines[0], err)
	}
	im.Written += int64(result.Accepted)
	for _, r := range result.Rejected {
		im.reject(f, im.lines[r.Index], r.Err)
	}
	clear(im.batch)
	im.batch, im.lines, im.bytes = im.batch[:0], im.lines[:0], 0
	im.progress.at(f.read, im.Records)
	return nil
}

func (im *importer) reject(f *recordFile, line int, err *record.InvalidError) {
	im.Rejected++
	r := wire.Reject(0, err)
	fmt.Fprintf(im.progress, "%s:%d: %s: %s\n", f.name, line, r.Code, clean(r.Message))
}

// hopeless tells whether a file is given up, with so many good records not sent yet.
func (im *importer) hopeless(f *recordFile, waiting int) bool {
	if im.Written+int64(waiting) > 0 || im.Rejected < hopeless {
		return false
	}
	im.complain(fmt.Errorf("%s: of the first %s none is good: the others are left alone", f.name, plural(hopeless, "record")))
	return true
}

// complain tells what is wrong with the file as a whole.
func (im *importer) complain(err error) {
	im.Error = err.Error()
	fmt.Fprintln(im.progress, err)
}
