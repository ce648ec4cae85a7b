// Package workflow is the executor of agents that talk over several turns, of chains of them, and of
// workflows that are functions of a program.
package workflow

import (
	"context"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/workflow/flow"
)

// Advance implements [engine.Executor].
func (x Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	return flow.Carry(ctx, run, x.Functions)
}
