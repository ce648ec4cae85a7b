package otlp

import (
	"cmp"
	"strings"
)

// genkit is Firebase Genkit. Its flows and utilities nest at any depth, and only its models, tools
// and agents count.
var genkit = convention{
	class: func(s *Span) Class {
		switch s.Attributes.Get("genkit:metadata:subtype") {
		case "model":
			return Model
		case "tool", "tool.v2":
			return Tool
		case "agent":
			return Agent
		case "":
			if s.Scope.Name != "genkit-tracer" {
				return Unclassified
			}
		}
		return Transparent
	},
	prefixes: []string{"genkit:"},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		name := a.Get("genkit:name")
		input, output := a.Get("genkit:input"), a.Get("genkit:output")
		fill(&f.Conversation, a, "genkit:sessionId")

		switch f.Class {
		case Model:
			provider, model, ok := strings.Cut(name, "/")
			if !ok {
				provider, model = "", name
			}
			f.Model, f.Provider = cmp.Or(f.Model, model), cmp.Or(f.Provider, provider)
			f.Usage.fill(readUsage(member(output, "usage")))

			// A response repeats the whole request beside the message. Older ones have a list of candidates.
			if candidate := firstElement(member(output, "candidates")); candidate != "" {
				output = candidate
			}
			f.Finish = cmp.Or(f.Finish, memberText(output, "finishReason"))
			output = cmp.Or(member(output, "message"), output)
		case Tool:
			f.Tool = cmp.Or(f.Tool, name)
			f.Arguments, f.Result = cmp.Or(f.Arguments, input), cmp.Or(f.Result, output)
		case Transparent:
			if a.Get("genkit:metadata:subtype") == "flow" {
				f.Workflow = cmp.Or(f.Workflow, name)
			}
		}

		f.Input, f.Output = cmp.Or(f.Input, input), cmp.Or(f.Output, output)
		f.Failed = f.Failed || a.Get("genkit:state") == "error"
	},
}
