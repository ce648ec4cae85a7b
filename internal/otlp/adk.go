package otlp

import (
	"cmp"
	"strings"
)

// adk is Google's Agent Development Kit: its own attributes beside gen_ai.*, spans
// known by their name, and one that sums up parallel tool calls.
var adk = convention{
	class: func(s *Span) Class {
		if strings.HasPrefix(s.Name, "execute_tool") && strings.HasSuffix(s.Name, "(merged)") || strings.HasSuffix(s.Name, "(merged tools)") {
			return Skip
		}
		return Unclassified
	},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		if !a.has("gcp.vertex.agent.") {
			return
		}
		const p = "gcp.vertex.agent."
		fill(&f.Conversation, a, p+"session_id")
		request, answer, result := a.Get(p+"llm_request"), a.Get(p+"llm_response"), a.Get(p+"tool_response")
		switch f.Class {
		case Model:
			fill(&f.Input, a, p+"llm_request")
			f.System = cmp.Or(f.System, systemInstruction(request))
			fill(&f.Output, a, p+"llm_response")
			fill(&f.Agent, a, "gen_ai.agent.name")
			f.Model = cmp.Or(f.Model, text(member(request, "model")))
			if usage := member(answer, "usage_metadata", "usageMetadata"); usage != "" {
				n := func(names ...string) *int64 { return count(text(member(usage, names...))) }
				f.Usage.fill(Usage{
					Input:     n("prompt_token_count", "promptTokenCount"),
					Output:    n("candidates_token_count", "candidatesTokenCount"),
					CacheRead: n("cached_content_token_count", "cachedContentTokenCount"),
					Reasoning: n("thoughts_token_count", "thoughtsTokenCount"),
				})
			}
		case Tool:
			fill(&f.Arguments, a, p+"tool_call_args")
			fill(&f.CallID, a, p+"tool_call_id")
			if f.Result == "" {
				f.Result = result
			}
			failedResult(f)
		case Skip:
			c := readChat(result)
			for _, m := range c.messages {
				f.responses = append(f.responses, m.responses...)
			}
		}
	},
}

// failedResult takes a result that is an error for what it is: the kit leaves the
// span's status as it was.
func failedResult(f *Facts) {
	if message := member(f.Result, "error"); strings.HasPrefix(f.Result, "{") && message != "" {
		f.Failed = true
		f.ErrorMessage = cmp.Or(f.ErrorMessage, text(message))
	}
}

func systemInstruction(request string) string {
	v := memberAt(request, "config", "system_instruction")
	if v == "" {
		v = memberAt(request, "config", "systemInstruction")
	}
	return text(v)
}
