package agenttest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/actlog/actlog/agent/model"
)

// Turn is one answer of a [Model].
type Turn struct {
	fails  bool
	answer func(ctx context.Context, req model.Request) (*model.Response, error)
}

// Text is an answer in words. It ends a conversation. An agent that is asked for something with [agent.Request] ends
// with [Final] instead.
//
// [agent.Request]: https://pkg.go.dev/github.com/actlog/actlog/agent#Request
func Text(text string) Turn { return said(model.Part{Text: text}) }

// Call is an answer that calls a tool. arguments become JSON; a text is sent as it is, so that it can be what no tool
// takes.
func Call(tool string, arguments any) Turn {
	text, isText := arguments.(string)
	if !isText {
		b, err := json.Marshal(arguments)
		if err != nil {
			return broken(err)
		}
		text = string(b)
	}
	return said(model.Part{Call: &model.ToolCall{Name: tool, Arguments: text}})
}

// Final is what an agent answers: it calls the tool terminate with a message.
func Final(message string) Turn { return Call("terminate", map[string]string{"message": message}) }

// Together is one answer with all that these say: words, and calls of several tools at once.
func Together(turns ...Turn) Turn {
	return Func(func(ctx context.Context, req model.Request) (*model.Response, error) {
		all := &model.Response{}
		for _, t := range turns {
			each, err := t.Answer(ctx, req)
			if err != nil {
				return nil, err
			}
			all.Message.Parts = append(all.Message.Parts, each.Message.Parts...)
		}
		return all, nil
	})
}

// Fail is an error, as of a provider that refuses a request or is away. Errors of some kinds are tried again after
// a pause: [model.WithPatience] makes it short.
func Fail(kind model.Kind, message string) Turn {
	return Turn{fails: true, answer: func(context.Context, model.Request) (*model.Response, error) {
		return nil, &model.Error{Kind: kind, Provider: "scripted", Model: "scripted", Message: message}
	}}
}

// Func is an answer that depends on the request, such as on what a tool returned. What it does not set is completed:
// the role, the ids of calls, why the model stopped, and the usage. Its errors are of type [*model.Error].
func Func(answer func(ctx context.Context, req model.Request) (*model.Response, error)) Turn {
	return Turn{answer: answer}
}

// Answer returns what the turn answers to a request, for a [Func] that chooses one of several.
func (t Turn) Answer(ctx context.Context, req model.Request) (*model.Response, error) {
	if t.answer == nil {
		return broken(errors.New("a turn says nothing")).answer(ctx, req)
	}
	r, err := t.answer(ctx, req)
	if err == nil && r == nil {
		return broken(errors.New("a turn returned no answer")).answer(ctx, req)
	}
	return r, err
}

func said(p model.Part) Turn {
	return Func(func(context.Context, model.Request) (*model.Response, error) {
		return &model.Response{Message: model.Message{Role: model.RoleAssistant, Parts: []model.Part{p}}}, nil
	})
}

// broken is a turn of a script that is wrong.
func broken(err error) Turn {
	return Func(func(context.Context, model.Request) (*model.Response, error) {
		return nil, &model.Error{Kind: model.KindInvalidRequest, Message: "the script is wrong: " + err.Error(), Err: err}
	})
}
