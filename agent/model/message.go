package model

import (
	"encoding/json"
	"strings"
)

// Role says whose message it is.
type Role string

// The roles. Results of tool calls follow the message that has the calls.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant" // the model
	RoleTool      Role = "tool"
)

// Message is one message of a conversation. Its JSON is stable, so that it can be kept: what is
// decoded from it encodes to the same bytes.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`

	// Raw is a message of the model in the form of its provider: with its reasoning and signatures,
	// which some providers want back unchanged. A model whose provider has the same name gets Raw.
	// Others get Parts.
	Provider string          `json:"provider,omitempty"`
	Raw      json.RawMessage `json:"raw,omitempty"`
	// Model is the name under which the runtime knows the model that said it, if it is not the one of the agent: it
	// answered in its place. The runtime gives Raw to no other model.
	Model string `json:"model,omitempty"`
}

// Part is one of its fields.
type Part struct {
	Text   string      `json:"text,omitempty"`
	Call   *ToolCall   `json:"call,omitempty"`
	Result *ToolResult `json:"result,omitempty"`
}

// ToolCall is a tool call of the model. Arguments is what the model wrote: JSON, unless it made a
// mistake or was cut.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ToolResult is the result of a tool call. If Failed is set, Text is the error.
type ToolResult struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// System returns a message that instructs the model.
func System(text string) Message {
	return Message{Role: RoleSystem, Parts: []Part{{Text: text}}}
}

// User returns a message of the user.
func User(text string) Message {
	return Message{Role: RoleUser, Parts: []Part{{Text: text}}}
}

// Results returns the message that answers the tool calls of the message before it.
func Results(results ...ToolResult) Message {
	m := Message{Role: RoleTool}
	for _, r := range results {
		m.Parts = append(m.Parts, Part{Result: &r})
	}
	return m
}

// Text returns the texts of the parts, one after the other.
func (m Message) Text() string {
	var text strings.Builder
	for _, p := range m.Parts {
		text.WriteString(p.Text)
	}
	return text.String()
}

// Calls returns the tool calls.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
