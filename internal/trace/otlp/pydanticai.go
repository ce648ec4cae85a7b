package otlp

import (
	"cmp"
	"strings"
)

// pydanticAI is Pydantic AI, and Logfire beside it. Newer versions of Pydantic AI follow gen_ai.*,
// older ones have span names of their own.
var pydanticAI = convention{
	class: func(s *Span) Class {
		if s.Scope.Name != "pydantic-ai" {
			return Unclassified
		}
		switch name := s.Name; {
		case name == "agent run" || strings.HasSuffix(name, " run") && s.Attributes.Get("agent_name") != "":
			return Agent
		case name == "running tool" || strings.HasPrefix(name, "running tool:"):
			return Tool
		case strings.HasPrefix(name, "running "): // several tools
			return Transparent
		}
		return Unclassified
	},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		if s.Scope.Name != "pydantic-ai" && !a.HasPrefix("pydantic_ai.") {
			return
		}
		switch f.Class {
		case Agent:
			fill(&f.Agent, a, "agent_name")
			fill(&f.Model, a, "model_name")
			fill(&f.Input, a, "pydantic_ai.all_messages", "all_messages_events")
			fill(&f.Output, a, "final_result")
		case Tool:
			fill(&f.Arguments, a, "tool_arguments")
			fill(&f.Result, a, "tool_response")
		case Model:
			if events := a.Get("events"); isJSON(events) {
				readEventList(events, f)
			}
		}
	},
}

// readEventList reads input and output from a list of events in one attribute.
func readEventList(events string, f *Facts) {
	input, output := []byte{'['}, []byte{'['}
	for e := range elements(events) {
		if memberText(e, "event.name") == "gen_ai.choice" {
			output = append(comma(output), e...)
		} else {
			input = append(comma(input), e...)
		}
	}

	if len(input) > 1 {
		f.Input = cmp.Or(f.Input, string(append(input, ']')))
	}
	if len(output) > 1 {
		f.Output = cmp.Or(f.Output, string(append(output, ']')))
	}
}

// pendingSpan returns the span that has started if s is Logfire's notice of that: a partial span with
// the id of the notice's parent.
func pendingSpan(s *Span) (Span, bool) {
	if s.Attributes.Get("logfire.span_type") != "pending_span" || s.ParentID == "" {
		return Span{}, false
	}

	p := *s
	p.SpanID, p.ParentID = s.ParentID, ""
	p.End = 0
	if parent := s.Attributes.Get("logfire.pending_parent_id"); validID(parent, 16) && parent != p.SpanID {
		p.ParentID = parent
	}
	return p, true
}
