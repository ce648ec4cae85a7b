package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Request is a chat completion request as OpenAI defines it, as far as a script
// looks at it.
type Request struct {
	Model         string          `json:"model"`
	Messages      []Message       `json:"messages"`
	Tools         []Tool          `json:"tools,omitempty"`
	N             int             `json:"n,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	StreamOptions *StreamOptions  `json:"stream_options,omitempty"`
	ToolChoice    json.RawMessage `json:"tool_choice,omitempty"`
}

// StreamOptions says what a stream carries beside the answer.
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

// Text is the content of a message. On the wire it is a string, null, or a list
// of parts, of which the text parts are kept.
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

// Function is what a Call calls. Arguments is JSON as text, or what the model
// took for it.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is a tool that the request offers to the model.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// ToolResult is a tool call of the conversation together with what it returned.
type ToolResult struct {
	Name, Arguments, Content string
}

// System is the first system or developer message, "" when there is none.
func (r *Request) System() string {
	return r.first("system", "developer")
}

// Question is the first user message, "" when there is none.
func (r *Request) Question() string {
	return r.first("user")
}

// Turn is the number of assistant messages: the turn that is asked for.
func (r *Request) Turn() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// ToolResults are all results in the conversation, in the order of its tool messages.
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

// validate checks what OpenAI checks too, so that an agent whose conversation
// would be refused there is refused here. param names the field at fault.
func (r *Request) validate() (param string, err error) {
	switch {
	case r.Model == "":
		return "model", errors.New("you must provide a model parameter")
	case len(r.Messages) == 0:
		return "messages", errors.New("messages is empty")
	case r.N > 1:
		return "n", fmt.Errorf("n is %d, the script has one answer", r.N)
	}
	open := map[string]bool{} // tool calls that have no result yet
	for i, m := range r.Messages {
		param := fmt.Sprintf("messages.[%d]", i)
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return param, fmt.Errorf("tool message answers %q, which no preceding assistant message asked for", m.ToolCallID)
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

var errUnanswered = errors.New("an assistant message with tool_calls must be followed by tool messages responding to each tool_call_id")
