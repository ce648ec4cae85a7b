package otlp

import (
	"cmp"
	"strings"
)

// liteLLM is LiteLLM's callback. It writes what it knows of a call to a span of its own or, if there
// is none, to the span of the program around the call, gen_ai.operation.name included. The provider's
// request and response are in a span below, as llm.<provider>.<name>, in the notation of Python.
var liteLLM = convention{
	class: func(s *Span) Class {
		a := s.Attributes
		switch {
		case s.Name == rawRequest:
			return Model
		case !a.HasPrefix("litellm.") && !a.HasPrefix("metadata.user_api_key"):
			return Unclassified
		case s.Scope.Name == "litellm" || s.Name == "litellm_request":
			return liteLLMCall(a)
		}
		// A span of the program. Its name is all that it still has of its own.
		if class := spanNames.class(s); class != Unclassified {
			return class
		}
		switch {
		case a.First("gen_ai.tool.name", "gen_ai.tool.call.id") != "":
			return Tool
		case a.Get("gen_ai.agent.name") != "":
			return Agent
		case a.Get("gen_ai.input.messages") != "" && a.Get("llm.is_streaming") != "":
			return Transparent // with the messages there is a span for each call below
		}
		return liteLLMCall(a)
	},
	prefixes: []string{"litellm.", "llm.", "metadata.user_api_key"},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		switch {
		case s.Name == rawRequest:
			readRawRequest(a, f)
		case a.HasPrefix("litellm.") || a.HasPrefix("metadata.user_api_key"):
			if f.Class == Model {
				f.Usage.fill(readUsage(fromPython(a.Get("metadata.usage_object"))))
			}
			if a.Get("gen_ai.cost.total_cost") == "" {
				f.CostUSD = cmp.Or(f.CostUSD, money(memberText(fromPython(a.Get("hidden_params")), "response_cost")))
			}
			fill(&f.User, a, "llm.user", "metadata.user_api_key_end_user_id")
		}
	},
}

const rawRequest = "raw_gen_ai_request"

// liteLLMCall returns the class of a call of LiteLLM. Its types are the names of LiteLLM's functions,
// and a is before the asynchronous ones.
func liteLLMCall(a Attributes) Class {
	operation := a.Get("gen_ai.operation.name")
	if class := genAI.classes[operation]; class != Unclassified {
		return class
	}

	switch strings.TrimPrefix(cmp.Or(operation, a.Get("llm.request.type")), "a") {
	case "completion", "text_completion", "responses", "nthropic_messages", "generate_content", "generate_content_stream":
		return Model
	}
	return Transparent // embeddings, images, moderation and so on
}

func readRawRequest(a Attributes, f *Facts) {
	values := map[string]string{}
	for _, attribute := range a.WithPrefix("llm.") {
		if provider, name, ok := strings.Cut(attribute.Key[len("llm."):], "."); ok {
			f.Provider = cmp.Or(f.Provider, provider)
			values[name] = attribute.Value.Text
		}
	}

	get := func(names ...string) string {
		for _, name := range names {
			if v := values[name]; v != "" {
				return cmp.Or(fromPython(v), v)
			}
		}
		return ""
	}

	f.Model = cmp.Or(f.Model, get("model"))
	f.ResponseID = cmp.Or(f.ResponseID, get("id", "responseId"))
	f.System = cmp.Or(f.System, get("system", "instructions", "system_instruction"))
	f.Input = cmp.Or(f.Input, get("messages", "input", "contents"))
	f.Output = cmp.Or(f.Output, answers(get("choices", "candidates")))
	if content := get("content", "output"); f.Output == "" && isJSON(content) {
		f.Output = content
		if strings.HasPrefix(firstElement(content), "{") && member(firstElement(content), "role") == "" { // Anthropic's parts
			f.Output = string(append(appendRaw(appendMember([]byte(`[{`), "role", "assistant"), "content", content), "}]"...))
		}
	}

	f.Finish = cmp.Or(f.Finish, get("stop_reason", "finish_reason"),
		memberText(firstElement(get("choices", "candidates")), "finish_reason", "finishReason"))
	f.Usage.fill(readUsage(get("usage", "usageMetadata", "usage_metadata")))
}
