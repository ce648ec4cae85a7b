// Package executor lists the executors that there are.
package executor

import (
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/executor/dag"
	"github.com/actlog/actlog/internal/executor/thinkact"
)

// All returns one executor of each kind.
func All() []engine.Executor { return []engine.Executor{thinkact.Executor{}, dag.Executor{}} }
