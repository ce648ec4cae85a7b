package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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

// ReplaceTraces keeps spans, and puts the rows that all spans of their traces mean in place of
// the rows that the former spans meant. It returns when both are committed. The rows are in
// the tree of a native root plan that has the trace's id as its traceId, else in a tree of
// their own. Only rows that traces made are replaced.
//
// The error is a [*RejectedTracesError] if some traces cannot be kept; the others are. Other
// errors are as of [Store.Write]: sending the same again does no harm.
func (t *tracer) ReplaceTraces(ctx context.Context, traces []Trace) error {
	if t.project == nil {
		return errors.New("replace traces: the store has no projection")
	}
	if err := t.writer.enter(); err != nil {
		return fmt.Errorf("replace traces: %w", err)
	}
	defer t.writer.goroutines.Done()

	rejected := &RejectedTracesError{}
	for _, group := range groups(traces, rejected) {
		l := &traceLoad{tracer: t, group: group, soon: retryFor(t.retryFor), rejected: rejected}
		if err := t.writer.ladder.write(ctx, l); err != nil {
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
			err := errors.New("the trace id is not 32 hex digits in lower case")
			rejected.Traces = append(rejected.Traces, RejectedTrace{t.ID, t.Count, err})
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
			groups = append(groups, nil)
			spans, bytes = t.spans, t.bytes
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], t)
	}
	return groups
}

// traceLoad is traces on their way into a transaction. If one of them cannot be kept, the others are.
type traceLoad struct {
	tracer   *tracer
	group    []*incomingTrace
	soon     func(error) bool
	rejected *RejectedTracesError // names those that cannot be kept
}

func (l *traceLoad) send(ctx context.Context, g givenUp) error {
	return l.tracer.replace(ctx, l.group, g)
}

func (l *traceLoad) again(err error) bool { return l.soon(err) }

func (l *traceLoad) finish(err error) ([]load, error) {
	alone := len(l.group) == 1
	var bad *badTraceError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &bad):
	case pg.State(err) == owned && alone:
		bad = &badTraceError{l.group[0].id, errOwned("traceId")}
	case pg.Refused(err) && alone:
		bad = &badTraceError{l.group[0].id, pg.Refusal(err)}
	case pg.Refused(err), pg.State(err) == owned:
		half := len(l.group) / 2
		return []load{l.loadOf(l.group[:half]), l.loadOf(l.group[half:])}, nil
	default:
		return nil, pg.Translate(err)
	}

	l.tracer.writer.log.Warn("a trace cannot be kept", "trace", bad.id, "error", err)
	i := slices.IndexFunc(l.group, func(in *incomingTrace) bool { return in.id == bad.id })
	l.rejected.Traces = append(l.rejected.Traces, RejectedTrace{bad.id, l.group[i].spans, bad.err})
	if alone {
		return nil, nil
	}
	return []load{l.loadOf(slices.Delete(slices.Clone(l.group), i, i+1))}, nil
}

func (l *traceLoad) loadOf(group []*incomingTrace) load {
	return &traceLoad{tracer: l.tracer, group: group, soon: l.soon, rejected: l.rejected}
}

// replace is one transaction. Other writers of these traces wait, so that none misses what
// another adds. Tables are written in the order of Write.
func (t *tracer) replace(ctx context.Context, group []*incomingTrace, g givenUp) error {
	s := t.writer.sender
	if err := s.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	defer context.AfterFunc(t.writer.ladder.sending, cancel)()

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
	traces, out, err := t.put(ctx, group, held, g)
	if err != nil || out == nil {
		return err
	}
	for _, tr := range traces {
		tr.remember()
	}
	s.learn(out, time.Since(start))
	return nil
}

// put is the transaction. It returns the traces that it wrote, and what it found out; nil if it had nothing to do.
func (t *tracer) put(
	ctx context.Context, group []*incomingTrace, held map[string]*remembered, g givenUp,
) (traces []*trace, out *sent, err error) {
	err = t.writer.sender.db.Transact(ctx, func(tx pgx.Tx) error {
		var onRecord map[string]map[record.Key]bool
		if traces, onRecord, err = t.readTraces(ctx, tx, group, held); err != nil {
			return err
		}
		if traces = slices.DeleteFunc(traces, (*trace).notDue); len(traces) == 0 {
			return nil
		}

		for _, tr := range traces {
			if err := t.makeRows(tr, onRecord); err != nil {
				return err
			}
			if err := t.mergeShared(ctx, tx, tr); err != nil {
				return err
			}
		}
		out, err = t.writeTraces(ctx, tx, traces, g)
		return err
	})
	return traces, out, err
}

// makeDue makes the rows of due traces until ctx ends: of large traces, of those that fell
// silent, and of those that a native plan has named.
func (t *tracer) makeDue(ctx context.Context) {
	for pg.Pause(ctx, tracesEvery) == nil {
		t.memory.forgetUnused()
		if err := t.replaceDue(ctx); err != nil && ctx.Err() == nil {
			t.writer.sender.counters.traceFailures.Add(1)
			t.writer.log.Warn("make rows of traces failed; they are made later", "error", err)
		}
	}
}

// replaceDue makes the rows of all traces that are due. One that fails does not keep the
// others from their turn.
func (t *tracer) replaceDue(ctx context.Context) error {
	for {
		ids, err := t.queries.TraceDue(ctx, t.writer.sender.db)
		if err != nil || len(ids) == 0 {
			return err
		}

		var errs []error
		for _, id := range ids {
			one := []*incomingTrace{{id: id}}
			err := t.writer.ladder.try(ctx, once, func(g givenUp) error { return t.replace(ctx, one, g) })
			var bad *badTraceError
			if errors.As(err, &bad) || pg.Refused(err) || pg.State(err) == owned {
				t.writer.log.Warn("no rows can be made of a trace", "trace", id, "error", err)
				err = t.queries.TracePostpone(ctx, t.writer.sender.db, id)
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
