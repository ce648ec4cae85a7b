package model

import (
	"context"

	"github.com/actlog/actlog/agent/limit"
)

// Limits bound the requests to a model. 0 means no limit.
type Limits struct {
	Concurrent int // requests at the same time
	PerMinute  int // requests that start within any 60 seconds
}

// Limit returns m within limits. Requests that must wait start in the order in which they came. One
// whose context ends while it waits was not sent, and does not count.
func Limit(m Model, limits Limits) Model {
	return &limited{Model: m, limiter: limit.New(limit.Limits(limits))}
}

type limited struct {
	Model
	limiter *limit.Limiter
}

// Generate implements Model.
func (l *limited) Generate(ctx context.Context, req Request, onDelta func(Delta)) (*Response, error) {
	end, err := l.limiter.Begin(ctx)
	if err != nil {
		return nil, &Error{
			Kind: KindCancelled, Provider: l.Provider(), Model: l.Name(),
			Message: "while waiting for the limits of the model: " + err.Error(), Err: err,
		}
	}
	defer end()
	return l.Model.Generate(ctx, req, onDelta)
}
