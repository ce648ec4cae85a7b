package otlp

// springAI is Spring AI's own attributes. It sends the rest as gen_ai.*.
var springAI = convention{
	kind: "spring.ai.kind",
	classes: map[string]Class{
		"chat_client": Agent, "tool_call": Tool, "advisor": Transparent, "vector_store": Transparent,
	},
	prefixes: []string{"spring.ai."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		fill(&f.Tool, a, "spring.ai.tool.definition.name")
		fill(&f.CallID, a, "spring.ai.tool.call.id")
		fill(&f.Arguments, a, "spring.ai.tool.call.arguments")
		fill(&f.Result, a, "spring.ai.tool.call.result")
		fill(&f.Conversation, a, "spring.ai.chat.client.conversation.id")
	},
}
