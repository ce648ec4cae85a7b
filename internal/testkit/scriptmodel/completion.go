package scriptmodel

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// completion is a whole chat completion, whose choice has a Message, or one chunk of a stream,
// whose choice has a Delta.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int            `json:"index"`
	Message      *answerMessage `json:"message,omitempty"`
	Delta        *delta         `json:"delta,omitempty"`
	Logprobs     *struct{}      `json:"logprobs"`
	FinishReason *string        `json:"finish_reason"`
}

type answerMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"` // null if there are only tool calls
	Refusal   *string `json:"refusal"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	ToolCalls []Call  `json:"tool_calls,omitempty"`
}

type delta struct {
	Role      string      `json:"role,omitempty"`
	Content   *string     `json:"content,omitempty"`
	Refusal   string      `json:"refusal,omitempty"`
	Reasoning string      `json:"reasoning_content,omitempty"`
	ToolCalls []callDelta `json:"tool_calls,omitempty"`
}

type callDelta struct {
	Index    int           `json:"index"`
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type,omitempty"`
	Function functionDelta `json:"function"`
}

type functionDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	PromptTokens        int `json:"prompt_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	TotalTokens         int `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens     int `json:"cached_tokens"`
		CacheWriteTokens int `json:"cache_write_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// complete returns the whole answer to req. The ids are derived from conversation, the hash of
// the messages so far.
func complete(req *Request, turn Turn, conversation string, now time.Time) (*completion, error) {
	message := &answerMessage{Role: "assistant", Reasoning: turn.Reasoning}
	if turn.Content != "" {
		message.Content = &turn.Content
	}
	if turn.Refusal != "" {
		message.Refusal = &turn.Refusal
	}

	for i, call := range turn.ToolCalls {
		arguments, err := call.arguments()
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", call.Name, err)
		}
		message.ToolCalls = append(message.ToolCalls, Call{
			ID:       "call_" + digest(conversation, fmt.Sprint(i)),
			Type:     "function",
			Function: Function{Name: call.Name, Arguments: arguments},
		})
	}

	finish := cmp.Or(turn.FinishReason, "stop")
	if turn.FinishReason == "" && len(turn.ToolCalls) > 0 {
		finish = "tool_calls"
	}
	return &completion{
		ID:      "chatcmpl-" + digest(conversation, "completion"),
		Object:  "chat.completion",
		Created: now.Unix(),
		Model:   req.Model,
		Choices: []choice{{Message: message, FinishReason: &finish}},
		Usage:   turn.usage(req, message),
	}, nil
}

// usage counts one token per four characters. As with OpenAI, the part of the prompt that was
// sent before is cached from 1024 tokens on, in steps of 128.
func (t Turn) usage(req *Request, answer *answerMessage) *usage {
	count := t.Usage
	if count == nil {
		tools, _ := json.Marshal(req.Tools) // cannot fail: it was decoded from JSON
		chars, sent := 0, 0
		if len(req.Tools) > 0 {
			chars = len(tools)
		}
		for _, m := range req.Messages {
			if m.Role == "assistant" {
				sent = chars
			}
			chars += utf8.RuneCountInString(string(m.Content)) + callChars(m.ToolCalls)
		}

		count = &Usage{
			Prompt: tokens(chars), Completion: tokens(utf8.RuneCountInString(t.Content) + callChars(answer.ToolCalls)),
		}
		if cached := tokens(sent) / 128 * 128; cached >= 1024 {
			count.Cached = cached
		}
	}

	u := &usage{
		PromptTokens: count.Prompt, CompletionTokens: count.Completion, TotalTokens: count.Prompt + count.Completion,
	}
	u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens = count.Cached, count.CacheWrite
	u.CompletionTokensDetails.ReasoningTokens = count.Reasoning
	return u
}

func callChars(calls []Call) int {
	n := 0
	for _, c := range calls {
		n += utf8.RuneCountInString(c.Function.Name) + utf8.RuneCountInString(c.Function.Arguments)
	}
	return n
}

func tokens(chars int) int { return (chars + 3) / 4 }

// chunks splits a completion into the chunks of a stream: the role, reasoning and content in pieces, each
// tool call with its arguments in pieces, the finish reason.
func (c *completion) chunks() []completion {
	var chunks []completion
	add := func(d delta, finish *string) {
		chunks = append(chunks, completion{
			ID: c.ID, Object: "chat.completion.chunk", Created: c.Created, Model: c.Model,
			Choices: []choice{{Delta: &d, FinishReason: finish}},
		})
	}

	answer := c.Choices[0]
	first := delta{Role: "assistant"}
	if answer.Message.Content != nil {
		first.Content = new(string)
	}
	add(first, nil)

	for _, piece := range pieces(answer.Message.Reasoning) {
		add(delta{Reasoning: piece}, nil)
	}
	if answer.Message.Content != nil {
		for _, piece := range pieces(*answer.Message.Content) {
			add(delta{Content: &piece}, nil)
		}
	}
	if answer.Message.Refusal != nil {
		for _, piece := range pieces(*answer.Message.Refusal) {
			add(delta{Refusal: piece}, nil)
		}
	}
	for i, call := range answer.Message.ToolCalls {
		add(delta{
			ToolCalls: []callDelta{{Index: i, ID: call.ID, Type: call.Type, Function: functionDelta{Name: call.Function.Name}}},
		}, nil)
		for _, piece := range pieces(call.Function.Arguments) {
			add(delta{ToolCalls: []callDelta{{Index: i, Function: functionDelta{Arguments: piece}}}}, nil)
		}
	}

	add(delta{}, answer.FinishReason)
	return chunks
}

// pieces splits s into pieces of 16 runes.
func pieces(s string) []string {
	var out []string
	start, runes := 0, 0
	for i := range s {
		if runes == 16 {
			out = append(out, s[start:i])
			start, runes = i, 0
		}
		runes++
	}

	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// digest returns a hash of the parts, as long as a real tool call id.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = io.WriteString(h, p+"\x00") // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}
