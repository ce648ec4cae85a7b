package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// messagesRequest is a request to Anthropic's Messages API, with the fields that a script can use.
type messagesRequest struct {
	Model     string         `json:"model"`
	MaxTokens int            `json:"max_tokens"`
	System    Text           `json:"system"`
	Messages  []blockMessage `json:"messages"`
	Tools     []schemaTool   `json:"tools"`
	Stream    bool           `json:"stream"`
}

// schemaTool is a tool in the form of the Messages API.
type schemaTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type blockMessage struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// block is a part of a message: a text, a tool call of the model, or its result.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   Text            `json:"content"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
}

// blocks is in JSON a text, or a list of blocks.
type blocks []block

// UnmarshalJSON reads both forms.
func (b *blocks) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*b = blocks{{Type: "text"}}
		return json.Unmarshal(data, &(*b)[0].Text)
	}
	return json.Unmarshal(data, (*[]block)(b))
}

// chat converts the request to a chat completion request. There the system prompt and each result
// of a tool call is a message. Blocks of other types, such as images, are left out.
func (r *messagesRequest) chat() (req *Request, param string, err error) {
	if r.MaxTokens < 1 {
		return nil, "max_tokens", errors.New("a number above 0 is required")
	}

	req = &Request{Model: r.Model, Stream: r.Stream}
	if r.System != "" {
		req.Messages = append(req.Messages, Message{Role: "system", Content: r.System})
	}
	for _, t := range r.Tools {
		tool := Tool{Type: "function"}
		tool.Function.Name, tool.Function.Description = t.Name, t.Description
		tool.Function.Parameters = t.InputSchema
		req.Tools = append(req.Tools, tool)
	}

	for i, m := range r.Messages {
		if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return nil, fmt.Sprintf("messages.%d.role", i), fmt.Errorf("unknown role %q", m.Role)
		}

		said, results := Message{Role: m.Role}, 0
		for j, b := range m.Content {
			switch b.Type {
			case "thinking":
				if b.Signature != "" && b.Signature != sign(b.Thinking) {
					return nil, fmt.Sprintf("messages.%d.content.%d", i, j), errors.New("invalid `signature` in `thinking` block")
				}
			case "text":
				said.Content += Text(b.Text)
			case "tool_use":
				said.ToolCalls = append(said.ToolCalls, Call{
					ID: b.ID, Type: "function", Function: Function{Name: b.Name, Arguments: string(b.Input)},
				})
			case "tool_result":
				if results != j {
					return nil, fmt.Sprintf("messages.%d.content.%d", i, j),
						errors.New("tool results must come first in their message")
				}
				req.Messages = append(req.Messages, Message{Role: "tool", ToolCallID: b.ToolUseID, Content: b.Content})
				results++
			}
		}

		if results == 0 || said.Content != "" {
			req.Messages = append(req.Messages, said)
		}
	}
	return req, "", nil
}

// message is an answer of the Messages API.
type message struct {
	ID           string       `json:"id"`
	Type         string       `json:"type"`
	Role         string       `json:"role"`
	Model        string       `json:"model"`
	Content      []any        `json:"content"`
	StopReason   *string      `json:"stop_reason"`
	StopSequence *string      `json:"stop_sequence"`
	Usage        messageUsage `json:"usage"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolUse struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	written string          // what the model wrote: a stream has it even if it is no JSON
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// sign returns the signature of a thinking block.
func sign(thinking string) string { return "sig+/" + digest("thinking", thinking) + "==" }

// messageUsage counts tokens. Those read from the cache or written to it are not in InputTokens.
type messageUsage struct {
	InputTokens   int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	OutputTokens  int `json:"output_tokens"`

	Details *outputDetails `json:"output_tokens_details,omitempty"`
}

type outputDetails struct {
	ThinkingTokens int `json:"thinking_tokens"`
}

var stopReasons = map[string]string{
	"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal",
	"refusal": "refusal",
}

// message converts the answer to the form of the Messages API. The input of a tool call is a JSON
// value there, so arguments that are no JSON become a string, except in a stream.
func (c *completion) message() *message {
	answer, u := c.Choices[0], c.Usage
	reason := stopReasons[*answer.FinishReason]
	if answer.Message.Refusal != nil {
		reason = "refusal"
	}

	out := &message{
		ID: "msg_" + c.ID[len("chatcmpl-"):], Type: "message", Role: "assistant", Model: c.Model, Content: []any{},
		StopReason: &reason,
		Usage: messageUsage{
			InputTokens:   u.PromptTokens - u.PromptTokensDetails.CachedTokens - u.PromptTokensDetails.CacheWriteTokens,
			CacheCreation: u.PromptTokensDetails.CacheWriteTokens,
			CacheRead:     u.PromptTokensDetails.CachedTokens,
			OutputTokens:  u.CompletionTokens,
		},
	}
	if n := u.CompletionTokensDetails.ReasoningTokens; n > 0 {
		out.Usage.Details = &outputDetails{ThinkingTokens: n}
	}

	if thinking := answer.Message.Reasoning; thinking != "" {
		out.Content = append(out.Content, thinkingBlock{Type: "thinking", Thinking: thinking, Signature: sign(thinking)})
	}
	if text := answer.Message.Content; text != nil {
		out.Content = append(out.Content, textBlock{Type: "text", Text: *text})
	}
	if refusal := answer.Message.Refusal; refusal != nil {
		out.Content = append(out.Content, textBlock{Type: "text", Text: *refusal})
	}

	for _, call := range answer.Message.ToolCalls {
		input := json.RawMessage(call.Function.Arguments)
		if !json.Valid(input) {
			input, _ = json.Marshal(call.Function.Arguments) // cannot fail: it is a string
		}

		out.Content = append(out.Content, toolUse{
			Type: "tool_use", ID: "toolu_" + strings.TrimPrefix(call.ID, "call_"), Name: call.Function.Name, Input: input,
			written: call.Function.Arguments,
		})
	}
	return out
}

// The events of a stream. Each has its type as the name of the event, too.
type (
	messageStart struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
	}
	blockStart struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block any    `json:"content_block"`
	}
	blockDelta struct {
		Type  string     `json:"type"`
		Index int        `json:"index"`
		Delta blockPiece `json:"delta"`
	}
	blockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	blockPiece struct {
		Type      string  `json:"type"`
		Text      *string `json:"text,omitempty"`
		Partial   *string `json:"partial_json,omitempty"`
		Thinking  *string `json:"thinking,omitempty"`
		Signature *string `json:"signature,omitempty"`
	}
	messageDelta struct {
		Type  string       `json:"type"`
		Delta messageEnd   `json:"delta"`
		Usage messageUsage `json:"usage"`
	}
	messageEnd struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	messageStop struct {
		Type string `json:"type"`
	}
)

// write sends the message as server-sent events: its head, each block in pieces, its end.
func (m *message) write(s *stream) {
	head := *m
	head.Content, head.StopReason = []any{}, nil
	head.Usage.OutputTokens, head.Usage.Details = 1, nil
	if !s.send("message_start", messageStart{"message_start", head}) {
		return
	}

	for i, b := range m.Content {
		if !writeBlock(s, i, b) {
			return
		}
	}

	if s.send("message_delta", messageDelta{"message_delta", messageEnd{StopReason: m.StopReason}, m.Usage}) {
		s.send("message_stop", messageStop{"message_stop"})
	}
}

// writeBlock sends one block, and reports whether to go on.
func writeBlock(s *stream, i int, whole any) bool {
	empty, deltas := whole, []blockPiece{}
	switch b := whole.(type) {
	case thinkingBlock:
		for _, piece := range pieces(b.Thinking) {
			deltas = append(deltas, blockPiece{Type: "thinking_delta", Thinking: &piece})
		}
		deltas = append(deltas, blockPiece{Type: "signature_delta", Signature: &b.Signature})
		empty = thinkingBlock{Type: b.Type}
	case textBlock:
		for _, piece := range pieces(b.Text) {
			deltas = append(deltas, blockPiece{Type: "text_delta", Text: &piece})
		}
		empty = textBlock{Type: b.Type}
	case toolUse:
		for _, piece := range pieces(b.written) {
			deltas = append(deltas, blockPiece{Type: "input_json_delta", Partial: &piece})
		}
		b.Input = json.RawMessage("{}")
		empty = b
	}

	if !s.send("content_block_start", blockStart{"content_block_start", i, empty}) {
		return false
	}
	for _, d := range deltas {
		if !s.send("content_block_delta", blockDelta{"content_block_delta", i, d}) {
			return false
		}
	}
	return s.send("content_block_stop", blockStop{"content_block_stop", i})
}
