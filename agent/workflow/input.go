package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/record"
)

// Input is what a run is given: an agent and messages, or a workflow and its input.
type Input struct {
	Agent               string    `json:"agent,omitempty"`
	UserMessage         string    `json:"user_message,omitempty"`
	Messages            []Message `json:"messages,omitempty"`
	SystemPrompt        string    `json:"system_prompt,omitempty"` // in place of that of the agent
	ForceIncludeHistory bool      `json:"force_include_history,omitempty"`

	Workflow string          `json:"workflow,omitempty"`
	Type     string          `json:"type,omitempty"` // simple_workflow or custom_workflow, if both have the name
	Input    json.RawMessage `json:"input,omitempty"`
}

// The types of workflows.
const (
	simpleWorkflow = "simple_workflow"
	customWorkflow = "custom_workflow"
)

// ReadInput reads what a run is given. user_message is added to the messages. The error is a [*record.InvalidError]
// that names the field.
func ReadInput(raw json.RawMessage) (in Input, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return in, &record.InvalidError{
				Code: record.CodeUnknownField, Field: "input." + strings.Trim(field, `"`), Reason: "is not known",
			}
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return in, invalid("input."+wrong.Field, "must be a "+wrong.Type.String())
		}
		return in, invalid("input", "must be an object with workflow and input, or with agent and user_message or messages")
	}

	if in.UserMessage != "" {
		in.Messages = append(in.Messages, Message{Role: string(model.RoleUser), Content: in.UserMessage})
	}
	if len(in.Input) == 0 {
		in.Input = json.RawMessage("null")
	}

	if err := in.checkTarget(); err != nil {
		return in, err
	}
	return in, in.checkMessages()
}

// checkTarget checks that either an agent or a workflow is named, with the members that it takes.
func (in *Input) checkTarget() error {
	switch {
	case in.Agent == "" && in.Workflow == "":
		return missing("input.workflow")
	case in.Agent != "" && in.Workflow != "":
		return invalid("input.agent", "and workflow exclude each other")
	case in.Type != "" && in.Type != simpleWorkflow && in.Type != customWorkflow:
		return invalid("input.type", "must be simple_workflow or custom_workflow")
	case in.Agent != "" && len(in.Messages) == 0:
		return &record.InvalidError{
			Code: record.CodeMissingField, Field: "input.user_message", Reason: "or messages is required",
		}
	case in.Workflow != "" && (len(in.Messages) > 0 || in.SystemPrompt != "" || in.ForceIncludeHistory):
		return invalid("input.workflow", "takes input, not messages, system_prompt or force_include_history")
	case in.Workflow != "" && string(in.Input) == "null":
		return missing("input.input")
	case in.Agent != "" && string(in.Input) != "null":
		return invalid("input.input", "is for workflows; an agent takes user_message or messages")
	}
	return nil
}

// checkMessages checks that the messages are texts of the user and the agent, the last one of the user.
func (in *Input) checkMessages() error {
	for i, m := range in.Messages {
		at := fmt.Sprintf("input.messages[%d]", i)
		switch {
		case m.Role != string(model.RoleUser) && m.Role != string(model.RoleAssistant):
			return invalid(at+".role", "must be user or assistant")
		case len(m.ToolCalls) > 0 || m.ToolCallID != "":
			return invalid(at, "must be a text")
		case strings.TrimSpace(m.Content) == "":
			return missing(at + ".content")
		}
	}

	if n := len(in.Messages); n > 0 && in.Messages[n-1].Role != string(model.RoleUser) {
		return invalid(fmt.Sprintf("input.messages[%d].role", n-1), "must be user: the last message is the user's")
	}
	return nil
}

func missing(field string) error {
	return &record.InvalidError{Code: record.CodeMissingField, Field: field, Reason: "is required"}
}

func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}
