package otlp

import "strings"

// bareAttributes is for spans that a single attribute identifies.
var bareAttributes = convention{class: func(s *Span) Class {
	a := s.Attributes
	switch {
	case a.First("gen_ai.tool.name", "gen_ai.tool.call.id") != "":
		return Tool
	case a.First("llm.request.type", "gen_ai.request.model", "gen_ai.response.model", "llm.model_name",
		"llm.request.model", "ai.model.id") != "":
		if onlyReports(s) || isAsideSpan(s) {
			return Transparent
		}
		return Model
	}
	return Unclassified
}}

// onlyReports reports whether a span counts the tokens of a model call that another span is of: it
// has no messages, and either no request or no duration.
func onlyReports(s *Span) bool {
	a := s.Attributes
	if !a.HasPrefix("gen_ai.usage.") && !a.HasPrefix("llm.usage.") && !a.HasPrefix("llm.token_count.") {
		return false
	}
	for _, prefix := range []string{
		"gen_ai.input.", "gen_ai.output.", "gen_ai.prompt", "gen_ai.completion", "llm.input_messages.",
		"llm.output_messages.",
	} {
		if a.HasPrefix(prefix) {
			return false
		}
	}

	requested := a.First("gen_ai.request.model", "llm.model_name", "llm.request.model", "ai.model.id") != ""
	return len(s.Events) == 0 && a.Get("llm.request.type") == "" && (!requested || s.End != 0 && s.End-s.Start < slack)
}

// spanNames is for spans that only their name identifies.
var spanNames = convention{class: func(s *Span) Class {
	switch name := s.Name; {
	case name == "call_llm":
		return Model
	case name == "execute_tool" || strings.HasPrefix(name, "execute_tool "):
		return Tool
	case name == "invoke_agent" || strings.HasPrefix(name, "invoke_agent "):
		return Agent
	case strings.HasSuffix(name, "_loop_cycle") || name == "turn":
		return Cycle
	}
	return Unclassified
}}
