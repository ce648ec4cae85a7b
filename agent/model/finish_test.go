package model_test

import (
	"testing"

	"github.com/actlog/actlog/agent/model"
)

// TestFinishOf: the words of the providers for the end of an answer, in upper or lower case.
func TestFinishOf(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]model.Finish{
		"stop": model.FinishStop, "STOP": model.FinishStop, "end_turn": model.FinishStop, "tool_use": model.FinishToolCalls,
		"function_call": model.FinishToolCalls,

		"length": model.FinishLength, "LENGTH": model.FinishLength, "max_tokens": model.FinishLength,
		"MAX_TOKENS":        model.FinishLength,
		"max_output_tokens": model.FinishLength, "model_context_window_exceeded": model.FinishLength,
		"model_length": model.FinishLength,

		"refusal": model.FinishRefusal, "Refusal": model.FinishRefusal,

		"content_filter": model.FinishContentFilter, "content-filter": model.FinishContentFilter,
		"SAFETY":     model.FinishContentFilter,
		"RECITATION": model.FinishContentFilter, "PROHIBITED_CONTENT": model.FinishContentFilter,
		"BLOCKLIST": model.FinishContentFilter,
		"SPII":      model.FinishContentFilter, "IMAGE_SAFETY": model.FinishContentFilter,
		"FINISH_REASON_SAFETY": model.FinishContentFilter,
		"FinishReason.SAFETY":  model.FinishContentFilter, "content_filter: PROHIBITED_CONTENT": model.FinishContentFilter,
		"guardrail_intervened": model.FinishContentFilter, "ERROR_TOXIC": model.FinishContentFilter,

		"": "", "pause_turn": "pause_turn", "MALFORMED_FUNCTION_CALL": "MALFORMED_FUNCTION_CALL",
	} {
		if got := model.FinishOf(word); got != want {
			t.Errorf("%q is %q, not %q", word, got, want)
		}
	}
}
