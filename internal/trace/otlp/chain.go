package otlp

import (
	"slices"
	"strings"
)

// chains are the attributes and their values by which conventions mark what runs other parts.
var chains = map[string][]string{
	"openinference.span.kind":   {"CHAIN"},
	"traceloop.span.kind":       {"workflow", "task"},
	"gen_ai.operation.name":     {"invoke_workflow"},
	"langsmith.span.kind":       {"chain"},
	"langfuse.observation.type": {"chain"},
	"mlflow.spanType":           {"CHAIN", "WORKFLOW", "AGENT"},
	"genkit:metadata:subtype":   {"flow"},
}

// isChain reports whether a span says that it runs other parts.
func isChain(s *Span) bool {
	for key, values := range chains {
		if slices.Contains(values, unquoted(s.Attributes.Get(key))) {
			return true
		}
	}
	return false
}

// isOfGenAI reports whether the instrumentation that made a span is one for agents and models. Those of
// OpenLLMetry and OpenTelemetry are named like those for databases, so their spans are looked at.
func isOfGenAI(s *Span, class Class) bool {
	scope := strings.ToLower(s.Scope.Name)
	for _, name := range []string{"openinference", "traceloop", "openllmetry", "gen_ai", "genai"} {
		if strings.Contains(scope, name) {
			return true
		}
	}
	return class == Transparent && strings.HasPrefix(scope, "opentelemetry.instrumentation.")
}
