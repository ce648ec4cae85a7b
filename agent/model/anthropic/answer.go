package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

// event is an event of a stream, or a whole message.
type event struct {
	Type string `json:"type"`
	whole
	Message      *whole         `json:"message"`
	Index        int            `json:"index"`
	ContentBlock map[string]any `json:"content_block"`
	Delta        struct {
		Type        string  `json:"type"`
		Text        string  `json:"text"`
		Thinking    string  `json:"thinking"`
		Signature   string  `json:"signature"`
		PartialJSON string  `json:"partial_json"`
		Citation    any     `json:"citation"`
		StopReason  string  `json:"stop_reason"`
		StopDetails details `json:"stop_details"`
	} `json:"delta"`
}

// details say more about a refusal.
type details struct {
	Explanation string `json:"explanation"`
}

type whole struct {
	ID         string           `json:"id"`
	Model      string           `json:"model"`
	Content    []map[string]any `json:"content"`
	StopReason string           `json:"stop_reason"`
	Details    details          `json:"stop_details"`
	Usage      usage            `json:"usage"`
}

type usage struct {
	InputTokens   *int64 `json:"input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	CacheWrites   struct {
		FiveMinutes *int64 `json:"ephemeral_5m_input_tokens"`
		OneHour     *int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	CacheRead    *int64 `json:"cache_read_input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	Details      struct {
		ThinkingTokens *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// block is a block of the answer: what it started as, and what was added.
type block struct {
	start                              map[string]any
	text, thinking, signature, written strings.Builder
	citations                          []any
}

// answer collects an answer from its events.
type answer struct {
	source  modelhttp.Source
	onDelta func(model.Delta)

	id, model string
	blocks    []*block
	reason    string
	why       string // it refused
	usage     usage
	complete  bool
}

func (a *answer) read(_ string, data []byte) error {
	var e event
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&e); err != nil {
		return a.source.Unreadable(data, err)
	}

	switch e.Type {
	case "error":
		return a.source.Failed(data)
	case "message_start":
		if e.Message != nil {
			a.begin(*e.Message)
		}

	case "message":
		a.begin(e.whole)
		a.reason, a.why = e.StopReason, e.Details.Explanation
		for _, start := range e.Content {
			a.open(start)
		}
		a.complete = true
		return modelhttp.ErrDone

	case "content_block_start":
		if e.Index != len(a.blocks) {
			return a.source.Unreadable(data, fmt.Errorf("a block starts, but the next is %d", len(a.blocks)))
		}
		a.open(e.ContentBlock)

	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(a.blocks) {
			return a.source.Unreadable(data, errors.New("a piece of no block"))
		}
		b := a.blocks[e.Index]
		if e.Delta.Text != "" && b.start["type"] != "text" {
			return a.source.Unreadable(data, errors.New("a text for a block of another type"))
		}
		a.add(b, &e)

	case "message_delta":
		a.reason, a.why = cmp.Or(e.Delta.StopReason, a.reason), cmp.Or(e.Delta.StopDetails.Explanation, a.why)
		a.count(e.Usage)
	case "message_stop":
		a.complete = true
		return modelhttp.ErrDone
	}
	return nil
}

func (a *answer) begin(m whole) {
	a.id, a.model = m.ID, m.Model
	a.count(m.Usage)
}

// count takes counts, each of which is of the whole answer so far.
func (a *answer) count(u usage) {
	a.usage.InputTokens = cmp.Or(u.InputTokens, a.usage.InputTokens)
	a.usage.CacheCreation = cmp.Or(u.CacheCreation, a.usage.CacheCreation)
	a.usage.CacheWrites.FiveMinutes = cmp.Or(u.CacheWrites.FiveMinutes, a.usage.CacheWrites.FiveMinutes)
	a.usage.CacheWrites.OneHour = cmp.Or(u.CacheWrites.OneHour, a.usage.CacheWrites.OneHour)
	a.usage.CacheRead = cmp.Or(u.CacheRead, a.usage.CacheRead)
	a.usage.OutputTokens = cmp.Or(u.OutputTokens, a.usage.OutputTokens)
	a.usage.Details.ThinkingTokens = cmp.Or(u.Details.ThinkingTokens, a.usage.Details.ThinkingTokens)
}

// open begins a block.
func (a *answer) open(start map[string]any) {
	if start == nil {
		start = map[string]any{}
	}
	a.blocks = append(a.blocks, &block{start: start})
	if text, _ := start["text"].(string); start["type"] == "text" {
		a.say(text)
	}
}

func (a *answer) add(b *block, e *event) {
	b.text.WriteString(e.Delta.Text)
	b.thinking.WriteString(e.Delta.Thinking)
	b.signature.WriteString(e.Delta.Signature)
	b.written.WriteString(e.Delta.PartialJSON)
	if e.Delta.Citation != nil {
		b.citations = append(b.citations, e.Delta.Citation)
	}

	a.say(e.Delta.Text)
	a.tell(b, e.Delta.PartialJSON)
}

// tell passes on a piece of the arguments of a call, if it is the first one.
func (a *answer) tell(b *block, arguments string) {
	isCall := func(b *block) bool { return b.start["type"] == "tool_use" }
	at := slices.IndexFunc(a.blocks, isCall)
	if arguments == "" || a.onDelta == nil || at < 0 || a.blocks[at] != b {
		return
	}

	name, _ := b.start["name"].(string)
	a.onDelta(model.Delta{Tool: name, Arguments: arguments})
}

func (a *answer) say(text string) {
	if text != "" && a.onDelta != nil {
		a.onDelta(model.Delta{Text: text})
	}
}

// raw returns the block as it is sent back.
func (b *block) raw() map[string]any {
	raw := b.start
	for name, more := range map[string]*strings.Builder{
		"text": &b.text, "thinking": &b.thinking, "signature": &b.signature,
	} {
		if more.Len() > 0 {
			began, _ := raw[name].(string)
			raw[name] = began + more.String()
		}
	}

	if b.written.Len() > 0 {
		raw["input"] = json.RawMessage(modelhttp.Arguments(b.written.String()))
	}
	if len(b.citations) > 0 {
		raw["citations"] = b.citations
	}
	return raw
}

// arguments returns what the model wrote.
func (b *block) arguments() string {
	if b.written.Len() > 0 {
		return b.written.String()
	}

	whole, err := json.Marshal(b.start["input"])
	if err != nil || string(whole) == "null" {
		return "{}"
	}
	return string(whole)
}

// response returns the whole answer. own has the names of tools by their offered form.
func (a *answer) response(own map[string]string) (*model.Response, error) {
	if !a.complete || a.reason == "" {
		return nil, a.source.Incomplete()
	}

	m := model.Message{Role: model.RoleAssistant, Parts: []model.Part{}, Provider: a.source.Provider}
	content := []any{}
	for _, b := range a.blocks {
		arguments := b.arguments()
		raw := b.raw()
		switch raw["type"] {
		case "text":
			text, _ := raw["text"].(string)
			if text == "" {
				continue // the API refuses it
			}
			m.Parts = append(m.Parts, model.Part{Text: text})

		case "tool_use":
			id, _ := raw["id"].(string)
			name, _ := raw["name"].(string)
			m.Parts = append(m.Parts, model.Part{
				Call: &model.ToolCall{ID: id, Name: cmp.Or(own[name], name), Arguments: arguments},
			})
			raw["input"] = json.RawMessage(modelhttp.Arguments(arguments))
		}

		content = append(content, raw)
	}

	var err error
	if m.Raw, err = json.Marshal(map[string]any{"role": "assistant", "content": content}); err != nil {
		return nil, a.source.Unreadable(nil, err)
	}

	finish := model.FinishOf(a.reason)
	if finish == model.FinishRefusal && a.why != "" && m.Text() == "" {
		m.Parts = append(m.Parts, model.Part{Text: a.why})
		a.say(a.why)
	}
	return &model.Response{ID: a.id, Model: a.model, Message: m, Finish: finish, Usage: a.counts()}, nil
}

// counts returns the usage. The API counts the tokens of the cache beside the input.
func (a *answer) counts() model.Usage {
	u := model.Usage{
		Input: a.usage.InputTokens, Output: a.usage.OutputTokens,
		CacheRead: a.usage.CacheRead, CacheWrite: a.usage.CacheCreation, CacheWrite1h: a.usage.CacheWrites.OneHour,
		Reasoning: a.usage.Details.ThinkingTokens,
	}

	if u.CacheWrite == nil {
		u.CacheWrite = modelhttp.Sum(a.usage.CacheWrites.FiveMinutes, a.usage.CacheWrites.OneHour)
	}
	for _, cached := range []*int64{u.CacheRead, u.CacheWrite} {
		if u.Input != nil && cached != nil {
			u.Input = new(*u.Input + *cached)
		}
	}
	return u
}
