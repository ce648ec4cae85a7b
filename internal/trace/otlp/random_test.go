package otlp_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// pool is the attributes of spans of a random trace.
var pool = []string{
	`{"gen_ai.operation.name":"chat","gen_ai.output.messages":[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a","arguments":{}},{"type":"tool_call","id":"c1","name":"a","arguments":{"x":1}},{"type":"tool_call","name":"b"}]}],"gen_ai.usage.input_tokens":-1}`,
	`{"gen_ai.operation.name":"chat","gen_ai.input.messages":[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a"}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"r"}]}],"gen_ai.usage.output_tokens":99999999999999999999}`,
	`{"gen_ai.operation.name":"invoke_agent","gen_ai.agent.name":"planner","gen_ai.usage.input_tokens":7}`,
	`{"gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"a","gen_ai.tool.call.id":"c1"}`,
	`{"gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"a"}`,
	`{"gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"b","error.type":"E","gen_ai.tool.call.id":" "}`,
	`{"gen_ai.operation.name":"agent_step"}`,
	`{"gen_ai.operation.name":"invoke_workflow","gen_ai.workflow.name":"w","session.id":"\u0000","metadata":{"n":1e999}}`,
	`{"openinference.span.kind":"LLM","llm.output_messages.9999.message.tool_calls.7.tool_call.function.name":"a","llm.output_messages.x.message.role":"y","llm.cost.total":"NaN","input.value":"[[[["}`,
	`{"openinference.span.kind":"CHAIN","metadata":"{\"a\":","input.value":{"messages":[]}}`,
	`{"openinference.span.kind":"AGENT"}`,
	`{"logfire.span_type":"pending_span","logfire.pending_parent_id":"0000000000000002","gen_ai.operation.name":"chat"}`,
	`{"gen_ai.operation.name":"chat","gen_ai.response.id":"r","gen_ai.usage.input_tokens":3,"gen_ai.usage.output_tokens":2,"gen_ai.output.messages":[{"role":"assistant","parts":[{"type":"text","content":"x"},7],"finish_reason":""},{"parts":"y"},null]}`,
	`{"gen_ai.operation.name":"chat","gen_ai.response.id":"r","gen_ai.response.model":"m","gen_ai.usage.output_tokens":4,"gen_ai.usage.total_tokens":7}`,
	`{"litellm.call_id":"c","llm.openai.messages":"[{'role': 'user', 'content': '\\x4'","metadata.usage_object":"{'prompt_tokens': (1,), 'x': {"}`,
	`{"mlflow.spanType":"\"CHAT_MODEL\"","mlflow.spanOutputs":"{\"choices\":[null,{\"message\":{}}],\"usage\":{\"input\":1,\"input_x\":-1}}"}`,
	`{"langsmith.span.kind":"llm","gen_ai.completion":"{\"usage_metadata\":[{\"usage_metadata\":{}}]}","gen_ai.usage.input_token_details":"{'a'"}`,
	`{"http.request.method":"GET"}`,
	`{"tool_name":"a","call_id":"c1","success":"false","prompt":"p","response":"x","request_id":"r","input_token_count":3,"output_token_count":2}`,
	`{}`,
}

func randomTrace(t testing.TB, r *rand.Rand) (spans []otlp.Span) {
	t.Helper()
	pick := func() string { return fmt.Sprintf("%016x", 1+r.IntN(20)) }
	for range 1 + r.IntN(30) {
		s := otlp.Span{TraceID: strings.Repeat("c", 32), SpanID: pick(), Start: int64(r.IntN(20)) * 1_000_000}
		if err := json.Unmarshal([]byte(pool[r.IntN(len(pool))]), &s.Attributes); err != nil {
			t.Fatal(err)
		}
		s.Name = []string{
			"x", "turn", "call_llm", "execute_tool a", "execute_tool (merged)", "invoke_agent", "raw_gen_ai_request", "\x00",
		}[r.IntN(8)]

		if r.IntN(5) > 0 {
			s.ParentID = pick()
			s.RemoteParent = r.IntN(8) == 0
		}
		if r.IntN(6) > 0 {
			s.End = s.Start + int64(r.IntN(9))*1_000_000
		}
		if r.IntN(6) == 0 {
			s.Events = []otlp.Event{
				{Name: "exception"}, {
					Name: "gen_ai.choice", Attributes: otlp.Attributes{{Key: "message", Value: otlp.Value{Text: "[{"}}},
				},
			}
			s.Stub = r.IntN(2) == 0
		}

		s.Status = int32(r.IntN(3))
		s.Kind = int32(r.IntN(6))
		if r.IntN(6) == 0 {
			s.Logged, s.Stub = true, false
			s.Name = []string{
				"claude_code.user_prompt", "claude_code.api_request", "claude_code.tool_result", "claude_code.assistant_response",
				"codex.sse_event", "codex.user_prompt", "codex.tool_result",
			}[r.IntN(7)]
			if r.IntN(2) == 0 {
				s.ParentID = strings.Repeat("c", 16) // a run of log records
			}
		}

		spans = append(spans, s)
	}
	return spans
}

// TestRandomSpansMakeATree: they have rings of parents, missing parents, repeated ids and so on.
func TestRandomSpansMakeATree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		spans := randomTrace(t, r)
		changes := otlp.Project(spans)
		want := lines(t, changes)
		if err := check(changes); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, want)
		}

		again := slices.Concat(spans, spans[:r.IntN(len(spans))])
		r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		if got := lines(t, otlp.Project(again)); got != want {
			t.Fatalf("seed %d: in another order:\n%s\n%s", seed, got, want)
		}
	}
}
