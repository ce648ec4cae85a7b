package otlp

import (
	"cmp"
	"strings"
	"time"
)

// vercel is the Vercel AI SDK's own attributes, ai.*. Its newer spans follow gen_ai.*.
var vercel = convention{
	class: func(s *Span) Class {
		id := s.Attributes.Get("ai.operationId")
		switch {
		case id == "":
			return Unclassified
		case id == "ai.toolCall":
			return Tool
		case isAside(id):
			return Transparent
		case strings.Contains(id, ".do"):
			return Model
		}
		return Agent // ai.generateText and similar
	},
	prefixes: []string{"ai."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		fill(&f.Agent, a, "ai.telemetry.functionId")
		fill(&f.Tool, a, "ai.toolCall.name")
		fill(&f.CallID, a, "ai.toolCall.id")
		fill(&f.Arguments, a, "ai.toolCall.args")
		fill(&f.Result, a, "ai.toolCall.result")

		fill(&f.Model, a, "ai.response.model", "ai.model.id")
		if f.Provider == "" { // "openai" of openai.responses
			f.Provider, _, _ = strings.Cut(a.Get("ai.model.provider"), ".")
		}

		fill(&f.Input, a, "ai.prompt.messages")
		if prompt := a.Get("ai.prompt"); f.Input == "" {
			f.Input = cmp.Or(memberText(prompt, "messages", "prompt"), prompt)
			f.System = cmp.Or(f.System, memberText(prompt, "system"))
		}
		if f.Output == "" {
			f.Output = vercelOutput(a)
		}
		fill(&f.Finish, a, "ai.response.finishReason")
		fill(&f.ResponseID, a, "ai.response.id")

		usage := Usage{
			Input:      countOf(a, "ai.usage.inputTokens", "ai.usage.promptTokens"),
			Output:     countOf(a, "ai.usage.outputTokens", "ai.usage.completionTokens"),
			CacheRead:  countOf(a, "ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
			CacheWrite: countOf(a, "ai.usage.inputTokenDetails.cacheWriteTokens"),
			Reasoning:  countOf(a, "ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens"),
		}
		usage.addParts(a, "ai.usage.")
		f.Usage.fill(usage)
		// the provider's own counts
		if metadata := a.Get("ai.response.providerMetadata"); f.Class == Model && metadata != "" {
			f.Usage.correct(readUsage(nested(metadata, "usage", 0)))
		}
		f.FirstToken = cmp.Or(f.FirstToken,
			after(s, a.First("ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"), time.Millisecond))

		const p = "ai.telemetry.metadata."
		fill(&f.Conversation, a, p+"sessionId", p+"session_id", p+"conversationId", p+"threadId", p+"chatId")
		fill(&f.User, a, p+"userId", p+"user_id")
		if f.Tags == nil {
			f.Tags = list(a.Get(p + "tags"))
		}
	},
}

func vercelOutput(a Attributes) string {
	content, calls := a.First("ai.response.text", "ai.response.object"), a.Get("ai.response.toolCalls")
	if !isJSON(calls) {
		return content
	}

	b := appendMember([]byte(`[{`), "role", "assistant")
	if content != "" {
		b = appendMember(b, "content", content)
	}
	return string(append(appendRaw(b, "tool_calls", calls), "}]"...))
}
