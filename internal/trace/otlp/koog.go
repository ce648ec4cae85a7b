package otlp

// koog is JetBrains' Koog: gen_ai.*, and spans for the nodes of its graphs.
var koog = convention{class: func(s *Span) Class {
	if s.Scope.Name == "ai.koog" || s.Attributes.HasPrefix("koog.") {
		return Transparent
	}
	return Unclassified
}}
