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
	// spansOfGrowing is how many spans a growing trace has at the end.
	spansOfGrowing = 50_000
)

// measureGrowing exports one trace in small requests, as exporters send spans: when they end, so the
// topmost one comes last. It compares the time of a span when the trace is long with that of its first
// 1,000 spans: of many agents, and of one that takes many turns.
func measureGrowing(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "growing")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	client := newClient()
	defer client.CloseIdleConnections()

	spans := b.n(spansOfGrowing, 2_000)
	marks := []int{1_000, 10_000, 20_000, spans}
	marks = slices.Compact(slices.DeleteFunc(marks, func(n int) bool { return n > spans }))

	for _, shape := range []struct {
		of            string
		agents, turns int
	}{
		{"of many agents", spans / spansOfAgent, turnsOfAgent},
		{"of one agent", 1, (spans - 1) / spansOfTurn},
	} {
		took := make([][]float64, len(marks)) // of a span, in us, up to each mark from the one before
		for turn := range b.repeats {
			bodies, err := b.text.growingTrace(turn, shape.agents, shape.turns)
			if err != nil {
				return nil, err
			}
			if err := srv.db.empty(ctx); err != nil {
				return nil, err
			}

			from, start := 0, time.Now()
			for i, body := range bodies {
				if err := export(ctx, client, srv.url, body); err != nil {
					return nil, err
				}
				sent := (i + 1) * spansPerRequest
				if m := slices.Index(marks, sent); m >= 0 {
					took[m] = append(took[m], 1_000*ms(time.Since(start))/float64(sent-from))
					from, start = sent, time.Now()
				}
			}
		}

		for m := 1; m < len(marks); m++ {
			f := against(fmt.Sprintf("a span of a trace %s, from %d to %d spans", shape.of, marks[m-1], marks[m]), "us",
				took[m], took[0], "to 1,000", atMost(1.5))
			figures = append(figures, f.noted("requests of %d spans, one after the other", spansPerRequest))
		}
	}

	return figures, nil
}

// growingTrace returns the requests of trace n.
func (t *text) growingTrace(n, agents, turns int) (bodies [][]byte, err error) {
	all := ptrace.NewTraces()
	t.trace(all, n, agents, turns)
	spans := all.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for from := 0; from < spans.Len(); from += spansPerRequest {
		part := ptrace.NewTraces()
		rs := part.ResourceSpans().AppendEmpty()
		all.ResourceSpans().At(0).Resource().CopyTo(rs.Resource())
		to := rs.ScopeSpans().AppendEmpty().Spans()
		for i := min(from+spansPerRequest, spans.Len()) - 1; i >= from; i-- { // children end before their parents
			spans.At((i + 1) % spans.Len()).CopyTo(to.AppendEmpty())
		}

		body, err := new(ptrace.ProtoMarshaler).MarshalTraces(part)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}
