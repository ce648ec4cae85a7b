package otlp

import (
	"cmp"
	"strings"
)

// langSmith is LangSmith's exporter: gen_ai.*, with the kind of a run, inputs and outputs as JSON, and
// the metadata of the run. It calls the making of a prompt a chat, too.
var langSmith = convention{
	kind: "langsmith.span.kind",
	classes: map[string]Class{
		"llm": Model, "tool": Tool,
		"chain": Transparent, "prompt": Transparent, "retriever": Transparent, "embedding": Transparent,
		"parser": Transparent,
	},
	prefixes: []string{"langsmith."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		input, output := a.Get("gen_ai.prompt"), a.Get("gen_ai.completion")
		switch f.Class {
		case Tool:
			fill(&f.Tool, a, "gen_ai.tool.name", "langsmith.trace.name")
			readTool(s, f, cmp.Or(memberText(input, "input"), input), cmp.Or(member(output, "output"), output))
		case Model:
			f.Usage.fill(langSmithUsage(a, output))
		}

		const p = "langsmith.metadata."
		fill(&f.Conversation, a, p+"session_id", p+"thread_id", p+"conversation_id", "langsmith.trace.session_id")
		fill(&f.User, a, p+"user_id")
		fill(&f.Provider, a, p+"ls_provider")
		fill(&f.Model, a, p+"ls_model_name")
		if tags := a.Get("langsmith.span.tags"); f.Tags == nil && tags != "" {
			f.Tags = list(tags)
			if !isJSON(tags) {
				f.Tags = strings.Split(tags, ", ")
			}
		}
	},
}

// langSmithUsage returns the usage of a run: that of LangChain's message in its output, else the
// counts of the span with their details, which are in the notation of Python.
func langSmithUsage(a Attributes, output string) Usage {
	if u := readUsage(nested(output, "usage_metadata", 0)); u.known() {
		return u
	}

	b := []byte{'{'}
	for _, name := range []string{"input_tokens", "output_tokens", "total_tokens"} {
		if v := countOf(a, "gen_ai.usage."+name); v != nil {
			b = appendRaw(b, name, a.Get("gen_ai.usage."+name))
		}
	}
	for _, name := range []string{"input_token_details", "output_token_details"} {
		if v := fromPython(a.Get("gen_ai.usage." + name)); v != "" {
			b = appendRaw(b, name, v)
		}
	}
	return readUsage(string(append(b, '}')))
}

// nested returns the first object with a name at any depth of a JSON value, "" if there is none.
func nested(v, name string, depth int) (found string) {
	if depth > maxMessageDepth || !strings.Contains(v, name) {
		return ""
	}

	for key, value := range members(v) {
		if key == name && strings.HasPrefix(value, "{") {
			return value
		}
		if found = nested(value, name, depth+1); found != "" {
			return found
		}
	}
	for e := range elements(v) {
		if found = nested(e, name, depth+1); found != "" {
			return found
		}
	}
	return ""
}
