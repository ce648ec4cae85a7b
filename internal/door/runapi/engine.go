package runapi

import (
	"context"

	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/engine"
)

// Starter starts runs.
type Starter interface {
	// Start puts a run on record. The error is a [*record.InvalidError] that names the member at fault,
	// is an [*engine.UnknownError] if there is nothing of that name, or is one of the store.
	Start(ctx context.Context, r engine.Request) (engine.Started, error)
}

// Catalog knows the models, and what can be run by the name of a tool: agents and plan templates.
type Catalog interface {
	Models() []engine.ModelInfo
	// Startables returns what there is of which runs can be started.
	Startables() []engine.Startable
	// Tool returns the request that runs what has a name, with parameters. templateID is that of a plan
	// template, empty for an agent. The error wraps [record.ErrNotFound] if nothing has the name, or is a
	// [*record.InvalidError] that names a parameter without a value.
	Tool(name string, parameters map[string]string) (r engine.Request, templateID string, err error)
}

// Runnable knows what can be run, see [catalog.Catalog].
type Runnable interface {
	Agents(ctx context.Context) ([]catalog.Agent, error)
	Tools(ctx context.Context) ([]catalog.Tool, []catalog.Server, error)
	Models(ctx context.Context) ([]catalog.Model, error)
	Executors(ctx context.Context) ([]catalog.Executor, error)
}

// nothing can be run.
type nothing struct{}

func (nothing) Agents(context.Context) ([]catalog.Agent, error) { return []catalog.Agent{}, nil }
func (nothing) Tools(context.Context) ([]catalog.Tool, []catalog.Server, error) {
	return []catalog.Tool{}, []catalog.Server{}, nil
}
func (nothing) Models(context.Context) ([]catalog.Model, error) { return []catalog.Model{}, nil }
func (nothing) Executors(context.Context) ([]catalog.Executor, error) {
	return []catalog.Executor{}, nil
}
