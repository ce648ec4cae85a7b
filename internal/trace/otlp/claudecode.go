package otlp

import (
	"cmp"
	"strings"
	"time"
)

// claudeCode is what Claude Code and the Claude Agent SDK send, in keys without a prefix.
var claudeCode = convention{
	class: func(s *Span) Class {
		switch claudeType(s) {
		case "interaction":
			return Agent
		case "llm_request":
			return Model
		case "tool":
			return Tool
		case "":
			return Unclassified
		}
		return Transparent // hooks, and the phases of a tool call
	},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		switch claudeType(s) {
		case "":
			return
		case "interaction":
			f.Agent = cmp.Or(f.Agent, a.First("agent.name", "agent_name"), "claude_code")
			fill(&f.Input, a, "user_prompt")
			fill(&f.Output, a, "response.model_output")
		case "llm_request":
			fill(&f.Model, a, "model", "gen_ai.request.model")
			f.Provider = cmp.Or(f.Provider, "anthropic")
			fill(&f.Input, a, "new_context", "user_prompt")
			fill(&f.System, a, "system_prompt")
			fill(&f.Output, a, "response.model_output")
			fill(&f.Finish, a, "stop_reason")

			usage := Usage{
				Input: countOf(a, "input_tokens"), Output: countOf(a, "output_tokens"),
				CacheRead: countOf(a, "cache_read_tokens"), CacheWrite: countOf(a, "cache_creation_tokens"),
			}
			usage.CacheWrite1h = countOf(a, "cache_creation_1h_tokens", "cache_creation.ephemeral_1h_input_tokens",
				"ephemeral_1h_input_tokens")
			usage.addCache()
			f.Usage.fill(usage)
			f.CostUSD = cmp.Or(f.CostUSD, money(a.Get("cost_usd")))
			f.FirstToken = cmp.Or(f.FirstToken, after(s, a.Get("ttft_ms"), time.Millisecond))
		case "tool":
			fill(&f.Tool, a, "tool_name", "tool.name")
			fill(&f.CallID, a, "tool_use_id", "tool_call_id")
			fill(&f.Arguments, a, "tool_input")
			fill(&f.delegate, a, "subagent_type")
			for i := range s.Events {
				if e := &s.Events[i]; e.Name == "tool.output" {
					fill(&f.Result, e.Attributes, "output", "content", "tool_output", "result", logBody)
				}
			}
		}

		if a.Get("success") == "false" {
			f.Failed = true
			fill(&f.ErrorKind, a, "error_class", "error_type")
			fill(&f.ErrorMessage, a, "error", "error_message")
		}
		f.part = strings.HasPrefix(claudeType(s), "tool.")
		for i := range s.Events {
			readClaudeLog(&s.Events[i], f)
		}
		fill(&f.Conversation, a, "session.id")
		fill(&f.User, a, "user.id")
	},
}

// readClaudeLog reads a log record. It names a span that is open when something happens, mostly that of
// the interaction, and says by the id of a tool call, or by nothing, what it is about.
func readClaudeLog(e *Event, f *Facts) {
	a := e.Attributes
	switch strings.TrimPrefix(e.Name, "claude_code.") {
	case "user_prompt":
		if f.Class == Agent {
			fill(&f.Input, a, "prompt")
		}
	case "assistant_response":
		f.logs = append(f.logs, callLog{time: e.Time, answer: a.Get("response")})
	case "api_request":
		f.logs = append(f.logs, callLog{time: e.Time, costUSD: money(a.Get("cost_usd"))})
	case "tool_result":
		l := callLog{
			id: a.Get("tool_use_id"), time: e.Time, args: a.Get("tool_input"),
			result: a.First("tool_result", "tool_output", "output"),
			callFailure: callFailure{
				a.Get("success") == "false", a.First("error_type", "error_class"), a.First("error", "error_message"),
			},
		}

		if f.Class == Tool && (l.id == "" || l.id == f.CallID) {
			f.fillFromLog(&l)
		} else if l.id != "" {
			f.logs = append(f.logs, l)
		}
	}
}

func claudeType(s *Span) string {
	const scope, prefix = "com.anthropic.claude_code", "claude_code."
	if kind, ok := strings.CutPrefix(s.Name, prefix); ok {
		return kind
	}
	if strings.HasPrefix(s.Scope.Name, scope) {
		return strings.TrimPrefix(s.Attributes.Get("span.type"), prefix)
	}
	return ""
}
