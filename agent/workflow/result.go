package workflow

import (
	"encoding/json"

	"github.com/actlog/actlog/agent/model"
)

// Status says how an agent or a workflow ended.
type Status string

// How an agent ends.
const (
	Success       Status = "success"
	Error         Status = "error"
	MaxIterations Status = "max_iterations_reached"
)

// How a workflow ends.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
)

// AgentResult is how an agent ended.
type AgentResult struct {
	AgentName string `json:"agent_name"`
	Status    Status `json:"status"`
	// FinalResponse is the answer; nil: there is none.
	FinalResponse *Message `json:"final_response"`
	// ConversationHistory is what was said, with the earlier messages of the session. It is missing where it
	// is too long; the record has all of it.
	ConversationHistory []Message `json:"conversation_history"`
	ErrorMessage        *string   `json:"error_message"`
	SessionID           *string   `json:"session_id"`
}

// Text returns the answer; empty: there is none.
func (r AgentResult) Text() string {
	if r.FinalResponse == nil {
		return ""
	}
	return r.FinalResponse.Content
}

// Result is how a workflow ended.
type Result struct {
	WorkflowName string       `json:"workflow_name"`
	Status       Status       `json:"status"`
	StepResults  []StepResult `json:"step_results"` // of the steps that were begun
	FinalOutput  any          `json:"final_output"`
	Error        *string      `json:"error"`
	SessionID    *string      `json:"session_id"`
}

// StepResult is how a step of a workflow ended. Result is an [AgentResult], a [Result], or what a tool
// returned.
type StepResult struct {
	StepName string `json:"step_name"`
	StepType string `json:"step_type"` // agent, simple_workflow, custom_workflow or tool
	Result   any    `json:"result"`
}

// Message is one message of a conversation.
type Message struct {
	Role       string     `json:"role"` // user, assistant or tool
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a result
	Name       string     `json:"name,omitempty"`         // of the tool of a result
}

// ToolCall is a call that a message asks for.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // function
	Function Function `json:"function"`
}

// Function is the tool of a call, and its arguments as JSON.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// MessagesOf returns messages of a model without those of the system. Each result of a tool is a message of
// its own.
func MessagesOf(messages []model.Message) []Message {
	out := []Message{}
	for _, m := range messages {
		if m.Role == model.RoleSystem {
			continue
		}
		if m.Role == model.RoleTool {
			for _, p := range m.Parts {
				if r := p.Result; r != nil {
					out = append(out, Message{Role: string(m.Role), Content: r.Text, ToolCallID: r.CallID, Name: r.Name})
				}
			}
			continue
		}

		message := Message{Role: string(m.Role), Content: m.Text()}
		for _, call := range m.Calls() {
			message.ToolCalls = append(message.ToolCalls, ToolCall{
				ID: call.ID, Type: "function", Function: Function{Name: call.Name, Arguments: call.Arguments},
			})
		}
		out = append(out, message)
	}

	return out
}

// JSON returns a result of at most so many bytes: a longer one lacks the conversations.
func JSON(result any, most int) (json.RawMessage, error) {
	b, err := json.Marshal(result)
	if err != nil || len(b) <= most {
		return b, err
	}
	return json.Marshal(brief(result))
}

// brief returns a result without conversations.
func brief(result any) any {
	switch r := result.(type) {
	case AgentResult:
		r.ConversationHistory = nil
		return r
	case Result:
		steps := make([]StepResult, len(r.StepResults))
		for i, s := range r.StepResults {
			s.Result = brief(s.Result)
			steps[i] = s
		}
		r.StepResults = steps
		return r
	}
	return result
}
