package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

const (
	// spansPerRequest is how many spans of a growing trace arrive together.
	spansPerRequest = 100
	// agentsOfGrowing makes a trace of 50,000 spans.
	agentsOfGrowing = 500
)

// measureGrowing exports one trace in small requests, the last spans of an agent first, as exporters
// send them when they end. It compares the time of a span when the trace is long with that of its first
// 1,000 spans.
func measureGrowing(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "growing")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	client := newClient()
	defer client.CloseIdleConnections()

	agents := b.n(agentsOfGrowing, 20)
	marks := []int{1_000, 10_000, 20_000, agents * spansOfAgent}
	marks = slices.Compact(slices.DeleteFunc(marks, func(n int) bool { return n > agents*spansOfAgent }))
	took := make([][]float64, len(marks)) // of a span, in us, up to each mark from the one before
	once := func(turn int) error {
		bodies, err := b.text.growingTrace(turn, agents)
		if err != nil {
			return err
		}
		if err := srv.db.empty(ctx); err != nil {
			return err
		}
		from, start := 0, time.Now()
		for i, body := range bodies {
			if err := export(ctx, client, srv.url, body); err != nil {
				return err
			}
			sent := (i + 1) * spansPerRequest
			if m := slices.Index(marks, sent); m >= 0 {
				took[m] = append(took[m], 1_000*ms(time.Since(start))/float64(sent-from))
				from, start = sent, time.Now()
			}
		}
		return nil
	}
	for turn := range b.repeats {
		if err := once(turn); err != nil {
			return nil, err
		}
	}
	for m := 1; m < len(marks); m++ {
		f := against(fmt.Sprintf("a span of a trace, from %d to %d spans", marks[m-1], marks[m]), "us", took[m], took[0], "to 1,000", atMost(1.5))
		figures = append(figures, f.noted("requests of %d spans, one after the other", spansPerRequest))
	}
	return figures, nil
}

// growingTrace returns the requests of trace n with a number of agents.
func (t *text) growingTrace(n, agents int) (bodies [][]byte, err error) {
	all := ptrace.NewTraces()
	t.trace(all, n, agents)
	spans := all.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for from := 0; from < spans.Len(); from += spansPerRequest {
		part := ptrace.NewTraces()
		rs := part.ResourceSpans().AppendEmpty()
		all.ResourceSpans().At(0).Resource().CopyTo(rs.Resource())
		to := rs.ScopeSpans().AppendEmpty().Spans()
		for i := min(from+spansPerRequest, spans.Len()) - 1; i >= from; i-- { // children end before their parents
			spans.At(i).CopyTo(to.AppendEmpty())
		}
		body, err := new(ptrace.ProtoMarshaler).MarshalTraces(part)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}
