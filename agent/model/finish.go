package model

import "strings"

// Finish is why the model stopped. Reasons that have no constant are as the provider says them.
type Finish string

// The reasons why a model stops.
const (
	FinishStop          Finish = "stop"           // it said all it wanted to
	FinishToolCalls     Finish = "tool_calls"     // it waits for the results of its tool calls
	FinishLength        Finish = "length"         // it reached MaxTokens or the end of its context: the last part is cut
	FinishRefusal       Finish = "refusal"        // it refused
	FinishContentFilter Finish = "content_filter" // a filter of its provider stopped it
)

// finishes are the words of the providers, in lower case: of OpenAI and those who speak its API, Anthropic, Gemini,
// Bedrock, Cohere, Mistral and others.
var finishes = map[Finish][]string{
	FinishStop:      {"stop", "end_turn", "stop_sequence"},
	FinishToolCalls: {"tool_calls", "tool_call", "tool_use", "function_call"},
	FinishLength: {
		"length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_length", "model_length",
		"model_context_window_exceeded", "context_window_exceeded",
	},
	FinishRefusal: {"refusal", "refused"},
	FinishContentFilter: {
		"content_filter", "content_filtered", "safety", "recitation", "prohibited_content", "blocklist", "spii",
		"model_armor", "jailbreak",
		"image_safety", "image_recitation", "image_prohibited_content", "guardrail_intervened", "error_toxic", "sensitive",
	},
}

var finishByWord = func() map[string]Finish {
	words := map[string]Finish{}
	for finish, all := range finishes {
		for _, word := range all {
			words[word] = finish
		}
	}
	return words
}()

// FinishOf returns the reason that a provider gives for the end of an answer, by its name here. The word may be in
// upper or lower case, with the name of its type before it or a detail behind it: SAFETY, FINISH_REASON_SAFETY,
// content_filter: RECITATION. A reason that is not known stays as it is.
func FinishOf(reason string) Finish {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(reason)), ":")
	word = strings.TrimPrefix(word[strings.LastIndexByte(word, '.')+1:], "finish_reason_")
	word = strings.NewReplacer("-", "_", " ", "_").Replace(word)

	if finish, ok := finishByWord[word]; ok {
		return finish
	}
	return Finish(reason)
}
