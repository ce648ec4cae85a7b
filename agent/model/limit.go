package model

import (
	"context"

	"github.com/actlog/actlog/agent/limit"
)

// Limits bound the requests to a model. 0 means no limit.
type Limits struct {
	Concurrent int // requests at the same time
	PerMinute  int // requests that start within any 60 seconds
	// TokensPerMinute are the tokens, in and out, that are used within any 60 seconds. A request starts when as many are
	// free as [Request.ExpectedTokens] returns; what it used in the end counts.
	TokensPerMinute int64
}

// Limit returns m within limits. Requests that must wait start in the order in which they came. One
// whose context ends while it waits was not sent, and does not count. Without a runtime the limits are those of this
// Model; a runtime keeps them over all workers of its database, see [Unlimited].
func Limit(m Model, limits Limits) Model {
	return &limited{Model: m, limits: limits, limiter: limit.New(limit.Limits(limits))}
}

type limited struct {
	Model
	limits  Limits
	limiter *limit.Limiter
}

// Generate implements Model.
func (l *limited) Generate(ctx context.Context, req Request, onDelta func(Delta)) (*Response, error) {
	expected := req.ExpectedTokens()
	end, err := l.limiter.Begin(ctx, expected)
	if err != nil {
		return nil, &Error{
			Kind: KindCancelled, Provider: l.Provider(), Model: l.Name(),
			Message: "while waiting for the limits of the model: " + err.Error(), Err: err,
		}
	}

	var response *Response
	defer func() { end(response.UsedTokens(expected)) }()
	response, err = l.Model.Generate(ctx, req, onDelta)
	return response, err
}

// Unlimited returns a model without the limits that [Limit] gave it, and these limits, for who keeps them otherwise.
func Unlimited(m Model) (Model, Limits) {
	switch m := m.(type) {
	case *patient:
		inner, limits := Unlimited(m.Model)
		return &patient{inner, m.patience}, limits
	case *limited:
		return m.Model, m.limits
	}
	return m, Limits{}
}

// usualAnswer is how many tokens an answer is expected to have that has no bound.
const usualAnswer = 1000

// ExpectedTokens returns how many tokens a request is expected to use: one for four bytes of it, and MaxTokens for the
// answer, or 1,000 if it has no bound.
func (r Request) ExpectedTokens() limit.Tokens {
	bytes := len(r.ResponseSchema)
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			bytes += len(p.Text)
			if p.Call != nil {
				bytes += len(p.Call.Name) + len(p.Call.Arguments)
			}
			if p.Result != nil {
				bytes += len(p.Result.Text)
			}
		}
	}
	for _, t := range r.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Schema)
	}

	expected := limit.Tokens{In: int64(bytes/4) + 1, Out: r.MaxTokens}
	if expected.Out == 0 {
		expected.Out = usualAnswer
	}
	return expected
}

// UsedTokens returns how many tokens a request used that was answered. Where the answer does not say it, they are those
// that were expected; no answer has none.
func (r *Response) UsedTokens(expected limit.Tokens) limit.Tokens {
	used := limit.Tokens{In: expected.In}
	if r == nil {
		return used
	}

	used.Out = expected.Out
	if r.Usage.Input != nil {
		used.In = *r.Usage.Input
	}
	if r.Usage.Output != nil {
		used.Out = *r.Usage.Output
	}
	return used
}
