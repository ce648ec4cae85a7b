package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

type request struct {
	Model               string          `json:"model"`
	Messages            []any           `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	MaxTokens           int64           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64           `json:"max_completion_tokens,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string `json:"role"`
	Content    any    `json:"content"` // a text; null if there are only tool calls
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

// encodeMessage returns the messages that say the same: one for each result of a tool call. One that
// says nothing is left out.
func encodeMessage(m model.Message, provider string) ([]any, error) {
	if len(m.Parts) == 0 {
		return nil, nil
	}

	switch m.Role {
	case model.RoleSystem, model.RoleUser:
		return []any{message{Role: string(m.Role), Content: m.Text()}}, nil

	case model.RoleAssistant:
		if len(m.Raw) > 0 && m.Provider == provider {
			return []any{m.Raw}, nil
		}

		said := message{Role: "assistant"}
		if text := m.Text(); text != "" {
			said.Content = text
		}
		for _, c := range m.Calls() {
			said.ToolCalls = append(said.ToolCalls, call{ID: c.ID, Type: "function", Function: function{
				Name: model.OfferedName(c.Name), Arguments: modelhttp.Arguments(c.Arguments),
			}})
		}
		return []any{said}, nil

	case model.RoleTool:
		var results []any
		for _, p := range m.Parts {
			if p.Result != nil {
				results = append(results, message{Role: "tool", Content: p.Result.Text, ToolCallID: p.Result.CallID})
			}
		}
		return results, nil
	}
	return nil, fmt.Errorf("unknown role %q", m.Role)
}

func encodeTool(t model.ToolSpec) tool {
	return tool{
		Type: "function", Function: toolFunction{
			Name: model.OfferedName(t.Name), Description: t.Description, Parameters: model.OfferedSchema(t.Schema),
		},
	}
}

// encodeSchema asks for an answer that fits a schema: strictly, if OpenAI can.
func encodeSchema(schema json.RawMessage) *responseFormat {
	var root map[string]any
	err := json.Unmarshal(schema, &root)
	return &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{
		Name: "answer", Schema: schema, Strict: err == nil && root["type"] == "object" && root["anyOf"] == nil &&
			strict(root),
	}}
}

// unenforced are the keywords that OpenAI refuses in a strict schema.
var unenforced = []string{
	"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
}

// strict reports whether OpenAI can enforce a schema: every object is closed, and requires all its
// properties.
func strict(schema any) bool {
	switch s := schema.(type) {
	case []any:
		return !slices.ContainsFunc(s, func(one any) bool { return !strict(one) })

	case map[string]any:
		properties, isObject := s["properties"].(map[string]any)
		if isObject || s["type"] == "object" {
			required, _ := s["required"].([]any)
			if s["additionalProperties"] != false || len(required) < len(properties) {
				return false
			}
		}

		for key, below := range s {
			switch key {
			case "properties", "$defs", "definitions":
				named, _ := below.(map[string]any)
				for _, one := range named {
					if !strict(one) {
						return false
					}
				}

			case "items", "anyOf":
				if !strict(below) {
					return false
				}
			default:
				if slices.Contains(unenforced, key) {
					return false
				}
			}
		}
	}
	return true
}
