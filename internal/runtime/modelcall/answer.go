package modelcall

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/view/chat"
	"github.com/actlog/actlog/record"
)

// Answer is what a model answered. What is not on record is nil.
type Answer struct {
	Text         string   `json:"text"`
	ToolCalls    []Call   `json:"toolCalls"`
	ModelName    *string  `json:"modelName"`
	InputTokens  *int64   `json:"inputTokens"`
	OutputTokens *int64   `json:"outputTokens"`
	CostUSD      *float64 `json:"costUsd"`
}

// Call is a tool call that a model asked for.
type Call struct {
	Name       string `json:"name"`
	Parameters string `json:"parameters"` // as the model wrote them, JSON as a rule
}

// AnswerOf returns what the model of a cycle answered. calls are those on record, which count if the answer itself
// names none.
func AnswerOf(c *record.ThinkAct, calls []*record.ActTool) Answer {
	a := Answer{
		ToolCalls: []Call{}, ModelName: c.ModelName, InputTokens: c.InputTokens, OutputTokens: c.OutputTokens,
		CostUSD: c.CostUSD,
	}
	var said model.Message
	if json.Unmarshal(c.Message, &said) == nil && said.Text() != "" || len(said.Calls()) > 0 {
		a.Text = said.Text()
		for _, call := range said.Calls() {
			a.ToolCalls = append(a.ToolCalls, Call{call.Name, call.Arguments})
		}
		return a
	}

	a.read(optional.Value(c.ThinkOutput))
	if len(a.ToolCalls) > 0 {
		return a
	}
	for _, t := range calls {
		a.ToolCalls = append(a.ToolCalls, Call{optional.Value(t.Name), optional.Value(t.Parameters)})
	}
	return a
}

// read reads an answer that is on record as a text, or as messages in any form.
func (a *Answer) read(output string) {
	messages := chat.ParseMessages(output)
	says := func(m chat.Message) bool {
		return m.Role != "" || slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return p.Kind == chat.Call })
	}
	if !slices.ContainsFunc(messages, says) { // a text, which may be JSON
		a.Text = output
		return
	}

	var text []string
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p.Kind {
			case chat.Text:
				text = append(text, p.Text)
			case chat.Call:
				a.ToolCalls = append(a.ToolCalls, Call{p.Name, p.Text})
			}
		}
	}
	a.Text = strings.Join(text, "\n")
}
