package runapi

import (
	"context"
	"encoding/json"
)

// Starter starts runs.
type Starter interface {
	// Start puts a run on record. The error is a [*record.InvalidError] that names the member at fault,
	// wraps [record.ErrNotFound] if there is nothing of that name, or is one of the store.
	Start(ctx context.Context, r Request) (Started, error)
}

// Catalog knows what can be run by the name of a tool: agents and plan templates.
type Catalog interface {
	// Tool returns the request that runs what has a name, with parameters. templateID is that of a plan
	// template, empty for an agent. The error wraps [record.ErrNotFound] if nothing has the name, or is a
	// [*record.InvalidError] that names a parameter without a value.
	Tool(name string, parameters map[string]string) (r Request, templateID string, err error)
}

// Request asks for a run.
type Request struct {
	Executor       string
	Name           string // what to run, such as the name of an agent; may be empty
	Input          json.RawMessage
	ConversationID string
	Project        string
	UserID         string
	Tags           []string
	Limits         *Limits
	IdempotencyKey string
	Body           []byte // of the request, which must be the same if the key is
}

// Limits bound a run and all below it. 0 means no limit.
type Limits struct {
	Rounds, ToolCalls, Tokens int64
	CostUSD                   float64
	Seconds                   float64
}

// Started says which run a request started.
type Started struct {
	RootPlanID string
	PlanID     string
	Executor   string
	Before     bool // by an earlier request with the same idempotency key
}
