package otlp

import (
	"cmp"
	"strings"
)

// codex is what OpenAI's Codex sends. A turn is an agent at work. Most other spans are of its own code.
var codex = convention{
	class: func(s *Span) Class {
		a := s.Attributes
		switch {
		case !isCodex(s):
			return Unclassified
		case strings.HasPrefix(s.Name, "session_task."):
			return Agent
		case a.Get("tool_name") != "" && a.Get("call_id") != "":
			return Tool
		case a.HasPrefix("codex.usage.") || a.HasPrefix("gen_ai.usage."):
			return Model // newer versions only count the tokens of a turn
		}
		return Unclassified
	},
	read: func(s *Span, f *Facts) {
		if !isCodex(s) {
			return
		}
		a := s.Attributes
		switch f.Class {
		case Agent:
			f.Agent = cmp.Or(f.Agent, "codex")
			fill(&f.Model, a, "model")
			const tokens = "codex.turn.token_usage."
			f.Usage.fill(Usage{
				Input: countOf(a, tokens+"input_tokens"), Output: countOf(a, tokens+"output_tokens"),
				CacheRead: countOf(a, tokens+"cached_input_tokens"), CacheWrite: countOf(a, tokens+"cache_write_input_tokens"),
				Reasoning: countOf(a, tokens+"reasoning_output_tokens"), Total: countOf(a, tokens+"total_tokens"),
			})
		case Model:
			fill(&f.Model, a, "model")
			f.Provider = cmp.Or(f.Provider, "openai")
			f.Usage.fill(Usage{
				Input: countOf(a, "gen_ai.usage.input_tokens"), Output: countOf(a, "gen_ai.usage.output_tokens"),
				CacheRead: countOf(a, "gen_ai.usage.cache_read.input_tokens"),
				Reasoning: countOf(a, "codex.usage.reasoning_output_tokens", "gen_ai.usage.reasoning.output_tokens"),
				Total:     countOf(a, "codex.usage.total_tokens"),
			})
		case Tool:
			fill(&f.Tool, a, "tool_name")
			fill(&f.CallID, a, "call_id")
			f.fail(callFailure{failed: a.Get("aborted") == "true", kind: "aborted"})
		}
		for i := range s.Events {
			e := s.Events[i].Attributes
			if e.Get(eventName) == "codex.tool_result" && e.Get("success") == "false" {
				f.logs = append(f.logs, callLog{id: e.Get("call_id"), time: s.Events[i].Time,
					callFailure: callFailure{failed: true, message: e.Get("error.message")}})
			}
		}
		fill(&f.User, a, "user.account_id")
	},
}

// isCodex reports whether a span is one of Codex, whose scope has the name of the program: codex_cli_rs,
// codex_exec, codex-app-server, Codex Desktop.
func isCodex(s *Span) bool {
	for _, name := range []string{s.Scope.Name, s.Resource.Get("service.name")} {
		if len(name) >= len("codex") && strings.EqualFold(name[:len("codex")], "codex") {
			return true
		}
	}
	return false
}
