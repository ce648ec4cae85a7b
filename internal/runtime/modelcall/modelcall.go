// Package modelcall owns how a model call is read that is on record, whoever recorded it: what the model was asked, as
// package model has it, and what it answered. What is recorded may be anything, and is only read. Pure functions.
package modelcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/view/chat"
	"github.com/actlog/actlog/record"
)

// Request is what a model was asked, as far as it is on record.
type Request struct {
	Messages    []model.Message
	Tools       []model.ToolSpec // with names that a tool can have
	Temperature *float64         // nil: not on record
	MaxTokens   int64            // 0: not on record
}

// maxMessages is how many messages of a text are read.
const maxMessages = 1_000

// The reasons why a model call cannot be made again.
var (
	// ErrNoInput means that nothing is on record of what the model was asked.
	ErrNoInput = errors.New("the cycle has no input on record, so there is nothing to send to a model")
	// ErrTooLong means that the model was asked more than is sent again.
	ErrTooLong = fmt.Errorf("the input of the cycle is too long to be sent again: it has over %d messages or %d bytes",
		maxMessages, record.MaxTextBytes)
)

// Recorded returns what the model of a cycle was asked that somebody else recorded, in any form that package chat
// reads. A text without messages is one of the user. Tools and settings are those beside the messages, if the input is
// a whole request, else those in the metadata of the cycle. The error is [ErrNoInput] or [ErrTooLong].
func Recorded(c *record.ThinkAct) (r Request, err error) {
	said := chat.ParseMessages(optional.Value(c.ThinkInput))
	if len(said) > maxMessages {
		return r, ErrTooLong
	}

	t := talk{}
	r.read(c.Metadata)
	for _, m := range said {
		if isBeside(m) {
			for _, p := range m.Parts {
				r.read(json.RawMessage(p.Text))
			}
			continue
		}
		t.add(m)
	}

	input := optional.Value(c.ThinkInput)
	switch r.Messages = t.end(); {
	case strings.TrimSpace(input) == "":
		return r, ErrNoInput
	case len(r.Messages) == 0:
		r.Messages = []model.Message{model.User(input)}
	}
	return r, nil
}

// isBeside reports whether a message is none, but what stood beside the messages.
func isBeside(m chat.Message) bool {
	return m.Role == "" && m.Name == "" &&
		!slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return p.Kind != chat.Other })
}

// roles are those of messages, by what recorded roles are called. Any other is the user's.
var roles = map[string]model.Role{
	"system": model.RoleSystem, "developer": model.RoleSystem,
	"assistant": model.RoleAssistant, "model": model.RoleAssistant,
}

// talk is a conversation that is put together so that providers accept it: each call has an id of its own, and is
// followed by its result.
type talk struct {
	messages []model.Message
	open     []model.ToolCall            // of the last message
	results  map[string]model.ToolResult // of these, by their ids
	calls    int                         // so far
}

func (t *talk) add(m chat.Message) {
	role, known := roles[m.Role]
	if !known {
		role = model.RoleUser
	}
	isCall := func(p chat.Part) bool { return p.Kind == chat.Call }
	if slices.ContainsFunc(m.Parts, isCall) { // only a model calls tools
		role = model.RoleAssistant
	}

	onlyOther := !slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return p.Kind != chat.Other })
	for _, p := range m.Parts {
		switch {
		case p.Kind == chat.Call:
			t.call(p)
		case p.Kind == chat.Result:
			t.result(p)
		case (p.Kind == chat.Text || p.Kind == chat.Other && onlyOther) && p.Text != "":
			t.say(role, model.Part{Text: p.Text})
		}
	}
}

// say adds a part to the last message, if that is of the same role and nothing came of it yet, or to a new one.
func (t *talk) say(role model.Role, p model.Part) {
	last := len(t.messages) - 1
	if last >= 0 && t.messages[last].Role == role && role == model.RoleAssistant && len(t.results) == 0 {
		t.messages[last].Parts = append(t.messages[last].Parts, p)
		return
	}
	t.answerAll()
	t.messages = append(t.messages, model.Message{Role: role, Parts: []model.Part{p}})
}

func (t *talk) call(p chat.Part) {
	t.calls++
	c := model.ToolCall{ID: p.ID, Name: p.Name, Arguments: p.Text}
	if c.ID == "" || slices.ContainsFunc(t.open, func(other model.ToolCall) bool { return other.ID == c.ID }) {
		c.ID = fmt.Sprintf("call_%d", t.calls)
	}
	t.say(model.RoleAssistant, model.Part{Call: &c})
	t.open = append(t.open, c)
}

// result adds the result of the call that it is of, as far as that is known: of its id, or else of its name, or else
// the first one. One of a call that was not made is said by the user.
func (t *talk) result(p chat.Part) {
	for _, fits := range []func(model.ToolCall) bool{
		func(c model.ToolCall) bool { return p.ID != "" && c.ID == p.ID },
		func(c model.ToolCall) bool { return p.ID == "" && c.Name == p.Name },
		func(model.ToolCall) bool { return p.ID == "" && p.Name == "" },
	} {
		for _, c := range t.open {
			if _, has := t.results[c.ID]; has || !fits(c) {
				continue
			}
			if t.results == nil {
				t.results = map[string]model.ToolResult{}
			}
			t.results[c.ID] = model.ToolResult{CallID: c.ID, Name: c.Name, Text: p.Text, Failed: p.Failed}
			return
		}
	}
	t.say(model.RoleUser, model.Part{Text: strings.TrimSpace("Result of a tool "+p.Name) + ":\n" + p.Text})
}

// answerAll adds the results of the last calls.
func (t *talk) answerAll() {
	if len(t.open) == 0 {
		return
	}

	var all []model.ToolResult
	for _, c := range t.open {
		r, ok := t.results[c.ID]
		if !ok {
			r = model.ToolResult{CallID: c.ID, Name: c.Name, Text: "The result of this call is not on record.", Failed: true}
		}
		all = append(all, r)
	}
	t.messages = append(t.messages, model.Results(all...))
	t.open, t.results = nil, nil
}

func (t *talk) end() []model.Message {
	t.answerAll()
	return t.messages
}
