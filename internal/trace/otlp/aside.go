package otlp

import (
	"strings"
	"unicode"

	"github.com/actlog/actlog/internal/record/optional"
)

// asideWords are the words that name operations of models that generate no text.
var asideWords = setOf(
	"embed", "embeds", "embedder", "embedding", "embeddings", "moderate", "moderation", "moderations",
	"rerank", "reranker", "reranking", "ranking", "transcribe", "transcription", "transcriptions",
	"speech", "tts", "stt", "asr", "audio", "image", "images", "video", "videos", "ocr",
	"classify", "classifier", "classification", "tokenize", "tokenizer", "tokenization",
)

// asideModifiers are words that may be next to those in the name of such an operation.
var asideModifiers = setOf(
	"create", "generate", "generation", "generations", "edit", "edits", "variation", "variations", "do", "to", "text",
	"many", "batch", "query", "content", "document", "documents", "model", "models", "request", "gen", "ai",
)

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, word := range words {
		set[word] = true
	}
	return set
}

// isAside reports whether an operation, by its whole name, is a call of a model that generates no text: embeddings,
// moderation, a transcription and so on. chat_with_image and classify_intent are none.
func isAside(operation string) bool {
	found := false
	for word := range words(operation) {
		switch {
		case asideWords[word], asideWords[strings.TrimPrefix(word, "a")]: // LiteLLM's asynchronous ones begin with an a
			found = true
		case !asideModifiers[word]:
			return countsTokens(operation)
		}
	}
	return found
}

func countsTokens(operation string) bool {
	return strings.Contains(operation, "count_tokens") || strings.Contains(operation, "countTokens")
}

// asides begin the words in the names of spans that are likely of such an operation.
var asides = []string{
	"embed", "moderat", "rerank", "ranking", "transcri", "speech", "tts", "stt", "asr", "audio", "image", "video", "ocr",
	"classif", "tokeniz",
}

// isLikelyAside reports whether a span with this name is likely of such an operation.
func isLikelyAside(name string) bool {
	for word := range words(name) {
		for _, aside := range asides {
			if strings.HasPrefix(word, aside) || strings.HasPrefix(strings.TrimPrefix(word, "a"), aside) {
				return true
			}
		}
	}
	return countsTokens(name)
}

// words yields the words of a name in lower case: those of image_generation, audio.speech or generateSpeech.
func words(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
			begin := 0
			var last rune
			for i, r := range part {
				if i > begin && unicode.IsUpper(r) && !unicode.IsUpper(last) {
					if !yield(strings.ToLower(part[begin:i])) {
						return
					}
					begin = i
				}
				last = r
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

// isAsideSpan reports whether a span that makes no row is a call of a model that generates no text. If no attribute
// names its operation, the first word of its own name does, unless a text was generated: the span has it, or its
// tokens.
func isAsideSpan(s *Span) bool {
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
		if s.Attributes.HasPrefix(text) {
			return false
		}
	}
	if optional.Value(countOf(s.Attributes, outputTokens...)) > 0 {
		return false
	}

	first, _, _ := strings.Cut(s.Name, " ")
	return isLikelyAside(first)
}

// outputTokens are the attributes that count what a model generated.
var outputTokens = []string{
	"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens",
	"llm.token_count.completion", "output_tokens",
}
