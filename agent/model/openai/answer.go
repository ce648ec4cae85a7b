package openai

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

// chunk is a piece of an answer, or a whole one: that has a message instead of a delta.
type chunk struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int            `json:"index"`
		Delta        map[string]any `json:"delta"`
		Message      map[string]any `json:"message"`
		FinishReason string         `json:"finish_reason"`
		NativeReason string         `json:"native_finish_reason"` // of the provider behind a gateway
	} `json:"choices"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"` // Gemini says so of a prompt that it does not answer
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	PromptTokens        *int64 `json:"prompt_tokens"`
	CompletionTokens    *int64 `json:"completion_tokens"`
	TotalTokens         *int64 `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens        *int64 `json:"cached_tokens"`
		CacheWriteTokens    *int64 `json:"cache_write_tokens"`
		CacheCreationTokens *int64 `json:"cache_creation_tokens"`
		CacheCreation       struct {
			FiveMinutes *int64 `json:"ephemeral_5m_input_tokens"`
			OneHour     *int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation_token_details"`
	} `json:"prompt_tokens_details"`
	// What other servers call cached tokens, which are within PromptTokens, too.
	CachedTokens            *int64 `json:"cached_tokens"`
	PromptCacheHitTokens    *int64 `json:"prompt_cache_hit_tokens"`
	CacheReadInputTokens    *int64 `json:"cache_read_input_tokens"`
	CacheCreationTokens     *int64 `json:"cache_creation_input_tokens"`
	CompletionTokensDetails struct {
		ReasoningTokens *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// answer collects an answer from its chunks.
type answer struct {
	source  modelhttp.Source
	onDelta func(model.Delta)

	id, model string
	message   object
	tool      string // that the first call calls
	text      strings.Builder
	refused   bool
	odd       bool // the content changed its form, so the message cannot be sent back as it was
	finish    model.Finish
	usage     *usage
}

func (a *answer) read(_ string, data []byte) error {
	if string(data) == "[DONE]" {
		return modelhttp.ErrDone
	}

	var c chunk
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&c); err != nil {
		return a.source.Unreadable(data, err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return a.source.Failed(data)
	}

	a.id, a.model = cmp.Or(c.ID, a.id), cmp.Or(c.Model, a.model)
	a.usage = cmp.Or(c.Usage, a.usage)
	if c.PromptFeedback.BlockReason != "" {
		a.finish = model.FinishContentFilter
	}

	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}

		for _, piece := range []map[string]any{choice.Delta, choice.Message} {
			if !a.say(piece) {
				return a.source.Unreadable(data, errPieces)
			}
		}

		if choice.FinishReason != "" {
			a.finish = model.FinishOf(choice.FinishReason)
		}
		if native := model.FinishOf(choice.NativeReason); native == model.FinishRefusal ||
			native == model.FinishContentFilter {
			a.finish = native
		}
	}
	return nil
}

var errPieces = errors.New("the pieces of the answer do not fit together")

// say adds a piece of the message. It reports false if the piece does not fit what came before.
func (a *answer) say(piece map[string]any) bool {
	if a.message == nil {
		a.message = object{}
	}

	content := piece["content"]
	delete(piece, "content")
	a.tell(piece["tool_calls"])
	a.odd = !a.message.merge(map[string]any{"content": content}) || a.odd
	if !a.message.merge(piece) {
		return false
	}

	text, refusal := contentText(content)
	if said, _ := piece["refusal"].(string); said != "" {
		refusal += said
	}
	a.refused = a.refused || refusal != ""
	text += refusal
	a.text.WriteString(text)

	if text != "" && a.onDelta != nil {
		a.onDelta(model.Delta{Text: text})
	}
	return true
}

// tell passes on a piece of the arguments of the first call, if there is one in a piece of the calls.
func (a *answer) tell(calls any) {
	list, _ := calls.([]any)
	for at, one := range list {
		call, _ := one.(map[string]any)
		f, _ := call["function"].(map[string]any)
		if index, given := call["index"].(json.Number); given && index != "0" || !given && at > 0 {
			continue
		}

		name, _ := f["name"].(string)
		a.tool = cmp.Or(a.tool, name)
		if arguments, _ := f["arguments"].(string); arguments != "" && a.onDelta != nil {
			a.onDelta(model.Delta{Tool: a.tool, Arguments: arguments})
		}
	}
}

// contentText returns the text of a content, which is a text or a list of parts, and the words of a refusal among the
// parts.
func contentText(content any) (text, refusal string) {
	text, _ = content.(string)
	parts, _ := content.([]any)
	for _, p := range parts {
		part, _ := p.(map[string]any)
		said, _ := part["text"].(string)
		refused, _ := part["refusal"].(string)
		text, refusal = text+said, refusal+refused
	}
	return text, refusal
}

// response returns the whole answer. own has the names of tools by their offered form.
func (a *answer) response(own map[string]string) (*model.Response, error) {
	if a.finish == "" {
		return nil, a.source.Incomplete()
	}

	m := model.Message{Role: model.RoleAssistant, Parts: []model.Part{}, Provider: a.source.Provider}
	if text := a.text.String(); text != "" {
		m.Parts = append(m.Parts, model.Part{Text: text})
	}
	for _, c := range a.calls() {
		c.Name = cmp.Or(own[c.Name], c.Name)
		m.Parts = append(m.Parts, model.Part{Call: &c})
	}

	finish := a.finish
	switch {
	case a.refused:
		finish = model.FinishRefusal
	case finish == model.FinishStop && len(m.Calls()) > 0: // as some servers say
		finish = model.FinishToolCalls
	}

	if !a.odd {
		var err error
		if m.Raw, err = json.Marshal(a.raw()); err != nil {
			return nil, a.source.Unreadable(nil, err)
		}
	}
	return &model.Response{ID: a.id, Model: a.model, Message: m, Finish: finish, Usage: a.counts()}, nil
}

// calls returns the tool calls, and completes the message for sending it back: each call has an id,
// and arguments that are JSON.
func (a *answer) calls() []model.ToolCall {
	var calls []model.ToolCall
	list, _ := a.message["tool_calls"].([]any)
	for _, one := range list {
		o, _ := one.(object)
		f, _ := o["function"].(object)
		if f == nil {
			continue
		}

		if o.text("id") == "" {
			o.set("id", "call_"+rand.Text())
		}
		o.set("type", "function")
		delete(o, "index")
		calls = append(calls, model.ToolCall{ID: o.text("id"), Name: f.text("name"), Arguments: f.text("arguments")})
		f.set("arguments", modelhttp.Arguments(f.text("arguments")))
	}
	return calls
}

// raw returns the message as it is sent back.
func (a *answer) raw() object {
	raw := a.message
	raw.set("role", "assistant")
	if raw["content"] == nil {
		raw["content"] = nil // the API wants the field
	}
	return raw
}

// counts returns the usage. Some servers do not count reasoning as output, which their total shows.
func (a *answer) counts() model.Usage {
	if a.usage == nil {
		return model.Usage{}
	}

	prompt := &a.usage.PromptTokensDetails
	u := model.Usage{
		Input: a.usage.PromptTokens, Output: a.usage.CompletionTokens,
		CacheRead: cmp.Or(prompt.CachedTokens, a.usage.CachedTokens, a.usage.PromptCacheHitTokens,
			a.usage.CacheReadInputTokens),
		CacheWrite: cmp.Or(prompt.CacheWriteTokens, prompt.CacheCreationTokens, a.usage.CacheCreationTokens,
			modelhttp.Sum(prompt.CacheCreation.FiveMinutes, prompt.CacheCreation.OneHour)),
		CacheWrite1h: prompt.CacheCreation.OneHour,
		Reasoning:    a.usage.CompletionTokensDetails.ReasoningTokens,
	}
	if total := a.usage.TotalTokens; total != nil && u.Input != nil && u.Output != nil && u.Reasoning != nil &&
		*total == *u.Input+*u.Output+*u.Reasoning {
		u.Output = new(*u.Output + *u.Reasoning)
	}
	return u
}
