package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
)

// responsesRequest is a request to OpenAI's Responses API, with the fields that a script can use.
// It must contain the whole conversation. The server keeps nothing that previous_response_id or
// an item_reference could refer to.
type responsesRequest struct {
	Model        string     `json:"model"`
	Instructions string     `json:"instructions"`
	Input        input      `json:"input"`
	Tools        []flatTool `json:"tools"`
	Stream       bool       `json:"stream"`
	Previous     string     `json:"previous_response_id"`
}

// flatTool is a tool in the flat form of the Responses API.
type flatTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// item is an entry of the conversation: a message, a tool call, or its result.
type item struct {
	Type      string `json:"type"`
	Role      string `json:"role"`
	Content   Text   `json:"content"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Output    Text   `json:"output"`
}

// input is in JSON a user message as text, or a list of items.
type input []item

// UnmarshalJSON reads both forms.
func (in *input) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*in = input{{Role: "user"}}
		return json.Unmarshal(data, &(*in)[0].Content)
	}
	return json.Unmarshal(data, (*[]item)(in))
}

// chat converts the request to a chat completion request. There a turn of the model is one
// message. Here it is one item for the text and one per tool call.
func (r *responsesRequest) chat() (req *Request, param string, err error) {
	switch {
	case r.Stream:
		return nil, "stream", errors.New("the script does not stream responses")
	case r.Previous != "":
		return nil, "previous_response_id", errors.New("the script keeps no responses; send the whole conversation")
	}

	req = &Request{Model: r.Model}
	if r.Instructions != "" {
		req.Messages = append(req.Messages, Message{Role: "system", Content: Text(r.Instructions)})
	}
	for _, t := range r.Tools {
		tool := Tool{Type: t.Type}
		tool.Function.Name, tool.Function.Description = t.Name, t.Description
		tool.Function.Parameters = t.Parameters
		req.Tools = append(req.Tools, tool)
	}

	turn := false // the next item of the model belongs to the last message
	model := func() *Message {
		if !turn {
			req.Messages = append(req.Messages, Message{Role: "assistant"})
		}
		turn = true
		return &req.Messages[len(req.Messages)-1]
	}
	for i, in := range r.Input {
		switch {
		case in.Type == "reasoning":
		case in.Type == "function_call":
			m := model()
			m.ToolCalls = append(m.ToolCalls, Call{
				ID: in.CallID, Type: "function", Function: Function{Name: in.Name, Arguments: in.Arguments},
			})
		case in.Type == "function_call_output":
			turn = false
			req.Messages = append(req.Messages, Message{Role: "tool", ToolCallID: in.CallID, Content: in.Output})
		case in.Role == "assistant":
			model().Content += in.Content
		case in.Role != "":
			turn = false
			req.Messages = append(req.Messages, Message{Role: in.Role, Content: in.Content})
		default:
			return nil, fmt.Sprintf("input[%d].type", i), fmt.Errorf("unknown type %q", in.Type)
		}
	}
	return req, "", nil
}

// response is an answer of the Responses API.
type response struct {
	ID                string         `json:"id"`
	Object            string         `json:"object"`
	CreatedAt         int64          `json:"created_at"`
	Status            string         `json:"status"`
	Model             string         `json:"model"`
	Instructions      *string        `json:"instructions"`
	Output            []any          `json:"output"`
	ParallelToolCalls bool           `json:"parallel_tool_calls"`
	ToolChoice        string         `json:"tool_choice"`
	Tools             []flatTool     `json:"tools"`
	Metadata          map[string]any `json:"metadata"`
	Error             *struct{}      `json:"error"`
	Incomplete        *incomplete    `json:"incomplete_details"`
	Usage             responseUsage  `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type outputMessage struct {
	Type    string       `json:"type"`
	ID      string       `json:"id"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
}

type outputText struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
}

type functionCall struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type responseUsage struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
		CacheWrite   int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

// response converts the answer to the form of the Responses API, which repeats parts of the
// request.
func (c *completion) response(req *responsesRequest) *response {
	answer := c.Choices[0]
	id := c.ID[len("chatcmpl-"):]
	out := &response{
		ID: "resp_" + id, Object: "response", CreatedAt: c.Created, Status: "completed", Model: c.Model, Output: []any{},
		ParallelToolCalls: true, ToolChoice: "auto", Tools: append([]flatTool{}, req.Tools...), Metadata: map[string]any{},
	}
	if req.Instructions != "" {
		out.Instructions = &req.Instructions
	}

	switch *answer.FinishReason {
	case "length":
		out.Status, out.Incomplete = "incomplete", &incomplete{Reason: "max_output_tokens"}
	case "content_filter":
		out.Status, out.Incomplete = "incomplete", &incomplete{Reason: "content_filter"}
	}

	if text := answer.Message.Content; text != nil {
		out.Output = append(out.Output, outputMessage{
			Type: "message", ID: "msg_" + id, Status: out.Status, Role: "assistant",
			Content: []outputText{{Type: "output_text", Text: *text, Annotations: []any{}}},
		})
	}
	for _, call := range answer.Message.ToolCalls {
		out.Output = append(out.Output, functionCall{
			Type: "function_call", ID: "fc_" + digest(call.ID), Status: "completed",
			CallID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
		})
	}

	u := c.Usage
	out.Usage.InputTokens, out.Usage.OutputTokens = u.PromptTokens, u.CompletionTokens
	out.Usage.TotalTokens = u.TotalTokens
	out.Usage.InputTokensDetails.CachedTokens = u.PromptTokensDetails.CachedTokens
	out.Usage.InputTokensDetails.CacheWrite = u.PromptTokensDetails.CacheWriteTokens
	out.Usage.OutputTokensDetails.ReasoningTokens = u.CompletionTokensDetails.ReasoningTokens
	return out
}
