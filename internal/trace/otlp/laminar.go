package otlp

import (
	"cmp"
	"strings"
)

// laminar is Laminar's own attributes, lmnr.*. Input and output are JSON, a text too. What it instruments says the rest
// as gen_ai.*.
var laminar = convention{
	class: func(s *Span) Class {
		switch strings.ToUpper(s.Attributes.Get("lmnr.span.type")) {
		case "":
			return Unclassified
		case "LLM":
			return Model
		case "TOOL":
			return Tool
		}
		return Transparent // those of the program, evaluations, and answers from a cache
	},
	prefixes: []string{"lmnr."},
	read: func(s *Span, f *Facts) {
		a := s.Attributes
		input, output := unquoted(a.Get("lmnr.span.input")), unquoted(a.Get("lmnr.span.output"))

		switch f.Class {
		case Tool:
			fill(&f.Tool, a, "gen_ai.tool.name")
			f.Tool = cmp.Or(f.Tool, s.Name)
			readTool(s, f, input, output)
		case Model:
			readGenAI(s, f) // as Laminar does: messages rather than the arguments of a function
		}

		f.Input, f.Output = cmp.Or(f.Input, input), cmp.Or(f.Output, output)

		const p = "lmnr.association.properties."
		fill(&f.Conversation, a, p+"session_id")
		fill(&f.User, a, p+"user_id")
		if f.Tags == nil {
			f.Tags = list(a.Get(p + "tags"))
		}
	},
}
