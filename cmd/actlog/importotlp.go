package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/record"
)

// exports sends what the file holds of traces, and of logs that belong to them, in
// bodies that a server takes, whatever the file's own are like.
func (im *importer) exports(ctx context.Context, f *recordFile) error {
	var next otlp.Part
	for {
		export, err := f.nextExport()
		var invalid *record.InvalidError
		switch {
		case errors.As(err, &invalid):
			if im.rejectExport(f, next.Count, invalid) {
				return nil
			}
			continue
		case err != nil:
			if !errors.Is(err, io.EOF) {
				im.complain(fmt.Errorf("%s: %w", f.name, err))
			} else if im.Records == 0 {
				im.complain(fmt.Errorf("%s: holds no spans", f.name))
			}
			return im.sendPart(ctx, f, next)
		}
		parts, err := otlp.Cut(f.otlp, export, importBatch, otlp.MaxSpans)
		if err != nil {
			if im.rejectExport(f, next.Count, &record.InvalidError{Code: record.CodeMalformed, Reason: err.Error()}) {
				return nil
			}
			continue
		}
		for _, p := range parts {
			im.Records += int64(p.Count)
			if next.Signal == p.Signal && len(next.Body)+len(p.Body) <= importBatch && next.Count+p.Count <= otlp.MaxSpans {
				next.Body, next.Count = append(next.Body, p.Body...), next.Count+p.Count
				continue
			}
			if err := im.sendPart(ctx, f, next); err != nil {
				return err
			}
			next = p
		}
	}
}

// rejectExport counts an export as one record: what it holds is not known. It tells
// whether the file is given up.
func (im *importer) rejectExport(f *recordFile, waiting int, err *record.InvalidError) (hopeless bool) {
	im.Records++
	im.reject(f, max(f.line, 1), err)
	return im.hopeless(f, waiting)
}

// sendPart sends spans or log records.
func (im *importer) sendPart(ctx context.Context, f *recordFile, p otlp.Part) error {
	if p.Count == 0 {
		return nil
	}
	rejected, reason, err := im.client.exportOTLP(ctx, p, im.progress)
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		rejected, reason = int64(p.Count), refused.Error()
	case err != nil:
		im.Error = err.Error()
		return fmt.Errorf("%s: stopped before line %d; running this again goes over it anew, which does no harm: %w", f.name, max(f.line, 1), err)
	}
	im.Written += int64(p.Count) - rejected
	im.Rejected += rejected
	if rejected > 0 {
		fmt.Fprintf(im.progress, "%s: %s of %s were rejected: %s\n", f.name, grouped(rejected), plural(int64(p.Count), "span"), clean(reason))
	}
	im.progress.at(f.read, im.Records)
	return nil
}

// exportOTLP sends a part until the server has answered or patience ends, and tells
// how many of it were rejected, and why.
func (c *client) exportOTLP(ctx context.Context, p otlp.Part, log io.Writer) (rejected int64, reason string, err error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(p.Body); err != nil {
		return 0, "", err
	}
	if err := w.Close(); err != nil {
		return 0, "", err
	}
	deadline := time.Now().Add(importPatience)
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		answer, err := c.postOTLP(ctx, p.Signal, packed.Bytes())
		if err == nil {
			return otlp.Partial(answer)
		}
		var busy *busyError
		wait := pause
		switch {
		case ctx.Err() != nil:
			return 0, "", ctx.Err()
		case errors.As(err, &busy):
			wait = busy.after
		case !errors.As(err, new(*awayError)):
			return 0, "", err
		}
		if time.Now().Add(wait).After(deadline) {
			return 0, "", err
		}
		fmt.Fprintf(log, "%v; trying again in %v\n", err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, "", ctx.Err()
		}
	}
}

// postOTLP sends a body once.
func (c *client) postOTLP(ctx context.Context, signal otlp.Signal, packed []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, importPatience)
	defer cancel()
	what := "writing " + string(signal)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+signal.Path(), bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r.Header.Set("Content-Type", otlp.TypeProtobuf)
	r.Header.Set("Content-Encoding", "gzip")
	resp, err := c.do(what, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, &awayError{fmt.Errorf("%s: reading the answer of %s: %w", what, c.base, err)}
	}
	return answer, nil
}
