package otlp

import (
	"cmp"
	"strings"
)

// adk is Google's Agent Development Kit: its own attributes beside gen_ai.*, spans that only their
// name identifies, and one span that sums up parallel tool calls.
var adk = convention{
	class: func(s *Span) Class {
		if strings.HasPrefix(s.Name, "execute_tool") && strings.HasSuffix(s.Name, "(merged)") ||
			strings.HasSuffix(s.Name, "(merged tools)") {
			return Skip
		}
		return Unclassified
	},
	prefixes: []string{"gcp.vertex.agent."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		const p = "gcp.vertex.agent."
		fill(&f.Conversation, a, p+"session_id")
		request, response := a.Get(p+"llm_request"), a.Get(p+"llm_response")
		result := a.Get(p + "tool_response")

		switch f.Class {
		case Model:
			f.Input, f.Output = cmp.Or(f.Input, request), cmp.Or(f.Output, response)
			config := member(request, "config")
			f.System = cmp.Or(f.System, memberText(config, "system_instruction", "systemInstruction"))
			fill(&f.Agent, a, "gen_ai.agent.name")
			f.Model = cmp.Or(f.Model, memberText(request, "model"))

			if usage := readUsage(member(response, "usage_metadata", "usageMetadata")); usage.known() {
				f.Usage = usage // before 2.0, gen_ai.usage.output_tokens left out the thoughts
			} else if thoughts := countOf(a, "gen_ai.usage.experimental.reasoning_tokens"); thoughts != nil &&
				f.Usage.Reasoning == nil {
				f.Usage.Reasoning = thoughts
				f.Usage.addReasoning()
			}
		case Tool:
			fill(&f.Arguments, a, p+"tool_call_args")
			fill(&f.CallID, a, p+"tool_call_id")
			f.Result = cmp.Or(f.Result, result)
			// A result can be an error although the span's status is not.
			if message := member(f.Result, "error"); message != "" {
				f.Failed = true
				f.ErrorMessage = cmp.Or(f.ErrorMessage, text(message))
			}
		case Skip:
			for _, m := range readChat(result).messages {
				f.results = append(f.results, m.results...)
			}
		}
	},
}
