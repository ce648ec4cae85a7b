package otlp

import (
	"cmp"
	"strings"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// sentry is what Sentry's SDKs add to gen_ai.*: the operation of a span, and older names of messages, arguments and
// results.
var sentry = convention{
	class: func(s *Span) Class {
		operation, ok := strings.CutPrefix(s.Attributes.Get("sentry.op"), "gen_ai.")
		if !ok {
			return Unclassified
		}
		switch operation {
		case "responses", "messages", "completion", "request", "generate_text", "stream_text", "generate_object",
			"stream_object", "interactions":
			return Model
		case "pipeline", "rerank":
			return Transparent
		}
		return genAI.classes[operation]
	},
	prefixes: []string{"gen_ai."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		fill(&f.Workflow, a, "gen_ai.pipeline.name")
		fill(&f.Arguments, a, "gen_ai.tool.input")
		fill(&f.Result, a, "gen_ai.tool.output")
		fill(&f.Input, a, "gen_ai.request.messages")
		if f.Output == "" {
			f.Output = sentryOutput(a.First("gen_ai.response.text", "gen_ai.response.object"),
				a.Get("gen_ai.response.tool_calls"))
		}
	},
}

// sentryOutput returns the answer of a model with its tool calls. The answer is a text, a list of texts, or messages.
func sentryOutput(answer, calls string) string {
	if answer == "" && calls == "" {
		return ""
	}

	answer, calls = cmp.Or(fromPython(answer), answer), cmp.Or(fromPython(calls), calls)
	content := asJSON(unquoted(answer))
	said := readChat(answer)
	isTexts := strings.HasPrefix(firstElement(answer), `"`)
	switch {
	case len(said.calls()) > 0, isEmpty(calls) && !isTexts:
		return answer
	case answer == "":
		content = `""`
	case !isTexts && isJSON(answer):
		if s, ok := said.onlyText(); ok {
			content = string(loosejson.AppendString(nil, s))
		}
	}

	b := appendRaw(appendMember([]byte(`[{`), "role", "assistant"), "content", content)
	if isJSON(calls) && !isEmpty(calls) {
		b = appendRaw(b, "tool_calls", calls)
	}
	return string(append(b, "}]"...))
}
