package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/view/words"
)

type exportCmd struct {
	Plans    []string `arg:"" name:"plan" help:"Id of a plan. The whole tree that it belongs to is exported, from the root on."`
	Contents string   `enum:",once" default:"" help:"once: write each long text, or part of it, once, and refer to it from then on. Shorter for long runs." placeholder:"once"`
	Output   string   `short:"o" help:"File to write instead of stdout. It appears under this name only when it is complete. A name that ends in .gz or .zst compresses it." placeholder:"FILE"`
	serverFlags
}

func (*exportCmd) Help() string {
	return `The output has one record per line, in the format of POST /api/v1/records. "actlog import" builds the same tree from
it on another server; on the same server it changes nothing. With "--contents once", the prompts of a long run take no more
room than what is new in each; "actlog import" puts them together again. Two things are not exported: exceptions, which the API
returns only once, and what is left of detail that the server dropped because of its age.`
}

const (
	// exportPatience is how long the request is repeated while the server is busy.
	exportPatience = time.Minute
	// exportStall is how long an export may wait for its next bytes.
	exportStall = 2 * time.Minute
)

func (c *exportCmd) Run(ctx context.Context, e *env, client *client) error {
	out, commit := e.stdout, func() error { return nil }
	if c.Output != "" && c.Output != "-" {
		f, err := createAtomic(c.Output)
		if err != nil {
			return fmt.Errorf("--output %s: %w", terminal.Line(c.Output), nameless(err))
		}
		defer f.discard()
		safe := terminal.New(f)
		out, commit = safe, func() error { return cmp.Or(safe.Flush(), f.commit()) }
	}

	what := "records"
	if c.Contents != "" { // some lines are no records
		what = "lines"
	}

	for _, id := range c.Plans {
		if err := client.whole(ctx, &id); err != nil {
			return err
		}
		records, err := client.export(ctx, id, c.query(), out)
		if err != nil {
			return err
		}

		if c.Output != "" {
			fmt.Fprintf(e.stderr, "plan %s: %s %s\n", terminal.Line(id), words.Grouped(records), what)
		}
	}

	if err := commit(); err != nil {
		return fmt.Errorf("write %s: %w", terminal.Line(c.Output), nameless(err))
	}
	return nil
}

func (c *exportCmd) query() url.Values {
	query := url.Values{}
	if c.Contents != "" {
		query.Set("contents", c.Contents)
	}
	return query
}

var errStalled = errors.New("no data for " + exportStall.String())

// export writes the records of a tree and returns their number. After an error the
// output is incomplete.
func (c *client) export(ctx context.Context, id string, query url.Values, out io.Writer) (records int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(exportStall, func() { cancel(errStalled) })
	defer stall.Stop()

	what := named("plan", id)
	deadline := time.Now().Add(exportPatience)
	path := withQuery(planPath(id)+"/records", query)

	resp, err := c.open(ctx, what, http.MethodGet, path, nil, nil)
	for wait := busyFor(err); wait > 0 && time.Now().Add(wait).Before(deadline); wait = busyFor(err) {
		if !sleep(ctx, wait) {
			return 0, context.Cause(ctx)
		}
		stall.Reset(exportStall)
		resp, err = c.open(ctx, what, http.MethodGet, path, nil, nil)
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()

	buf, last := make([]byte, 64<<10), byte('\n')
	for err == nil {
		var n int
		n, err = resp.Body.Read(buf)
		stall.Reset(exportStall)
		if n == 0 {
			continue
		}

		if _, err := out.Write(buf[:n]); err != nil {
			return records, fmt.Errorf("write %s: %w", what, err)
		}
		records += int64(bytes.Count(buf[:n], []byte("\n")))
		last = buf[n-1]
	}

	if errors.Is(err, io.EOF) {
		if last == '\n' && records > 0 {
			return records, nil
		}
		err = io.ErrUnexpectedEOF
	}
	return records, fmt.Errorf("%s: the server stopped after %s, so the output is incomplete: %w", what,
		words.Plural(records, "record"), cmp.Or(context.Cause(ctx), err))
}

// atomicFile is a file that gets its name only when it is complete. Only its owner can read it,
// also if it replaces a file that others could read. It compresses what
// is written to it if its name asks for that.
type atomicFile struct {
	io.Writer                 // compressor or buffer
	compressor io.WriteCloser // nil: none
	buffer     *bufio.Writer
	file       *os.File
	path       string
	partial    string // the name until then; the same as path if that is no regular file, such as a pipe
}

func createAtomic(path string) (f *atomicFile, err error) {
	f = &atomicFile{path: path}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		f.path = target
	}

	f.partial = f.path + "." + strings.ToLower(rand.Text()[:8]) + ".partial"
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		f.partial, flags = f.path, os.O_WRONLY
	}

	if f.file, err = os.OpenFile(f.partial, flags, 0o600); err != nil {
		return nil, err
	}
	f.buffer = bufio.NewWriterSize(f.file, 256<<10)

	switch filepath.Ext(path) {
	case ".gz":
		f.compressor = gzip.NewWriter(f.buffer)
	case ".zst":
		if f.compressor, err = zstd.NewWriter(f.buffer, zstd.WithEncoderConcurrency(1)); err != nil {
			f.discard()
			return nil, err
		}
	}

	f.Writer = cmp.Or[io.Writer](f.compressor, f.buffer)
	return f, nil
}

// commit completes the file and gives it its name.
func (f *atomicFile) commit() error {
	if f.compressor != nil {
		if err := f.compressor.Close(); err != nil {
			return err
		}
	}
	if err := f.buffer.Flush(); err != nil {
		return err
	}

	if f.partial == f.path {
		return f.file.Close()
	}
	if err := errors.Join(f.file.Sync(), f.file.Close()); err != nil {
		return err
	}
	return os.Rename(f.partial, f.path)
}

// discard removes the file, unless it was committed.
func (f *atomicFile) discard() {
	_ = f.file.Close()
	if f.partial != f.path {
		_ = os.Remove(f.partial)
	}
}
