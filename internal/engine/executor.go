package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// Executor carries runs of a kind. It is plain Go over a [Run]: it knows nothing of leases, waits or
// crashes.
type Executor interface {
	// Kind is the name of the executor, such as agent.
	Kind() string

	// Prepare checks what a request asks for, before it is put on record. The error is a
	// [*record.InvalidError] that names the field, or an [*UnknownError].
	Prepare(parts Parts, r Request) (Prepared, error)

	// Advance carries a run to its end, and returns its result. It is called again from its beginning
	// after a crash, a wait or a pause: the handle returns what was done before. An error of the handle
	// is returned as it is. A [*RunError] says why a run fails.
	Advance(ctx context.Context, run *Run) (Result, error)
}

// Parts is what a worker has for runs. What it returns may change when a configuration is read again,
// so a run has the parts of the moment at which it is claimed.
type Parts interface {
	// Provides names what there is that a run may need: model:<name>, tool:<name>, mcp:<server>. An agent is
	// also a tool: agent.<name>.
	Provides() []string
	// Definition returns a definition of a kind by its name, as JSON without secrets.
	Definition(kind, name string) (json.RawMessage, bool)
	// Names returns the names of the definitions of a kind, in order.
	Names(kind string) []string
	Model(name string) (model.Model, bool)
	// Tools returns all tools but those of MCP servers, and those of some of these.
	Tools(ctx context.Context, servers []string) ([]tool.Tool, error)
	// Redact returns a text without what must not be on record.
	Redact(text string) string
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

// UnknownError says that nothing of a kind has a name. It wraps [record.ErrNotFound].
type UnknownError struct {
	Kind, Name string
	There      []string // the names that there are
}

// maxThere bounds how many names an error lists.
const maxThere = 20

func (e *UnknownError) Error() string {
	there := strings.Join(e.There[:min(len(e.There), maxThere)], ", ")
	switch {
	case there == "":
		there = "none"
	case len(e.There) > maxThere:
		there += " and others"
	}
	return fmt.Sprintf("no %s is called %q; there are: %s", e.Kind, e.Name, there)
}

// Unwrap returns [record.ErrNotFound].
func (e *UnknownError) Unwrap() error { return record.ErrNotFound }

// Prepared is what a run does, as it is put on record at first.
type Prepared struct {
	Name        string          // of what is run
	Definition  json.RawMessage // is pinned; nil: nothing
	Input       json.RawMessage
	Needs       []string // what a worker must provide, beside the executor
	Title       string
	UserRequest string
	ModelName   string
	Metadata    json.RawMessage // of the plan
	Limits      *Limits         // of the definition
	// ConversationID is that of the run if the request has none.
	ConversationID string
}

// Callable is an executor whose runs can be started by a tool call: <kind>.<name> starts what has that
// name.
type Callable interface {
	Executor
	// Tool returns the description and the schema of the arguments.
	Tool(parts Parts, name string) (description string, schema json.RawMessage, ok bool)
	// Call returns the input of the run that a call starts.
	Call(name string, arguments json.RawMessage) (json.RawMessage, error)
}
