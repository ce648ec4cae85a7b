package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Request is an OpenAI chat completion request, with the fields that a script can use.
type Request struct {
	Model         string          `json:"model"`
	Messages      []Message       `json:"messages"`
	Tools         []Tool          `json:"tools,omitempty"`
	N             int             `json:"n,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	StreamOptions *StreamOptions  `json:"stream_options,omitempty"`
	ToolChoice    json.RawMessage `json:"tool_choice,omitempty"`
}

// StreamOptions says what a stream contains besides the answer.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one entry of the conversation.
type Message struct {
	Role       string `json:"role"`
	Content    Text   `json:"content,omitempty"`
	Name       string `json:"name,omitempty"`
	ToolCalls  []Call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// Text is the content of a message. In JSON it is a string, null or a list of parts. Only the
// text parts are kept.
type Text string

// UnmarshalJSON reads all three forms.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		var s string
		err := json.Unmarshal(data, &s)
		*t = Text(s)
		return err
	}

	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}

	*t = ""
	for _, p := range parts {
		*t += Text(p.Text)
	}
	return nil
}

// Call is a tool call in an assistant message.
type Call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the function of a Call. Arguments is JSON as text, but a model may send invalid
// JSON.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// ToolResult is a tool call of the conversation and its result.
type ToolResult struct {
	Name, Arguments, Content string
}

// chat implements form.
func (r *Request) chat() (*Request, string, error) { return r, "", nil }

// System returns the first system or developer message, or "".
func (r *Request) System() string {
	return r.first("system", "developer")
}

// Question returns the first user message, or "".
func (r *Request) Question() string {
	return r.first("user")
}

// Turn returns the number of assistant messages. It is the index of the requested turn.
func (r *Request) Turn() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// ToolResults returns the result of every tool message, in their order.
func (r *Request) ToolResults() []ToolResult {
	calls := map[string]Function{}
	var results []ToolResult
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			calls[c.ID] = c.Function
		}
		if m.Role == "tool" {
			f := calls[m.ToolCallID]
			results = append(results, ToolResult{Name: f.Name, Arguments: f.Arguments, Content: string(m.Content)})
		}
	}
	return results
}

func (r *Request) first(roles ...string) string {
	for _, m := range r.Messages {
		if slices.Contains(roles, m.Role) {
			return string(m.Content)
		}
	}
	return ""
}

// validate makes the checks of OpenAI, so that tests find conversations that OpenAI would reject.
// param names the invalid field.
func (r *Request) validate() (param string, err error) {
	switch {
	case r.Model == "":
		return "model", errors.New("you must provide a model parameter")
	case len(r.Messages) == 0:
		return "messages", errors.New("messages is empty")
	case r.N > 1:
		return "n", fmt.Errorf("n is %d, but the script has only one answer", r.N)
	}

	open := map[string]bool{} // tool calls that have no result yet
	for i, m := range r.Messages {
		param := fmt.Sprintf("messages.[%d]", i)
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return param, fmt.Errorf(
					"tool message with tool_call_id %q, but no preceding assistant message has this tool call", m.ToolCallID,
				)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return param, errUnanswered
		}

		switch m.Role {
		case "system", "developer", "user":
		case "assistant":
			if m.Content == "" && len(m.ToolCalls) == 0 {
				return param, errors.New("assistant message with neither content nor tool_calls")
			}
			for _, c := range m.ToolCalls {
				if c.ID == "" || open[c.ID] {
					return param, fmt.Errorf("tool call id %q is empty or used twice", c.ID)
				}
				open[c.ID] = true
			}
		default:
			return param + ".role", fmt.Errorf("unknown role %q", m.Role)
		}
	}

	if len(open) > 0 {
		return "messages", errUnanswered
	}
	return "", nil
}

var errUnanswered = errors.New("an assistant message with tool_calls must be followed by tool messages responding " +
	"to each tool_call_id")
