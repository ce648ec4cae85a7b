package otlp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// Coding agents write log records of what they do. A record of a prompt, of a model call or of a tool call
// becomes a span that is marked as Logged. If the record names no span, it belongs to a run of
// its session and its prompt, whose ids are derived from those; else to the run of the span that it names.

// codingAgent is a program whose log records are read.
type codingAgent struct {
	name, provider string
	// prefix begins the names of its records, which may lack it where the scope has the name.
	prefix, scope, service string
	// session and prompt are the attributes by which the records of a run are known.
	session, prompt []string
	kinds           map[string]recordKind
}

// recordKind is what a log record is about.
type recordKind uint8

const (
	ofNothing recordKind = iota
	ofPrompt
	ofModel
	ofFailedModel
	ofTool
	ofAnswer // of a model call
)

var codingAgents = []codingAgent{
	{
		name: "claude_code", provider: "anthropic", prefix: "claude_code.", scope: "com.anthropic.claude_code",
		service: "claude-code",
		session: []string{"session.id"}, prompt: []string{"prompt.id"},
		kinds: map[string]recordKind{
			"user_prompt": ofPrompt, "api_request": ofModel, "api_error": ofFailedModel, "api_refusal": ofFailedModel,
			"tool_result": ofTool, "assistant_response": ofAnswer,
		},
	},
	{
		name: "codex", provider: "openai", prefix: "codex.", scope: "codex_otel", service: "codex_cli_rs",
		session: []string{"conversation.id", "thread.id"}, prompt: []string{"turn.id", "turn_id"},
		kinds: map[string]recordKind{
			"user_prompt": ofPrompt, "sse_event": ofModel, "api_request": ofFailedModel, "websocket_request": ofFailedModel,
			"tool_result": ofTool,
		},
	},
	{name: "gemini_cli", provider: "gcp.gemini", prefix: "gemini_cli.", scope: "gemini_cli", service: "gemini-cli",
		session: []string{"session.id"}, prompt: []string{"prompt_id"}, kinds: geminiKinds},
	{name: "qwen_code", prefix: "qwen-code.", scope: "qwen-code", service: "qwen-code", // began as a copy of Gemini CLI
		session: []string{"session.id"}, prompt: []string{"prompt_id"}, kinds: geminiKinds},
}

var geminiKinds = map[string]recordKind{
	"user_prompt": ofPrompt, "api_response": ofModel, "api_error": ofFailedModel, "tool_call": ofTool,
}

// writerOf returns the coding agent that wrote a log record, and what it calls the record; nil if none did.
func writerOf(names []string, scope, service string) (*codingAgent, string) {
	for i := range codingAgents {
		for _, name := range names {
			if kind, ok := strings.CutPrefix(name, codingAgents[i].prefix); ok {
				return &codingAgents[i], kind
			}
		}
	}

	for i := range codingAgents {
		if a := &codingAgents[i]; strings.HasPrefix(scope, a.scope) || service == a.service {
			return a, cmp.Or(names...)
		}
	}
	return nil, ""
}

// kindOf returns what a log record is about.
func (a *codingAgent) kindOf(name string, attributes Attributes) recordKind {
	kind := a.kinds[name]
	failure := attributes.First("error.message", "error")
	switch {
	case a.name != "codex":
	case kind == ofModel && failure != "":
		return ofFailedModel
	case kind == ofModel && !attributes.HasPrefix("input_token_count"), // an event of a stream
		kind == ofFailedModel && failure == "": // the answer has a record of its own
		return ofNothing
	}
	return kind
}

// identify gives the span that a record became its id and, unless the record names a span, the ids of its run. at is
// the time of the record, 0 if it has none.
func (a *codingAgent) identify(s *Span, kind recordKind, name string, at int64) {
	prompt, namesSpan := s.Attributes.First(a.prompt...), s.ParentID != ""
	if !namesSpan {
		s.TraceID = hashed(32, a.name, s.Attributes.First(a.session...), prompt)
		s.ParentID = runOf(s.TraceID)
	}

	switch id := s.Attributes.First("tool_use_id", "call_id", "tool_call_id"); {
	case kind == ofPrompt && prompt != "" && !namesSpan:
		s.SpanID, s.ParentID = s.ParentID, ""
	case kind == ofTool && id != "":
		s.SpanID = hashed(16, s.TraceID, "tool", id)
	default:
		content, _ := json.Marshal(s.Attributes)
		s.SpanID = hashed(16, s.TraceID, name, strconv.FormatInt(at, 10), string(content))
	}
}

// runOf returns the id of the span at the top of a run that is only in log records.
func runOf(traceID string) string { return traceID[:16] }

// isRun reports whether a span is of a run that is only in log records.
func isRun(s *Span) bool {
	return s.Logged && (s.SpanID == runOf(s.TraceID) || s.ParentID == runOf(s.TraceID))
}

// namesSpan reports whether a span was a log record that named another span.
func namesSpan(s *Span) bool { return s.Logged && !isRun(s) }

// hashed returns an id of so many hex digits that stands for some texts.
func hashed(digits int, texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		h.Write(loosejson.AppendString(nil, s))
	}
	return hex.EncodeToString(h.Sum(nil))[:digits]
}

func isRedacted(s string) bool { return s == "<REDACTED>" || s == "[REDACTED]" }

// timeIn reads a time as text, 0 if it is none.
func timeIn(s string) int64 {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		return 0
	}
	return t.UnixNano()
}

// millisecondsIn returns how long a call took, by its record, in nanoseconds.
func millisecondsIn(a Attributes) int64 {
	ms, err := strconv.ParseFloat(a.First("duration_ms", "durationMs"), 64)
	if err != nil || !(ms > 0 && ms < 1e12) {
		return 0
	}
	return int64(ms * float64(time.Millisecond))
}

// loggedSpans is for the spans that log records of coding agents became.
var loggedSpans = convention{
	class: func(s *Span) Class {
		if !s.Logged {
			return Unclassified
		}
		_, kind := loggedKind(s)
		switch kind {
		case ofPrompt:
			return Agent
		case ofModel, ofFailedModel:
			return Model
		case ofTool:
			return Tool
		}
		return Transparent
	},
	read: func(s *Span, f *Facts) {
		if !s.Logged {
			return
		}
		a := s.Attributes
		writer, kind := loggedKind(s)
		if writer == nil {
			return
		}

		f.Agent = cmp.Or(f.Agent, writer.name)
		fill(&f.Conversation, a, writer.session...)
		fill(&f.User, a, "user.account_id", "user.id", "user.email")
		failure := callFailure{
			failed:  kind == ofFailedModel || strings.EqualFold(a.Get("success"), "false"),
			kind:    a.First("error_type", "error_class", "error.type", "status_code", "http.response.status_code"),
			message: a.First("error", "error_message", "error.message"),
		}

		switch kind {
		case ofPrompt:
			fill(&f.Input, a, "prompt")
		case ofModel, ofFailedModel:
			readLoggedModel(a, f)
			f.Provider = cmp.Or(f.Provider, writer.provider)
			f.FirstToken = cmp.Or(f.FirstToken, after(s, a.Get("ttft_ms"), time.Millisecond))
			f.fail(failure)
		case ofTool:
			fill(&f.Tool, a, "tool_name", "function_name")
			fill(&f.CallID, a, "tool_use_id", "call_id", "tool_call_id")
			fill(&f.Arguments, a, "tool_input", "arguments", "function_args", "tool_parameters")
			fill(&f.Result, a, "output", "tool_result", "tool_output", "result")
			failure.message = cmp.Or(failure.message, f.Result)
			f.fail(failure)
		case ofAnswer:
			f.logs = append(f.logs, callLog{
				time: cmp.Or(s.End, s.Start), request: a.Get("request_id"), answer: a.Get("response"),
			})
		}
	},
}

func readLoggedModel(a Attributes, f *Facts) {
	fill(&f.Model, a, "model", "gen_ai.request.model")
	fill(&f.ResponseID, a, "request_id")
	fill(&f.Output, a, "response_text")
	fill(&f.Finish, a, "stop_reason")
	if reasons := list(a.Get("finish_reasons")); len(reasons) > 0 {
		f.Finish = cmp.Or(f.Finish, reasons[0])
	}

	usage := Usage{ // Claude Code's input lacks what is cached
		Input: countOf(a, "input_tokens"), Output: countOf(a, "output_tokens"),
		CacheRead: countOf(a, "cache_read_tokens"), CacheWrite: countOf(a, "cache_creation_tokens"),
	}
	usage.addCache()
	f.Usage.fill(usage)
	f.Usage.fill(Usage{
		Input: countOf(a, "input_token_count"), Output: countOf(a, "output_token_count"),
		CacheRead: countOf(a, "cached_token_count", "cached_content_token_count"),
		Reasoning: countOf(a, "reasoning_token_count", "thoughts_token_count"), Total: countOf(a, "total_token_count"),
	})

	f.CostUSD = cmp.Or(f.CostUSD, money(a.Get("cost_usd")))
	if micros := money(a.Get("cost_usd_micros")); f.CostUSD == nil && micros != nil {
		f.CostUSD = new(*micros / 1e6)
	}
}

// loggedKind returns who wrote the record that a span was, and what it is about.
func loggedKind(s *Span) (*codingAgent, recordKind) {
	writer, name := writerOf([]string{s.Name}, "", "")
	if writer == nil {
		return nil, ofNothing
	}
	return writer, writer.kindOf(name, s.Attributes)
}
