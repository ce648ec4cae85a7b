package otlp

import (
	"cmp"
	"strings"
)

// traceloop is OpenLLMetry's convention. Its spans of models follow the older
// gen_ai.*, which genAI reads.
var traceloop = convention{
	class: func(s *Span) Class {
		switch s.Attributes.Get("traceloop.span.kind") {
		case "agent":
			return Agent
		case "tool":
			return Tool
		case "workflow", "task", "handoff":
			return Transparent
		}
		return Unclassified
	},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		if !a.has("traceloop.") {
			return
		}
		name := a.Get("traceloop.entity.name")
		input, output := a.Get("traceloop.entity.input"), a.Get("traceloop.entity.output")
		fill(&f.Workflow, a, "traceloop.workflow.name")
		switch f.Class {
		case Agent:
			if f.Agent == "" {
				f.Agent = strings.TrimSuffix(cmp.Or(name, s.Name), ".agent")
			}
		case Tool:
			if f.Tool == "" {
				f.Tool = strings.TrimSuffix(cmp.Or(name, s.Name), ".tool")
			}
			if f.Arguments == "" {
				f.Arguments = entityInput(input)
			}
			if wrapped := member(output, "output"); strings.HasPrefix(output, "{") && wrapped != "" {
				output = wrapped
			}
			readTool(s, f, "", output)
		}
		if f.Class != Model {
			f.Input = cmp.Or(f.Input, entityInput(input))
			f.Output = cmp.Or(f.Output, output)
		}
		properties := a.below("traceloop.association.properties.")
		if len(properties) > 0 {
			const p = "traceloop.association.properties."
			fill(&f.Conversation, properties, p+"session_id", p+"conversation_id", p+"thread_id", p+"chat_id", p+"sessionId", p+"conversationId")
			fill(&f.User, properties, p+"user_id", p+"userId")
		}
	},
}

// entityInput gives what a function was called with, out of how the decorators
// and callbacks write it down.
func entityInput(v string) string {
	if !strings.HasPrefix(v, "{") || !isJSON(v) {
		return v
	}
	for _, name := range []string{"inputs", "kwargs", "args", "input_str"} {
		if inner := member(v, name); inner != "" && inner != "{}" && inner != "[]" {
			return text(inner)
		}
	}
	return v
}
