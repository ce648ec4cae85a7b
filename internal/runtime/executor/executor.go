// Package executor lists the executors that there are, with what the doors show of them.
package executor

import (
	"cmp"
	"slices"

	definition "github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/runtime/executor/orchestrator"
	"github.com/actlog/actlog/internal/runtime/executor/plan"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/executor/try"
	"github.com/actlog/actlog/internal/runtime/executor/workflow"
)

// All returns one executor of each kind. functions returns those of custom workflows that the program has.
func All(functions func(name string) (definition.Func, bool)) []engine.Executor {
	return []engine.Executor{ // a new executor is a package, and a line here
		thinkact.Executor{},
		plan.Executor{},
		workflow.Executor{Functions: functions},
		orchestrator.Executor{},
		dag.Executor{},
		try.Executor{},
	}
}

// known is what the doors show of each executor, in the order of [All].
var known = func() (all []shown) {
	for _, x := range All(nil) {
		all = append(all, shown{x.Kind(), engine.AboutOf(x)})
	}
	return all
}()

type shown struct {
	kind  string
	about engine.About
}

// Kinds returns the kinds of the executors.
func Kinds() (kinds []string) {
	for _, x := range known {
		kinds = append(kinds, x.kind)
	}
	return kinds
}

// About returns what the doors show of the executor of a kind; the zero value if there is none.
func About(kind string) engine.About {
	for _, x := range known {
		if x.kind == kind {
			return x.about
		}
	}
	return engine.About{}
}

// Startables returns that of which runs can be started: what is defined, and then what a model plans, if there is one.
func Startables(parts engine.Parts) []engine.Startable {
	var defined, planned []engine.Startable
	for _, x := range known {
		for _, s := range x.about.Startables(parts) {
			s.Executor = x.kind
			if s.Name != "" {
				s.Sort = cmp.Or(s.Sort, s.Executor)
				defined = append(defined, s)
			} else {
				s.Title, s.Sort = cmp.Or(s.Title, s.Executor), cmp.Or(s.Sort, "executor")
				planned = append(planned, s)
			}
		}
	}

	if len(engine.Models(parts)) == 0 {
		return defined
	}
	return slices.Concat(defined, planned)
}
