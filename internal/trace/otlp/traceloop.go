package otlp

import (
	"cmp"
	"strings"
)

// traceloop is OpenLLMetry's convention. Its model spans follow the older gen_ai.*, which genAI reads.
var traceloop = convention{
	kind: "traceloop.span.kind",
	classes: map[string]Class{
		"agent": Agent, "tool": Tool,
		"workflow": Transparent, "task": Transparent, "handoff": Transparent,
	},
	prefixes: []string{"traceloop."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		name := cmp.Or(a.Get("traceloop.entity.name"), s.Name)
		input, output := a.Get("traceloop.entity.input"), a.Get("traceloop.entity.output")
		fill(&f.Workflow, a, "traceloop.workflow.name")

		switch f.Class {
		case Agent:
			f.Agent = cmp.Or(f.Agent, agentName(s, strings.TrimSuffix(name, ".agent")))
		case Tool:
			f.Tool = cmp.Or(f.Tool, strings.TrimSuffix(name, ".tool"))
			if f.Arguments == "" {
				f.Arguments = entityInput(input)
			}
			output = cmp.Or(member(output, "output"), output)
			readTool(s, f, "", output)
		}

		if f.Class != Model {
			f.Input = cmp.Or(f.Input, entityInput(input))
			f.Output = cmp.Or(f.Output, output)
		}

		const p = "traceloop.association.properties."
		fill(&f.Conversation, a, p+"session_id", p+"conversation_id", p+"thread_id", p+"chat_id", p+"sessionId",
			p+"conversationId")
		fill(&f.User, a, p+"user_id", p+"userId")
	},
}

// entityInput returns the arguments of a function, as decorators and callbacks write them.
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
