package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/tool"
)

// round is what a server asks in one round of a call, since the protocol of 2026-07-28. It is all that is
// needed to go on with the call, from another process too.
type round struct {
	Number    int // from 1
	State     string
	Questions []asked
}

// asked is a question of a round. Without a question it is one that nobody here can answer.
type asked struct {
	ID       string
	Question *tool.Question `json:",omitempty"`
}

// roundOf returns the round that a call was in; nil if there was none.
func roundOf(state json.RawMessage) *round {
	var r round
	if json.Unmarshal(state, &r) != nil || r.Number < 1 {
		return nil
	}
	return &r
}

// next returns the round that a result asks for.
func (r *round) next(result *sdk.CallToolResult) (*round, error) {
	next := &round{Number: 1, State: result.RequestState}
	if r != nil {
		next.Number = r.Number + 1
	}

	for i, id := range slices.Sorted(maps.Keys(result.InputRequests)) {
		one := asked{ID: id}
		if params, ok := result.InputRequests[id].(*sdk.ElicitParams); ok {
			q, err := question(params)
			if err != nil {
				return nil, err
			}
			// The server may choose other ids when the call is made again.
			q.Key = fmt.Sprintf("%d.%d", next.Number, i+1)
			one.Question = &q
		}
		next.Questions = append(next.Questions, one)
	}
	return next, nil
}

// answers asks the questions.
func (r *round) answers(
	ctx context.Context, ask func(context.Context, tool.Question) (tool.Answer, error),
) (sdk.InputResponseMap, error) {
	state, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the questions of a server: %w", err)
	}

	answers := sdk.InputResponseMap{}
	for _, one := range r.Questions {
		if one.Question == nil || ask == nil {
			answers[one.ID] = &sdk.ElicitResult{Action: string(tool.Cancel)}
			continue
		}

		q := *one.Question
		q.State = state
		answer, err := ask(ctx, q)
		if err != nil {
			return nil, err
		}
		answers[one.ID] = elicited(answer)
	}
	return answers, nil
}

// maxQuestion bounds a question and its schema, in bytes.
const maxQuestion = 64 << 10

func question(p *sdk.ElicitParams) (tool.Question, error) {
	q := tool.Question{Message: tool.Cut(p.Message, maxQuestion), URL: p.URL}
	if p.RequestedSchema != nil {
		schema, err := json.Marshal(p.RequestedSchema)
		if err != nil || len(schema) > maxQuestion {
			return q, errors.New("the schema of a question is too long")
		}
		q.Schema = schema
	}
	return q, nil
}

func elicited(a tool.Answer) *sdk.ElicitResult {
	if a.Decision != tool.Accept {
		return &sdk.ElicitResult{Action: string(a.Decision)}
	}
	return &sdk.ElicitResult{Action: string(a.Decision), Content: a.Values}
}
