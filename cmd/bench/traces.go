package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/trace/otlp"
)

const (
	// traceWriters is the number of exporters that send at the same time.
	traceWriters = 4
	// An agent has a span of its own, and turns of one model call and two tool calls.
	turnsOfAgent = 33
	spansOfTurn  = 3
	spansOfAgent = 1 + spansOfTurn*turnsOfAgent
	// spanText is the size of each of the two texts of a span, in bytes.
	spanText = 1 << 10
	// agentsOfLarge makes a trace of 3,000 spans. The tool calls of the first agents start the
	// other agents.
	agentsOfLarge = 30
)

// measureTraces exports traces from 4 writers until all requests are answered. An answer comes after
// the commit. Then it reads a large trace.
func measureTraces(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "traces")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	db, server := srv.db, srv.url
	client := newClient()
	defer client.CloseIdleConnections()

	traces := b.n(traceWriters*400, traceWriters)
	for _, together := range []int{1, 5} {
		var bodies [traceWriters][][]byte
		for i := range bodies {
			for from, to := share(traces, i, traceWriters); from < to; from += together {
				all := ptrace.NewTraces()
				for n := from; n < min(from+together, to); n++ {
					b.text.trace(all, n, 1, turnsOfAgent)
				}
				body, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
				if err != nil {
					return nil, err
				}
				bodies[i] = append(bodies[i], body)
			}
		}

		rows := traces * (2 + 3*turnsOfAgent) // a plan, a step, and one row per other span
		f, err := b.againstCopy(ctx, db, fmt.Sprintf("%d spans a request", together*spansOfAgent), rows, traceWriters,
			func(context.Context) (writer, error) {
				return func(ctx context.Context, i int) error {
					for _, body := range bodies[i] {
						if err := export(ctx, client, server, body); err != nil {
							return err
						}
					}
					return nil
				}, nil
			}, atLeast(0.3))
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}

	all := ptrace.NewTraces()
	id := b.text.trace(all, traces, agentsOfLarge, turnsOfAgent)
	body, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
	if err != nil {
		return nil, err
	}

	if err := export(ctx, client, server, body); err != nil {
		return nil, err
	}
	if err := db.settle(ctx); err != nil {
		return nil, err
	}

	took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
		start := time.Now()
		_, _, err := getAll(ctx, client, server+"/api/executor/details/", []string{id}, 1)
		return ms(time.Since(start)), err
	}, nil)
	if err != nil {
		return nil, err
	}
	large := alone(fmt.Sprintf("tree of a trace of %d spans", all.SpanCount()), "ms", took, atMost(40))
	return append(figures, large.noted("%d sub-plans", agentsOfLarge-1)), nil
}

// export sends a body. A rejected span is an error.
func export(ctx context.Context, client *http.Client, server string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+otlp.Traces.Path(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", otlp.TypeProtobuf)

	answer, err := ask(client, r)
	if err != nil {
		return err
	}
	if rejected, reason, err := otlp.Partial(answer); err != nil || rejected > 0 {
		return errors.Join(fmt.Errorf("%d spans were rejected: %s", rejected, reason), err)
	}
	return nil
}

// trace adds trace n with a number of agents and returns its id. The same n makes the same trace.
func (t *text) trace(to ptrace.Traces, n, agents, turns int) (id string) {
	r := rand.New(rand.NewPCG(t.seed, uint64(n)))
	rs := to.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "bench")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	spans.EnsureCapacity(agents * (1 + spansOfTurn*turns))
	trace := pcommon.TraceID{0: 1, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
	now := pcommon.Timestamp(1_795_176_000_000_000_000)

	add := func(parent pcommon.SpanID, name, operation string) ptrace.Span {
		s := spans.AppendEmpty()
		s.SetTraceID(trace)
		number := spans.Len()
		s.SetSpanID(pcommon.SpanID{0: 1, 5: byte(number >> 16), 6: byte(number >> 8), 7: byte(number)})
		s.SetParentSpanID(parent)
		s.SetName(operation + " " + name)

		s.SetStartTimestamp(now)
		now += 1_000_000
		s.SetEndTimestamp(now)
		s.Attributes().PutStr("gen_ai.operation.name", operation)
		return s
	}

	message := func(role string, parts ...string) string {
		return fmt.Sprintf(`[{"role":%q,"parts":[%s]}]`, role, strings.Join(parts, ","))
	}
	textPart := func(from string) string {
		return fmt.Sprintf(`{"type":"text","content":%s}`, quoted(t.piece(r, from)))
	}

	var calls []pcommon.SpanID
	for a := range agents {
		var parent pcommon.SpanID
		if a > 0 {
			parent = calls[a]
		}

		agent := add(parent, fmt.Sprint("agent-", a), "invoke_agent")
		agent.Attributes().PutStr("gen_ai.agent.name", fmt.Sprint("agent-", a))
		agent.Attributes().PutStr("gen_ai.input.messages", message("user", textPart(t.prose)))
		agent.Attributes().PutStr("gen_ai.output.messages", message("assistant", textPart(t.prose)))

		for range turns {
			chat := add(agent.SpanID(), "large-1", "chat")
			chat.Attributes().PutStr("gen_ai.request.model", "large-1")
			chat.Attributes().PutInt("gen_ai.usage.input_tokens", int64(500+r.IntN(3_000)))
			chat.Attributes().PutInt("gen_ai.usage.output_tokens", int64(50+r.IntN(300)))
			chat.Attributes().PutStr("gen_ai.input.messages", message("user", textPart(t.prompts)))

			parts := []string{textPart(t.prose)}
			for range 2 {
				name, call := fmt.Sprint("tool-", r.IntN(30)), fmt.Sprintf("call_%016x", r.Uint64())
				tool := add(agent.SpanID(), name, "execute_tool")
				tool.Attributes().PutStr("gen_ai.tool.name", name)
				tool.Attributes().PutStr("gen_ai.tool.call.id", call)
				tool.Attributes().PutStr("gen_ai.tool.call.arguments", fmt.Sprintf(`{"text":%s}`, quoted(t.piece(r, t.prompts))))
				tool.Attributes().PutStr("gen_ai.tool.call.result", t.piece(r, t.results))

				parts = append(parts, fmt.Sprintf(`{"type":"tool_call","id":%q,"name":%q}`, call, name))
				calls = append(calls, tool.SpanID())
			}

			chat.Attributes().PutStr("gen_ai.output.messages", message("assistant", parts...))
		}
	}

	return hex.EncodeToString(trace[:])
}

// piece returns a text for a span.
func (t *text) piece(r *rand.Rand, from string) string {
	start := r.IntN(len(from) - spanText)
	s := from[start : start+spanText]
	for !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s) // cannot fail for a string
	return b
}
