package otlp_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// logRecord is a log record of a coding agent. span is the span that it names, if it is not empty.
type logRecord struct {
	at         int // milliseconds
	name       string
	attributes map[string]any
	span       string
}

const logTrace = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// logged returns the body of an export of records.
func logged(t testing.TB, service, scope string, records ...logRecord) []byte {
	t.Helper()
	all := plog.NewLogs()
	rl := all.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", service)
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName(scope)

	for _, r := range records {
		l := sl.LogRecords().AppendEmpty()
		l.SetTimestamp(pcommon.NewTimestampFromTime(time.UnixMilli(noon + int64(r.at))))
		if err := l.Attributes().FromRaw(r.attributes); err != nil {
			t.Fatal(err)
		}
		l.Attributes().PutStr("event.name", r.name)

		if r.span != "" {
			var trace [16]byte
			var span [8]byte
			_, _ = hex.Decode(trace[:], []byte(logTrace))
			_, _ = hex.Decode(span[:], []byte(r.span))
			l.SetTraceID(trace)
			l.SetSpanID(span)
		}
	}

	body, err := new(plog.ProtoMarshaler).MarshalLogs(all)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func decodeLogs(t testing.TB, body []byte) otlp.Batch {
	t.Helper()
	batch, err := otlp.DecodeLogs(otlp.TypeProtobuf, body)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// with returns attributes with more.
func with(attributes map[string]any, more ...any) map[string]any {
	all := map[string]any{}
	for key, value := range attributes {
		all[key] = value
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}

// describeRows describes the run that some spans mean: one line per row.
func describeRows(changes []record.Change) string {
	r := sorted(changes)
	count := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}

	var all []string
	for _, p := range r.plans {
		all = append(all, fmt.Sprintf("%s %s in %s: %s -> %s", deref(p.Name), *p.State, deref(p.ConversationID),
			deref(p.UserRequest), deref(p.Summary)))
	}

	for _, s := range r.steps {
		all = append(all, fmt.Sprintf(" %s %s: %s -> %s %s", deref(s.AgentName), *s.State, deref(s.AgentRequest),
			deref(s.Result), deref(s.ErrorMessage)))
		for _, c := range r.cycles {
			if c.StepID != s.StepID {
				continue
			}

			cost := ""
			if c.CostUSD != nil {
				cost = fmt.Sprintf(" $%g", *c.CostUSD)
			}
			all = append(all, fmt.Sprintf("  %s %s %s/%s %s/%s%s %s", deref(c.ModelName), *c.State, count(c.InputTokens),
				count(c.CacheReadInputTokens),
				count(c.OutputTokens), count(c.ReasoningTokens), cost, deref(c.ErrorMessage)))
			for _, a := range r.tools {
				if a.StepID == c.StepID && a.Seq == c.Seq {
					all = append(all, fmt.Sprintf("   %s(%s) %s -> %s %s", deref(a.Name), deref(a.Parameters), *a.State,
						deref(a.Result), deref(a.ErrorMessage)))
				}
			}
		}
	}

	for i := range all {
		all[i] = strings.TrimRight(all[i], " ")
	}
	return strings.Join(all, "\n")
}

var claude = map[string]any{"session.id": "s-1", "prompt.id": "p1", "user.id": "u"}

// TestRunsOfLogRecords: records of a coding agent that name no span make runs: one for each prompt of a
// session, in any order, however often they come.
func TestRunsOfLogRecords(t *testing.T) {
	t.Parallel()
	gemini := map[string]any{"session.id": "g-1", "prompt_id": "g-1########0"}
	codex := map[string]any{"conversation.id": "c-1", "model": "gpt-5.3-codex"}
	for name, c := range map[string]struct {
		service, scope string
		records        []logRecord
		want           []string // of each trace, after nothing came for long
	}{
		"Claude Code": {"claude-code", "com.anthropic.claude_code.events", []logRecord{
			{0, "user_prompt", with(claude, "prompt", "Fix the test"), ""},
			{
				1000, "api_request", with(claude, "model", "claude-opus-4-8", "cost_usd", 0.12, "input_tokens", 10,
					"output_tokens", "20", "cache_read_tokens", 100, "duration_ms", 900, "request_id", "r1"), "",
			},
			{1001, "assistant_response", with(claude, "response", "I run the tests", "request_id", "r1"), ""},
			{1002, "tool_decision", with(claude, "tool_name", "Bash", "decision", "accept", "tool_use_id", "t1"), ""},
			{
				2000, "tool_result", with(claude, "tool_name", "Bash", "tool_use_id", "t1", "tool_input", `{"command":"go test"}`,
					"success", "false", "error", "exit 1", "duration_ms", 5), "",
			},
			{
				3000, "api_request", with(claude, "model", "claude-opus-4-8", "cost_usd_micros", 250000, "input_tokens", 5,
					"output_tokens", 7, "cache_read_tokens", 110, "cache_creation_tokens", 3, "duration_ms", 500, "request_id", "r2"),
				"",
			},
			{3900, "assistant_response", with(claude, "response", "Fixed", "request_id", "r2"), ""},
		}, []string{"claude_code COMPLETED in s-1: Fix the test -> Fixed\n claude_code COMPLETED: Fix the test -> Fixed\n" +
			"  claude-opus-4-8 COMPLETED 110/100 20/- $0.12\n   Bash({\"command\":\"go test\"}) FAILED ->  exit 1\n" +
			"  claude-opus-4-8 COMPLETED 118/110 7/- $0.25"}},
		"texts that are left out, and names with a prefix": {"claude-code", "", []logRecord{
			{0, "claude_code.user_prompt", with(claude, "prompt", "<REDACTED>", "prompt_length", 12), ""},
			{
				1000, "claude_code.api_request", with(claude, "model", "claude-opus-4-8", "input_tokens", 1, "output_tokens", 2),
				"",
			},
			{1000, "claude_code.assistant_response", with(claude, "response", "<REDACTED>"), ""},
		}, []string{"claude_code COMPLETED in s-1:  ->\n claude_code COMPLETED:  ->\n  claude-opus-4-8 COMPLETED 1/- 2/-"}},
		"the last call of the model failed": {"claude-code", "com.anthropic.claude_code.events", []logRecord{
			{0, "user_prompt", with(claude, "prompt", "Go"), ""},
			{1000, "api_error", with(claude, "model", "m", "error", "overloaded", "status_code", 529, "duration_ms", 10), ""},
		}, []string{
			"claude_code FAILED in s-1: Go ->\n claude_code FAILED: Go ->  overloaded\n  m FAILED -/- -/- overloaded",
		}},
		"a call that failed before": {"claude-code", "com.anthropic.claude_code.events", []logRecord{
			{0, "user_prompt", with(claude, "prompt", "Go"), ""},
			{1000, "api_error", with(claude, "model", "m", "error", "overloaded"), ""},
			{2000, "api_request", with(claude, "model", "m", "input_tokens", 1, "output_tokens", 2), ""},
		}, []string{
			"claude_code COMPLETED in s-1: Go ->\n claude_code COMPLETED: Go ->\n  m FAILED -/- -/- overloaded\n" +
				"  m COMPLETED 1/- 2/-",
		}},
		"two prompts of a session": {"claude-code", "com.anthropic.claude_code.events", []logRecord{
			{0, "user_prompt", with(claude, "prompt", "One"), ""},
			{1000, "api_request", with(claude, "model", "m", "input_tokens", 1, "output_tokens", 2), ""},
			{2000, "user_prompt", with(claude, "prompt", "Two", "prompt.id", "p2"), ""},
			{3000, "api_request", with(claude, "model", "m", "input_tokens", 3, "output_tokens", 4, "prompt.id", "p2"), ""},
		}, []string{
			"claude_code COMPLETED in s-1: One ->\n claude_code COMPLETED: One ->\n  m COMPLETED 1/- 2/-",
			"claude_code COMPLETED in s-1: Two ->\n claude_code COMPLETED: Two ->\n  m COMPLETED 3/- 4/-"}},
		"without the prompt": {"claude-code", "com.anthropic.claude_code.events", []logRecord{
			{1000, "api_request", with(claude, "model", "m", "input_tokens", 1, "output_tokens", 2), ""},
		}, []string{"claude_code COMPLETED in s-1:  ->\n claude_code COMPLETED:  ->\n  m COMPLETED 1/- 2/-"}},
		"prompts without ids": {"claude-code", "com.anthropic.claude_code.events", []logRecord{
			{0, "user_prompt", map[string]any{"session.id": "s-2", "prompt": "One"}, ""},
			{1000, "api_request", map[string]any{"session.id": "s-2", "model": "m", "input_tokens": 1, "output_tokens": 2}, ""},
			{2000, "user_prompt", map[string]any{"session.id": "s-2", "prompt": "Two"}, ""},
			{3000, "api_request", map[string]any{"session.id": "s-2", "model": "m", "input_tokens": 3, "output_tokens": 4}, ""},
		}, []string{
			"claude_code COMPLETED in s-2: One ->\n claude_code COMPLETED: One ->\n  m COMPLETED 1/- 2/-\n" +
				" claude_code COMPLETED: Two ->\n  m COMPLETED 3/- 4/-",
		}},
		"Codex": {"codex_cli_rs", "codex_otel.log_only", []logRecord{
			{0, "codex.conversation_starts", codex, ""},
			{0, "codex.user_prompt", with(codex, "prompt", "Fix the test"), ""},
			{900, "codex.api_request", with(codex, "http.response.status_code", 200, "duration_ms", "300"), ""},
			{990, "codex.sse_event", with(codex, "event.kind", "response.output_item.done", "duration_ms", "3"), ""},
			{999, "codex.sse_event", with(codex, "event.kind", "response.completed", "duration_ms", "3"), ""},
			{
				1000, "codex.sse_event", with(codex, "event.kind", "response.completed", "input_token_count", "1200",
					"output_token_count", "40", "cached_token_count", 1000, "reasoning_token_count", 10, "tool_token_count", "1240"),
				"",
			},
			{
				2000, "codex.tool_result", with(codex, "tool_name", "shell", "call_id", "t1", "arguments",
					`{"command":["go","test"]}`, "duration_ms", "500", "success", "false", "output", "exit 1"), "",
			},
			{3000, "codex.sse_event", with(codex, "event.kind", "response.failed", "error.message", "too many requests"), ""},
		}, []string{"codex FAILED in c-1: Fix the test ->\n codex FAILED: Fix the test ->  too many requests\n" +
			"  gpt-5.3-codex COMPLETED 1200/1000 40/10\n   shell({\"command\":[\"go\",\"test\"]}) FAILED -> exit 1 exit 1\n" +
			"  gpt-5.3-codex FAILED -/- -/- too many requests"}},
		"Gemini CLI": {"gemini-cli", "gemini-cli", []logRecord{
			{0, "gemini_cli.config", map[string]any{"session.id": "g-1", "model": "gemini-2.5-pro"}, ""},
			{0, "gemini_cli.user_prompt", with(gemini, "prompt", "Fix the test"), ""},
			{100, "gemini_cli.api_request", with(gemini, "model", "gemini-2.5-pro"), ""},
			{
				1000, "gemini_cli.api_response",
				with(gemini, "model", "gemini-2.5-pro", "duration_ms", 900, "input_token_count", 12000, "output_token_count", 350,
					"cached_content_token_count", 8000, "thoughts_token_count", 420, "tool_token_count", 0, "total_token_count",
					12770), "",
			},
			{
				2000, "gemini_cli.tool_call",
				with(gemini, "function_name", "run_shell_command", "function_args", `{"command":"go test"}`, "success", true,
					"duration_ms", 700), "",
			},
		}, []string{"gemini_cli COMPLETED in g-1: Fix the test ->\n gemini_cli COMPLETED: Fix the test ->\n" +
			"  gemini-2.5-pro COMPLETED 12000/8000 770/420\n   run_shell_command({\"command\":\"go test\"}) COMPLETED ->"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batch := decodeLogs(t, logged(t, c.service, c.scope, c.records...))
			if len(batch.Rowless) > 0 {
				t.Errorf("not understood: %v", batch.Rowless)
			}

			traces := otlp.ByTrace(batch.Spans)
			if len(traces) != len(c.want) {
				t.Fatalf("%d traces", len(traces))
			}

			for i, spans := range traces {
				if got := describeRows(closed(t, spans)); got != c.want[i] {
					t.Errorf("describeRows(closed(spans)):\n%s\nwant\n%s", got, c.want[i])
				}
				if plan := sorted(project(t, spans)).plans[0]; *plan.State != record.Running { // more may come
					t.Errorf("at once it is %s", *plan.State)
				}
				anyOrder(t, spans)
			}

			again := slices.Concat(c.records, c.records)
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
			var spans []otlp.Span
			for _, r := range again { // each in a body of its own
				spans = append(spans, decodeLogs(t, logged(t, c.service, c.scope, r)).Spans...)
			}

			for i, trace := range traces {
				same := slices.DeleteFunc(slices.Clone(spans), func(s otlp.Span) bool { return s.TraceID != trace[0].TraceID })
				if got := describeRows(closed(t, same)); got != c.want[i] {
					t.Errorf("in another order, twice: got\n%s\nwant\n%s", got, c.want[i])
				}
			}
		})
	}
}

// TestRecordsThatNameSpans: what Codex logs belongs to the run of the span that it names, and what has a
// span has one row.
func TestRecordsThatNameSpans(t *testing.T) {
	t.Parallel()
	conversation := map[string]any{"conversation.id": "thread-1", "model": "gpt-5.3-codex"}
	const resource = `"scope": {"name": "codex_cli_rs"}`

	turn := `{"id": "2", "parent": "1", "name": "session_task.turn", "start": 100, "end": 9000, ` + resource +
		`, "attributes": {"thread.id": "thread-1", "turn.id": "1", "model": "gpt-5.3-codex"}}`
	dispatch := `{"id": "1", "name": "op.dispatch.user_input", "start": 90, "end": 9000, ` + resource +
		`, "attributes": {"thread.id": 10}}`
	stream := `{"id": "3", "parent": "2", "name": "receiving_stream", "start": 100, "end": 1000, ` + resource + `}`

	completed := `{"id": "4", "parent": "3", "name": "completed", "start": 999, "end": 1000, ` + resource +
		`, "attributes": {"thread.id": 10, "gen_ai.usage.input_tokens": 1200, "gen_ai.usage.cache_read.input_tokens": 1000, "gen_ai.usage.output_tokens": 40, "codex.usage.reasoning_output_tokens": 10, "codex.usage.total_tokens": 1240}}`
	shell := `{"id": "5", "parent": "2", "name": "shell", "start": 1500, "end": 2000, ` + resource +
		`, "attributes": {"tool_name": "shell", "call_id": "t1", "aborted": false}}`

	id := func(n int) string { return fmt.Sprintf("%016x", n) }
	prompt := func(span int) logRecord {
		return logRecord{95, "codex.user_prompt", with(conversation, "prompt", "Fix the test"), id(span)}
	}
	response := func(at, input, output, span int) logRecord {
		return logRecord{at, "codex.sse_event",
			with(conversation, "event.kind", "response.completed", "input_token_count", fmt.Sprint(input),
				"output_token_count", fmt.Sprint(output), "cached_token_count", 1000, "reasoning_token_count", 10), id(span)}
	}
	result := func(span int, more ...any) logRecord {
		return logRecord{
			2000, "codex.tool_result", with(conversation,
				append([]any{
					"tool_name", "shell", "call_id", "t1", "arguments", `{"command":"go test"}`, "duration_ms", "500", "success",
					"false", "output", "exit 1",
				}, more...)...), id(span),
		}
	}

	const run = "codex COMPLETED in thread-1: Fix the test ->\n codex COMPLETED: Fix the test ->\n"
	const model = "  gpt-5.3-codex COMPLETED 1200/1000 40/10"
	const call = "\n   shell({\"command\":\"go test\"}) FAILED -> exit 1 exit 1"
	for name, c := range map[string]struct {
		spans   []string
		records []logRecord
		want    string
	}{
		"all have spans": {
			[]string{dispatch, turn, stream, completed, shell}, []logRecord{prompt(1), response(1001, 1200, 40, 4), result(5)},
			run + model + call,
		},
		"they name the turn": {
			[]string{dispatch, turn, stream, completed, shell}, []logRecord{prompt(2), response(1001, 1200, 40, 2), result(2)},
			run + model + call,
		},
		"the call has no span": {
			[]string{dispatch, turn, stream, completed}, []logRecord{prompt(1), response(1001, 1200, 40, 3), result(2)},
			run + model + call,
		},
		"the response has no span": {
			[]string{dispatch, turn, stream, shell}, []logRecord{prompt(1), response(1001, 1200, 40, 3), result(2)},
			run + model + call,
		},
		"another response": {
			[]string{dispatch, turn, stream, completed},
			[]logRecord{prompt(1), response(1001, 1200, 40, 3), response(3000, 1200, 40, 3)}, run + model + "\n" + model,
		},
		"no spans": {nil, []logRecord{prompt(1), response(1001, 1200, 40, 4), result(5)}, ""},
		"no records": {[]string{dispatch, turn, stream, completed, shell}, nil,
			"codex COMPLETED in thread-1:  ->\n codex COMPLETED:  ->\n" + model + "\n   shell() COMPLETED ->"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, c.spans...)
			batch := decodeLogs(t, logged(t, "codex_cli_rs", "codex_otel.log_only", c.records...))
			spans = append(spans, batch.Spans...)
			if got := describeRows(project(t, spans)); got != c.want {
				t.Errorf("describeRows(project(spans)):\n%s\nwant\n%s", got, c.want)
			}
			anyOrder(t, spans)
		})
	}
}

// TestTokensOfATurn: newer versions of Codex only count the tokens of a turn as a whole.
func TestTokensOfATurn(t *testing.T) {
	t.Parallel()
	spans := made(t, `{"id": "2", "name": "session_task.turn", "start": 100, "end": 9000, "scope": {"name": "codex_exec"}, "attributes": {"thread.id": "thread-1", "model": "gpt-5.4",
		"codex.turn.token_usage.input_tokens": 500, "codex.turn.token_usage.cached_input_tokens": 300, "codex.turn.token_usage.output_tokens": 50, "codex.turn.token_usage.reasoning_output_tokens": 20, "codex.turn.token_usage.total_tokens": 550}}`)
	const want = "codex COMPLETED in thread-1:  ->\n codex COMPLETED:  ->\n  gpt-5.4 COMPLETED 500/300 50/20"
	if got := describeRows(project(t, spans)); got != want {
		t.Errorf("describeRows(project(spans)):\n%s\nwant\n%s", got, want)
	}
}

// TestOtherLogRecords: records of other programs that name no span are counted as before.
func TestOtherLogRecords(t *testing.T) {
	t.Parallel()
	batch := decodeLogs(t, logged(t, "shop", "shop", logRecord{
		0, "order", map[string]any{"session.id": "s-1", "prompt.id": "p1"}, "",
	}))
	if len(batch.Spans) > 0 || batch.Ignored != 1 || len(batch.Rowless) != 1 {
		t.Errorf("batch = %+v", batch)
	}

	batch = decodeLogs(t, logged(t, "claude-code", "com.anthropic.claude_code.events",
		logRecord{0, "plugin_loaded", map[string]any{"session.id": "s-1"}, ""},
		logRecord{0, "user_prompt", map[string]any{"prompt": "of no session"}, ""}))
	if len(batch.Spans) > 0 || batch.Ignored != 2 || len(batch.Rowless) != 0 {
		t.Errorf("batch = %+v", batch)
	}
}
