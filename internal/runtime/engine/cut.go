package engine

import (
	"context"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
)

// Append adds a message to a conversation, unless it is empty: providers refuse an empty message.
func Append(talk []model.Message, message model.Message) []model.Message {
	if len(message.Parts) == 0 {
		return talk
	}
	return append(talk, message)
}

// Follow makes the calls of an answer, if it has any, see [Step.Act], and reports whether it was cut, see [Step.Cut].
func (s *Step) Follow(
	ctx context.Context, seq int64, calls []model.ToolCall, t Thinking,
) (results []tool.Result, cut bool, err error) {
	if len(calls) > 0 {
		if results, err = s.Act(ctx, seq, calls, t); err != nil {
			return nil, false, err
		}
	}
	cut, err = s.Cut(seq, t)
	return results, cut, err
}

// Cut reports whether the answer of a cycle was cut at the limit of tokens, in its text or in the arguments of a call.
// Its calls have been made. The error is a [*RunError] if so many in a row were.
func (s *Step) Cut(seq int64, t Thinking) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := 0
	for s.cycles[seq-int64(times)].isCut() {
		if times++; times == maxCut {
			return true, cutError(times, t.MaxTokens)
		}
	}
	return times > 0, nil
}

// isCut reports whether the answer of the cycle was cut.
func (c *cycle) isCut() bool {
	if c == nil || optional.Value(c.record.FinishReason) != string(model.FinishLength) {
		return false
	}

	for _, call := range c.calls {
		if optional.Value(call.ErrorKind) == CutOff {
			return true
		}
	}
	answer, err := RecordedAnswer(&c.record)
	return err == nil && len(answer.Message.Calls()) == 0 // the calls may be the executor's own
}
