package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/model"
)

// Scripted is a model that follows a script, see [Model]. Its methods may be called at the same time.
type Scripted struct {
	answers []scene

	mu       sync.Mutex
	failed   map[string]int // how often a conversation was told an error, by its messages
	requests []model.Request
}

// scene is an answer, and the errors that come before it.
type scene struct {
	errors []Turn
	answer *Turn // nil: there is none after the errors
}

// Model returns a model that gives these answers in a conversation, one after the other. Which one is next follows from
// the messages of the request alone: so any number of runs can ask it at the same time, and a run that is carried on by
// another worker gets what it would have got. Agents that ask for different things have a model each.
//
// A [Fail] comes once, before the answer after it. A request beyond the last turn fails with
// [model.KindInvalidRequest].
func Model(turns ...Turn) *Scripted {
	m := &Scripted{failed: map[string]int{}, answers: []scene{{}}}
	for _, t := range turns {
		last := &m.answers[len(m.answers)-1]
		if t.fails {
			last.errors = append(last.errors, t)
			continue
		}
		last.answer = &t
		m.answers = append(m.answers, scene{})
	}
	return m
}

// Provider implements [model.Model].
func (*Scripted) Provider() string { return "scripted" }

// Name implements [model.Model].
func (*Scripted) Name() string { return "scripted" }

// Requests returns what the model was asked so far, oldest first.
func (m *Scripted) Requests() []model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Generate implements [model.Model].
func (m *Scripted) Generate(
	ctx context.Context, req model.Request, onDelta func(model.Delta),
) (*model.Response, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, &model.Error{Kind: model.KindCancelled, Message: err.Error(), Err: err}
	}

	answered := 0
	for _, message := range req.Messages {
		if message.Role == model.RoleAssistant {
			answered++
		}
	}

	turn, err := m.next(req, answered)
	if err != nil {
		return nil, err
	}
	response, err := turn.Answer(ctx, req)
	if err != nil {
		return nil, err
	}

	response = complete(response, req, answered)
	if onDelta != nil {
		show(response.Message, onDelta)
	}
	return response, nil
}

// next returns the turn that answers a request.
func (m *Scripted) next(req model.Request, answered int) (*Turn, error) {
	conversation, err := json.Marshal(req.Messages)
	if err != nil {
		return nil, &model.Error{Kind: model.KindInvalidRequest, Message: err.Error(), Err: err}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, req)
	if answered >= len(m.answers) {
		return nil, m.over()
	}

	s, key := m.answers[answered], string(conversation)
	if n := m.failed[key]; n < len(s.errors) {
		m.failed[key]++
		return &s.errors[n], nil
	}
	if s.answer == nil {
		return nil, m.over()
	}
	return s.answer, nil
}

func (m *Scripted) over() error {
	return &model.Error{
		Kind: model.KindInvalidRequest, Provider: m.Provider(), Model: m.Name(),
		Message: fmt.Sprintf("the script has %d answers, and the conversation goes on", len(m.answers)-1),
	}
}

// complete returns a response with what a script does not say.
func complete(r *model.Response, req model.Request, answered int) *model.Response {
	out := *r
	out.Message.Role, out.Message.Parts = model.RoleAssistant, slices.Clone(r.Message.Parts)
	calls, chars := 0, 0
	for i, part := range out.Message.Parts {
		chars += utf8.RuneCountInString(part.Text)
		if part.Call == nil {
			continue
		}

		call := *part.Call
		if calls++; call.ID == "" {
			call.ID = fmt.Sprintf("call_%d_%d", answered+1, calls)
		}
		chars += utf8.RuneCountInString(call.Name + call.Arguments)
		out.Message.Parts[i].Call = &call
	}

	if out.Finish == "" {
		out.Finish = model.FinishStop
		if calls > 0 {
			out.Finish = model.FinishToolCalls
		}
	}
	if out.Usage.Input == nil && out.Usage.Output == nil {
		out.Usage.Input, out.Usage.Output = new(tokens(charsIn(req.Messages))), new(tokens(chars))
	}
	return &out
}

// tokens is about how many tokens there are in so many characters.
func tokens(chars int) int64 { return int64(chars+3) / 4 }

func charsIn(messages []model.Message) (n int) {
	for _, m := range messages {
		for _, p := range m.Parts {
			n += utf8.RuneCountInString(p.Text)
			if p.Call != nil {
				n += utf8.RuneCountInString(p.Call.Name + p.Call.Arguments)
			}
			if p.Result != nil {
				n += utf8.RuneCountInString(p.Result.Text)
			}
		}
	}
	return n
}

// show says a message in pieces, as models do: its texts, and its first call.
func show(m model.Message, onDelta func(model.Delta)) {
	called := false
	for _, p := range m.Parts {
		for piece := range slices.Chunk([]rune(p.Text), pieceRunes) {
			onDelta(model.Delta{Text: string(piece)})
		}
		if p.Call != nil && !called {
			called = true
			onDelta(model.Delta{Tool: p.Call.Name, Arguments: p.Call.Arguments})
		}
	}
}

// pieceRunes is how long the pieces of a text are, in characters.
const pieceRunes = 16
