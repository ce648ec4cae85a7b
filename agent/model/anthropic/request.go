package anthropic

import (
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

type request struct {
	Model        string        `json:"model"`
	MaxTokens    int64         `json:"max_tokens"`
	System       []any         `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
	Tools        []tool        `json:"tools,omitempty"`
	Temperature  *float64      `json:"temperature,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	CacheControl *typed        `json:"cache_control,omitempty"`
	Stream       bool          `json:"stream"`
}

type typed struct {
	Type string `json:"type"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // blocks
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content,omitempty"`
	IsError   bool   `json:"is_error,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type outputConfig struct {
	Format format `json:"format"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// add adds a message. Instructions are beside the messages; those that come later are said by the user,
// because not every model knows them between messages. Results of tool calls are the user's, too, and
// consecutive messages of the user are one.
func (r *request) add(m model.Message, provider string) error {
	role := "user"
	switch m.Role {
	case model.RoleSystem:
		if len(r.Messages) == 0 {
			r.System = append(r.System, texts(m)...)
			return nil
		}
	case model.RoleUser, model.RoleTool:
	case model.RoleAssistant:
		role = "assistant"
	default:
		return fmt.Errorf("unknown role %q", m.Role)
	}

	blocks, err := encode(m, provider)
	if err != nil || len(blocks) == 0 { // the API refuses messages that say nothing
		return err
	}
	if last := len(r.Messages) - 1; last >= 0 && role == "user" && r.Messages[last].Role == role {
		r.Messages[last].Content = append(r.Messages[last].Content, blocks...)
		return nil
	}

	r.Messages = append(r.Messages, message{Role: role, Content: blocks})
	return nil
}

func encode(m model.Message, provider string) ([]any, error) {
	if m.Role == model.RoleAssistant && len(m.Raw) > 0 && m.Provider == provider {
		var raw struct {
			Content []json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(m.Raw, &raw); err != nil {
			return nil, fmt.Errorf("raw: %w", err)
		}

		var blocks []any
		for _, b := range raw.Content {
			blocks = append(blocks, b)
		}
		return blocks, nil
	}

	blocks := texts(m)
	for _, p := range m.Parts {
		if c := p.Call; c != nil {
			blocks = append(blocks, toolUse{
				Type: "tool_use", ID: c.ID, Name: model.OfferedName(c.Name),
				Input: json.RawMessage(modelhttp.Arguments(c.Arguments)),
			})
		}
		if r := p.Result; r != nil {
			blocks = append(blocks, toolResult{Type: "tool_result", ToolUseID: r.CallID, Content: r.Text, IsError: r.Failed})
		}
	}
	return blocks, nil
}

// texts returns the texts of a message as blocks. The API refuses empty ones.
func texts(m model.Message) []any {
	var blocks []any
	for _, p := range m.Parts {
		if p.Text != "" {
			blocks = append(blocks, textBlock{Type: "text", Text: p.Text})
		}
	}
	return blocks
}

func encodeTool(t model.ToolSpec) tool {
	return tool{Name: model.OfferedName(t.Name), Description: t.Description, InputSchema: model.OfferedSchema(t.Schema)}
}
