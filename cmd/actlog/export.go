package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

type exportCmd struct {
	Plans  []string `arg:"" name:"plan" help:"Id of a plan. The whole tree that it belongs to is exported, from its root on."`
	Output string   `short:"o" help:"File to write, in place of stdout. It is there when it is whole; a name that ends in .gz or .zst has it packed." placeholder:"FILE"`
	serverFlags
}

// Help implements kong's: what the long help adds.
func (*exportCmd) Help() string {
	return `The records go one a line, as POST /api/v1/records takes them. "actlog import" makes the same tree of them at another
server; at the same one it changes nothing. Exceptions, which are for one reader once, are not among them, nor is what is
left of detail that was dropped for its age.`
}

const (
	// exportPatience is how long a server that is busy is asked again.
	exportPatience = time.Minute
	// exportStall is how long an export may stand still.
	exportStall = 2 * time.Minute
)

// Run implements the command.
func (c *exportCmd) Run(ctx context.Context, e *env) error {
	client, err := newClient(c.serverFlags)
	if err != nil {
		return err
	}
	if c.Output == "" || c.Output == "-" {
		return c.export(ctx, e, client, e.stdout)
	}
	f, err := createWhole(c.Output)
	if err != nil {
		return fmt.Errorf("--output %s: %w", c.Output, err)
	}
	defer f.discard()
	if err := c.export(ctx, e, client, f); err != nil {
		return err
	}
	if err := f.keep(); err != nil {
		return fmt.Errorf("writing %s: %w", c.Output, err)
	}
	return nil
}

func (c *exportCmd) export(ctx context.Context, e *env, client *client, out io.Writer) error {
	for _, id := range c.Plans {
		records, err := client.export(ctx, id, out)
		if err != nil {
			return err
		}
		if c.Output != "" {
			fmt.Fprintf(e.stderr, "plan %s: %s records\n", clean(id), grouped(records))
		}
	}
	return nil
}

var errStalled = errors.New("nothing came for " + exportStall.String())

// export writes the records of a tree and tells how many they were. An error means
// that they are not whole.
func (c *client) export(ctx context.Context, id string, out io.Writer) (records int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(exportStall, func() { cancel(errStalled) })
	defer stall.Stop()
	what := "plan " + id
	deadline := time.Now().Add(exportPatience)
	resp, err := c.open(ctx, what, http.MethodGet, planPath(id)+"/records")
	for busy := (*busyError)(nil); errors.As(err, &busy) && time.Now().Add(busy.after).Before(deadline); {
		select {
		case <-time.After(busy.after):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		stall.Reset(exportStall)
		resp, err = c.open(ctx, what, http.MethodGet, planPath(id)+"/records")
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	buf, last := make([]byte, 64<<10), byte('\n')
	for {
		n, err := resp.Body.Read(buf)
		stall.Reset(exportStall)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return records, fmt.Errorf("writing %s: %w", what, err)
			}
			records += int64(bytes.Count(buf[:n], []byte("\n")))
			last = buf[n-1]
		}
		switch {
		case errors.Is(err, io.EOF) && last == '\n' && records > 0:
			return records, nil
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return records, fmt.Errorf("the server broke off after %s of %s: what was written is not whole: %w", plural(records, "record"), what, err)
		}
	}
}

// wholeFile is a file that has its name only when it is whole.
type wholeFile struct {
	path    string
	partial string // its name until then; path, where that is no plain file, such as a pipe
	file    *os.File
	buffer  *bufio.Writer
	packer  io.WriteCloser // nil: none
}

func createWhole(path string) (f *wholeFile, err error) {
	f = &wholeFile{path: path}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		f.path = target
	}
	f.partial = f.path + "." + strings.ToLower(rand.Text()[:8]) + ".partial"
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		f.partial, flags = f.path, os.O_WRONLY
	}
	if f.file, err = os.OpenFile(f.partial, flags, 0o666); err != nil {
		return nil, err
	}
	f.buffer = bufio.NewWriterSize(f.file, 256<<10)
	switch filepath.Ext(path) {
	case ".gz":
		f.packer = gzip.NewWriter(f.buffer)
	case ".zst":
		if f.packer, err = zstd.NewWriter(f.buffer, zstd.WithEncoderConcurrency(1)); err != nil {
			f.discard()
			return nil, err
		}
	}
	return f, nil
}

func (f *wholeFile) Write(p []byte) (int, error) {
	if f.packer != nil {
		return f.packer.Write(p)
	}
	return f.buffer.Write(p)
}

// keep ends the file and gives it its name.
func (f *wholeFile) keep() error {
	if f.packer != nil {
		if err := f.packer.Close(); err != nil {
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

// discard removes the file, unless it was kept.
func (f *wholeFile) discard() {
	_ = f.file.Close()
	if f.partial != f.path {
		_ = os.Remove(f.partial)
	}
}
