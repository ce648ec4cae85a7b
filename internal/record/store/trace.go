package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/trace/spans"
	"github.com/actlog/actlog/record"
)

// Trace is spans of one trace.
type Trace struct {
	ID    string       // 32 hex digits in lower case
	Chunk []byte       // the spans as they are kept
	Spans []spans.Span // the same spans, so that a [Projection] need not decode the chunk
	Count int          // how many spans there are
}

// RejectedTracesError names the traces that cannot be kept. The others are on record.
type RejectedTracesError struct{ Traces []RejectedTrace }

// RejectedTrace is a trace that cannot be kept, and why.
type RejectedTrace struct {
	ID    string
	Count int // spans
	Err   error
}

func (e *RejectedTracesError) Error() string {
	first := e.Traces[0]
	return fmt.Sprintf("%d traces cannot be kept, the first is %.32q: %v", len(e.Traces), first.ID, first.Err)
}

const (
	// A transaction takes at most so many traces, spans and bytes.
	maxTraces     = 50
	maxTraceSpans = 1_000
	maxTraceBytes = 4 << 20
	// traceShare bounds the transactions that write traces at once: one of so many connections.
	traceShare = 4
)

// tracer keeps spans, and the rows that they mean.
type tracer struct {
	*writer
	rows     *traceWriter
	queries  *db.Queries
	memory   traceMemory
	retryFor time.Duration
	turns    chan struct{} // holds a token for each transaction
}

// ReplaceTraces keeps spans, and puts the rows that all spans of their traces mean in place of
// the rows that the former spans meant. It returns when both are committed. The rows are in
// the tree of a native root plan that has the trace's id as its traceId, else in a tree of
// their own. Only rows that traces made are replaced.
//
// The error is a [*RejectedTracesError] if some traces cannot be kept; the others are. Other
// errors are as of [Store.Write]: sending the same again does no harm.
func (t *tracer) ReplaceTraces(ctx context.Context, traces []Trace) error {
	if t.rows.project == nil {
		return errors.New("replace traces: the store has no projection")
	}
	if err := t.enter(); err != nil {
		return fmt.Errorf("replace traces: %w", err)
	}
	defer t.goroutines.Done()
	rejected := &RejectedTracesError{}
	for _, group := range groups(traces, rejected) {
		if err := t.replaceGroup(ctx, group, time.Now().Add(t.retryFor), rejected); err != nil {
			return fmt.Errorf("replace traces: %w", err)
		}
	}
	if len(rejected.Traces) > 0 {
		return rejected
	}
	return nil
}

// groups sorts spans by trace, and cuts them into what a transaction takes.
func groups(traces []Trace, rejected *RejectedTracesError) (groups [][]*incomingTrace) {
	byID := map[string]*incomingTrace{}
	for _, t := range traces {
		if !isTraceID(t.ID) {
			rejected.Traces = append(rejected.Traces, RejectedTrace{t.ID, t.Count, errors.New("the trace id is not 32 hex digits in lower case")})
			continue
		}
		if byID[t.ID] == nil {
			byID[t.ID] = &incomingTrace{id: t.ID}
		}
		in := byID[t.ID]
		in.chunks, in.fresh = append(in.chunks, t.Chunk), append(in.fresh, t.Spans)
		in.spans, in.bytes = in.spans+t.Count, in.bytes+len(t.Chunk)
	}
	spans, bytes := 0, 0
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		t := byID[id]
		spans, bytes = spans+t.spans, bytes+t.bytes
		if n := len(groups); n == 0 || len(groups[n-1]) >= maxTraces || spans > maxTraceSpans || bytes > maxTraceBytes {
			groups, spans, bytes = append(groups, nil), t.spans, t.bytes
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], t)
	}
	return groups
}

// replaceGroup replaces traces in one transaction, and tries again if that may help. If one of
// them cannot be kept, the others are.
func (t *tracer) replaceGroup(ctx context.Context, group []*incomingTrace, deadline time.Time, rejected *RejectedTracesError) error {
	err := t.replaceRetrying(ctx, group, deadline)
	var bad *badTraceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
	case pg.State(err) == owned && len(group) == 1:
		bad = &badTraceError{group[0].id, errOwned("traceId")}
	case pg.Refused(err) && len(group) == 1:
		bad = &badTraceError{group[0].id, pg.Refusal(err)}
	case pg.Refused(err), pg.State(err) == owned:
		half := len(group) / 2
		if err := t.replaceGroup(ctx, group[:half], deadline, rejected); err != nil {
			return err
		}
		return t.replaceGroup(ctx, group[half:], deadline, rejected)
	default:
		return pg.Translate(err)
	}
	t.log.Warn("a trace cannot be kept", "trace", bad.id, "error", err)
	i := slices.IndexFunc(group, func(in *incomingTrace) bool { return in.id == bad.id })
	rejected.Traces = append(rejected.Traces, RejectedTrace{bad.id, group[i].spans, bad.err})
	if rest := slices.Delete(slices.Clone(group), i, i+1); len(rest) > 0 {
		return t.replaceGroup(ctx, rest, deadline, rejected)
	}
	return nil
}

func (t *tracer) replaceRetrying(ctx context.Context, group []*incomingTrace, deadline time.Time) error {
	for attempt := 0; ; attempt++ {
		err := t.replace(ctx, group)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case t.sending.Err() != nil:
			return record.ErrClosed
		case !pg.Transient(err):
			return err
		}
		t.counters.failed()
		if !time.Now().Before(deadline) {
			return err
		}
		if t.pauseBeforeRetry(ctx, attempt, err) != nil {
			return err
		}
	}
}

// replace is one transaction. Other writers of these traces wait, so that none misses what
// another adds. Tables are written in the order of Write.
func (t *tracer) replace(ctx context.Context, group []*incomingTrace) error {
	if err := t.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	defer context.AfterFunc(t.sending, cancel)()
	ids := make([]string, len(group))
	for i, in := range group {
		ids[i] = in.id
	}
	held, release, err := t.memory.hold(ctx, ids)
	if err != nil {
		return err
	}
	defer release()
	select {
	case t.turns <- struct{}{}:
		defer func() { <-t.turns }()
	case <-time.After(t.retryFor):
		return fmt.Errorf("%w: no turn to write traces within %v", record.ErrTooSlow, t.retryFor)
	case <-ctx.Done():
		return ctx.Err()
	}
	start := time.Now()
	traces, b, err := t.putLikely(ctx, group, held)
	if err != nil || b == nil {
		return err
	}
	for _, tr := range traces {
		tr.remember()
	}
	t.said.learn(b)
	t.contents.learn(b)
	t.feed.Grew()
	t.counters.committed(len(b.rows), b.folded, time.Since(start))
	return nil
}

// putLikely puts traces the likely way. What turns out to be wrong is given up, one thing after another.
func (t *tracer) putLikely(ctx context.Context, group []*incomingTrace, held map[string]*remembered) (traces []*trace, b *batch, err error) {
	copying, distrusts := true, false
	for {
		traces, b, err = t.put(ctx, group, held, copying, distrusts)
		switch {
		case errors.Is(err, errForgotten): // and one trace fewer is remembered now
		case pg.State(err) == fieldsql.StaleGuess && !distrusts:
			distrusts = true
		case notCopied(err) && copying:
			copying = false
		default:
			return traces, b, err
		}
	}
}

// put is one try of the transaction. It returns the traces and the rows that it wrote, if it had
// anything to do.
func (t *tracer) put(ctx context.Context, group []*incomingTrace, held map[string]*remembered, copying, distrusts bool) (traces []*trace, b *batch, err error) {
	err = t.db.Transact(ctx, func(tx pgx.Tx) error {
		var onRecord map[string]map[record.Key]bool
		if traces, onRecord, err = t.rows.readTraces(ctx, tx, group, held); err != nil {
			return err
		}
		if traces = slices.DeleteFunc(traces, (*trace).notDue); len(traces) == 0 {
			return nil
		}
		for _, tr := range traces {
			if err := t.rows.makeRows(tr, onRecord); err != nil {
				return err
			}
			if err := t.rows.mergeShared(ctx, tx, tr); err != nil {
				return err
			}
		}
		b, err = t.rows.writeTraces(ctx, tx, traces, copying, distrusts)
		return err
	})
	return traces, b, err
}

// makeDue makes the rows of due traces until ctx ends: of large traces, of those that fell
// silent, and of those that a native plan has named.
func (t *tracer) makeDue(ctx context.Context) {
	for pg.Pause(ctx, tracesEvery) == nil {
		t.memory.forgetUnused()
		if err := t.replaceDue(ctx); err != nil && ctx.Err() == nil {
			t.counters.traceFailures.Add(1)
			t.log.Warn("make rows of traces failed; they are made later", "error", err)
		}
	}
}

// replaceDue makes the rows of all traces that are due. One that fails does not keep the
// others from their turn.
func (t *tracer) replaceDue(ctx context.Context) error {
	for {
		ids, err := t.queries.TraceDue(ctx, t.db)
		if err != nil || len(ids) == 0 {
			return err
		}
		var errs []error
		for _, id := range ids {
			err := t.replace(ctx, []*incomingTrace{{id: id}})
			var bad *badTraceError
			if errors.As(err, &bad) || pg.Refused(err) || pg.State(err) == owned {
				t.log.Warn("no rows can be made of a trace", "trace", id, "error", err)
				err = t.queries.TracePostpone(ctx, t.db, id)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("trace %s: %w", id, err))
			}
		}
		if err := errors.Join(errs...); err != nil || ctx.Err() != nil {
			return err
		}
	}
}
