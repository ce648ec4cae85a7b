// Package executor lists the executors that there are.
package executor

import (
	definition "github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/runtime/executor/orchestrator"
	"github.com/actlog/actlog/internal/runtime/executor/plan"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/executor/workflow"
)

// All returns one executor of each kind. functions returns those of custom workflows that the program has.
func All(functions func(name string) (definition.Func, bool)) []engine.Executor {
	return []engine.Executor{thinkact.Executor{}, plan.Executor{}, workflow.Executor{Functions: functions}, dag.Executor{}, orchestrator.Executor{}}
}
