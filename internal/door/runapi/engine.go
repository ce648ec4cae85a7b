package runapi

import (
	"context"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// Starter starts runs.
type Starter interface {
	// Start puts a run on record. The error is a [*record.InvalidError] that names the member at fault,
	// is an [*engine.UnknownError] if there is nothing of that name, or is one of the store.
	Start(ctx context.Context, r engine.Request) (engine.Started, error)
	// Retry lets a root run go on that has ended, and Again starts one as another was asked for. Their errors are
	// those of [engine.Engine].
	Retry(ctx context.Context, r engine.RetryRequest) error
	Again(ctx context.Context, r engine.AgainRequest) (engine.Started, error)
	// Fork starts a run that goes on from a row of another one. Its errors are those of [engine.Engine].
	Fork(ctx context.Context, r engine.ForkRequest) (engine.Started, error)
	// Try makes a model call of a plan again. Its errors are those of [engine.Engine].
	Try(ctx context.Context, r engine.TryRequest) (engine.Started, error)
	// SendEvent sends an event, and returns how many runs it woke. The error is a [*record.InvalidError] that names the
	// member, or one of the store.
	SendEvent(ctx context.Context, r engine.EventRequest) (woken int, err error)
	// Say says something to a run at work. The error is that of [engine.Engine].
	Say(ctx context.Context, r engine.SayRequest) (runstore.Message, error)
	// PutSchedule defines a schedule for somebody, and reports whether it is new. The error is one of Start, or
	// [runstore.ErrOfFile].
	PutSchedule(ctx context.Context, name string, d define.Schedule, starter string) (isNew bool, err error)
	PauseSchedule(ctx context.Context, name string, paused bool) error
	// RunSchedule starts what a schedule starts, for somebody and beside its ticks.
	RunSchedule(ctx context.Context, name string, by runstore.Who, idempotencyKey string) (engine.Started, error)
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
