package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// addExport cuts an export into parts that a server accepts.
func (im *importer) addExport(mediaType string, export []byte) error {
	parts, err := otlp.Cut(mediaType, export, importBatch, otlp.MaxSpans)
	if err != nil {
		return invalid(record.CodeMalformed, "%s", err)
	}
	for _, p := range parts {
		im.addPart(p)
	}
	return nil
}

// addPart joins a part with the one before it, as far as they fit into one request.
func (im *importer) addPart(p otlp.Part) {
	im.Records += int64(p.Count)
	if p.Count == 0 {
		return
	}

	if n := len(im.parts); n > 0 {
		last := &im.parts[n-1]
		if last.Signal == p.Signal && len(last.Body)+len(p.Body) <= importBatch && last.Count+p.Count <= otlp.MaxSpans {
			last.Body, last.Count = append(last.Body, p.Body...), last.Count+p.Count
			return
		}
	}

	im.parts = append(im.parts, p)
}

// sendParts sends the parts that are full, or all of them if they are the last ones.
func (im *importer) sendParts(ctx context.Context, f *recordFile, last bool) error {
	for len(im.parts) > 1 || last && len(im.parts) > 0 {
		p := im.parts[0]
		rejected, reason, err := im.client.exportOTLP(ctx, p, im.progress)
		if failed, ok := errors.AsType[*callError](err); ok && failed.refused {
			rejected, reason = int64(p.Count), failed.Error()
		} else if err != nil {
			return im.stopped(f, f.line, err)
		}

		im.Written += int64(p.Count) - rejected
		im.Rejected += rejected
		switch {
		case rejected > 0:
			fmt.Fprintf(im.progress, "%s: %s of %s were rejected: %s\n", f.name, words.Grouped(rejected),
				words.Plural(int64(p.Count), "span"), words.Clean(reason))
		case reason != "":
			fmt.Fprintf(im.progress, "%s: %s\n", f.name, words.Clean(reason))
		}

		im.progress.at(f.read, im.Records)
		im.parts = slices.Delete(im.parts, 0, 1)
	}

	return nil
}

// exportOTLP sends a part until the server answers, but not longer than importPatience. It
// returns how many spans or log records the server rejected, and why. If it rejected none, the
// reason is a warning, or empty.
func (c *client) exportOTLP(
	ctx context.Context, p otlp.Part, log io.Writer,
) (rejected int64, reason string, err error) {
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, err = w.Write(p.Body)
	if err := errors.Join(err, w.Close()); err != nil {
		return 0, "", err
	}

	deadline := time.Now().Add(importPatience)
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		answer, err := c.postOTLP(ctx, p.Signal, body.Bytes())
		if err == nil {
			return otlp.Partial(answer)
		}

		failed, ok := errors.AsType[*callError](err)
		if !ok || failed.refused || ctx.Err() != nil {
			return 0, "", err
		}

		wait := cmp.Or(failed.retryAfter, pause)
		if time.Now().Add(wait).After(deadline) {
			return 0, "", err
		}
		fmt.Fprintf(log, "%v; retrying in %v\n", err, wait)
		if !sleep(ctx, wait) {
			return 0, "", ctx.Err()
		}
	}
}

// postOTLP sends a body once, and returns the answer.
func (c *client) postOTLP(ctx context.Context, signal otlp.Signal, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, importPatience)
	defer cancel()
	what := "write " + string(signal)
	header := http.Header{"Content-Type": {otlp.TypeProtobuf}, "Content-Encoding": {"gzip"}}

	resp, err := c.open(ctx, what, http.MethodPost, signal.Path(), header, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.readAll(what, io.LimitReader(resp.Body, 8<<20))
}
