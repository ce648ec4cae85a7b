package otlp

import (
	"strings"
	"unicode"
)

// asides begin the words by which operations of models are called that generate no text.
var asides = []string{
	"embed", "moderat", "rerank", "ranking", "transcri", "speech", "tts", "stt", "asr", "audio", "image", "video", "ocr",
	"classif", "tokeniz",
}

// isAside reports whether an operation, by its name, is a call of a model that generates no text: embeddings,
// moderation, a transcription and so on.
func isAside(operation string) bool {
	for word := range words(operation) {
		for _, aside := range asides {
			// LiteLLM's asynchronous operations have an a before their names.
			if strings.HasPrefix(word, aside) || strings.HasPrefix(strings.TrimPrefix(word, "a"), aside) {
				return true
			}
		}
	}
	return strings.Contains(operation, "count_tokens") || strings.Contains(operation, "countTokens")
}

// words yields the words of a name in lower case: those of image_generation, audio.speech or generateSpeech.
func words(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
			begin := 0
			for i, r := range part {
				if i > begin && unicode.IsUpper(r) && !unicode.IsUpper(rune(part[i-1])) {
					if !yield(strings.ToLower(part[begin:i])) {
						return
					}
					begin = i
				}
			}
			if !yield(strings.ToLower(part[begin:])) {
				return
			}
		}
	}
}

// asideKinds are the attributes that name an operation.
var asideKinds = []string{
	"gen_ai.operation.name", "llm.request.type", "ai.operationId", "openinference.span.kind", "langfuse.observation.type",
	"langsmith.span.kind", "mlflow.spanType", "genkit:metadata:subtype",
}

// isAside reports whether a span that makes no row is a call of a model that generates no text. If no attribute
// names its operation, the first word of its own name does, unless the span has a text that was generated.
func (s *Span) isAside() bool {
	named := false
	for _, key := range asideKinds {
		operation := s.Attributes.Get(key)
		if isAside(operation) {
			return true
		}
		named = named || operation != ""
	}
	if named {
		return false
	}
	for _, text := range []string{"gen_ai.output.", "gen_ai.completion", "llm.output_messages."} {
		if s.Attributes.hasPrefix(text) {
			return false
		}
	}
	first, _, _ := strings.Cut(s.Name, " ")
	return isAside(first)
}
