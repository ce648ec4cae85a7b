package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
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
	// ModelDefinition returns what a definition says of a model by its name: its settings.
	ModelDefinition(name string) define.DefinitionModel
	// Tools returns all tools but those of MCP servers, and those of some of these.
	Tools(ctx context.Context, servers []string) ([]tool.Tool, error)
	// Redact returns a text without what must not be on record.
	Redact(text string) string
	// Settling returns a function for a text that still grows, which is called with more of it each time. It returns
	// how much of the text can be shown: what comes after cannot change what Redact makes of that part.
	Settling() func(text string) int
	// MaxTakeovers is how many workers in a row a run may lose without a result put on record; 0: the default.
	MaxTakeovers() int
	// Schedules returns the schedules of the configuration, by their names.
	Schedules() map[string]define.Schedule
	// Concurrency is how many root runs go on at once.
	Concurrency() define.Concurrency
	// Unpriced are models, as their providers know them, that runs with a limit of cost may ask without a price.
	Unpriced() []string
	// Policies returns the rules for tools that are in force. They limit how many calls are made; what else holds for
	// the calls of a run is in its definition.
	Policies() tool.Rules
}

// Request asks for a run.
type Request struct {
	Executor       string
	Name           string // what to run, such as the name of an agent; may be empty
	Input          json.RawMessage
	ConversationID string
	Project        string
	UserID         string
	// Starter is who asks, as the server or the program knows them: conversations and idempotency keys are theirs.
	// Empty: nobody is known.
	Starter string
	Tags    []string
	Limits  *Limits
	// Priority is from 0 to 9; nil: 5. What is due and has a higher one is taken first.
	Priority *int
	// ConcurrencyKey bounds how many runs of the project with the same key go on at once; empty: nothing does.
	ConcurrencyKey string
	IdempotencyKey string
	Body           []byte // of the request, which must be the same if the key is
	// Held says that the run is on record and does not begin before [runstore.Store.Begin] or a resume.
	Held bool
	// StartAt is when it may begin, ExpiresAt when it ends if nobody has begun it. Zero: at once, and never.
	StartAt, ExpiresAt time.Time
	// Schedule is that which starts the run; empty: none.
	Schedule string
	// From is what [Continuing] asked for; nil: it asked for nothing, or that is not on record.
	From json.RawMessage
	// AgainOf is the run whose input the request has, perhaps changed; empty: none.
	AgainOf string
	// ForkedFrom is the plan, and ForkedAt the row of it, whose model call the run makes again; empty: it makes none.
	ForkedFrom, ForkedAt string
	// By is who asked for what AgainOf or ForkedFrom started, or Schedule beside its ticks.
	By runstore.Who
}

// checkTimes checks when a run is to begin.
func (r *Request) checkTimes() error {
	for _, each := range []struct {
		field string
		at    time.Time
	}{{"startAt", r.StartAt}, {"expiresAt", r.ExpiresAt}} {
		if year := each.at.UTC().Year(); !each.at.IsZero() && (year < record.MinYear || year > record.MaxYear) {
			return BadInput(each.field, fmt.Sprintf("must lie in the years %d to %d", record.MinYear, record.MaxYear))
		}
	}

	if !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(r.StartAt) {
		return BadInput("expiresAt", "must be after startAt")
	}
	return nil
}

// ModelInfo is a model that runs can use.
type ModelInfo struct {
	Name     string `json:"name"` // in the configuration
	Provider string `json:"provider"`
	Model    string `json:"model"` // as its provider calls it
}

// Models returns the models that there are, in order of their names.
func Models(parts Parts) (all []ModelInfo) {
	for _, name := range Provided(parts, "model") {
		if m, ok := parts.Model(name); ok {
			all = append(all, ModelInfo{Name: name, Provider: m.Provider(), Model: m.Name()})
		}
	}
	slices.SortFunc(all, func(a, b ModelInfo) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Find returns the definition of a kind that has a name. The error is an [*UnknownError] if there is none.
func Find[T any](parts Parts, kind, name string) (d T, err error) {
	body, ok := parts.Definition(kind, name)
	if !ok {
		return d, &UnknownError{Kind: kind, Name: name, There: parts.Names(kind)}
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fmt.Errorf("%s %q: %w", kind, name, err)
	}
	return d, nil
}

// Provided returns the names of what there is of a kind that a run may need: model, tool or mcp.
func Provided(parts Parts, kind string) (names []string) {
	for _, each := range parts.Provides() {
		if name, ok := strings.CutPrefix(each, kind+":"); ok {
			names = append(names, name)
		}
	}
	return names
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
	Agent       string          // that the run is one of; empty: of several, or of none
	Definition  json.RawMessage // is pinned; nil: nothing
	Input       json.RawMessage
	Needs       []string // what a worker must provide, beside the executor
	Title       string
	UserRequest string
	ModelName   string
	Metadata    json.RawMessage // of the plan
	Limits      *Limits         // of the definition
	// UUID says that the id of the run, if it is a root, is a UUID and nothing else: its clients read it as one.
	UUID bool
	// ConversationID is that of the run if the request has none.
	ConversationID string
	// Artifacts are on record from the start of the run.
	Artifacts []tool.Artifact
}

// Keep sets the input of the run, and its definition.
func (p *Prepared) Keep(input, definition any) (err error) {
	if p.Input, err = json.Marshal(input); err == nil {
		p.Definition, err = json.Marshal(definition)
	}
	return err
}

// newArtifact returns something that a plan produced, known by its name.
func newArtifact(parts Parts, rootPlanID, planID string, a tool.Artifact) *record.Artifact {
	return &record.Artifact{
		RootPlanID: rootPlanID, PlanID: planID, Name: a.Name, Type: new(cmp.Or(a.Type, "generic")),
		Value: json.RawMessage(parts.Redact(string(a.Value))),
	}
}

// Continuing is an executor whose runs may go on from what another run produced.
type Continuing interface {
	Executor
	// From returns the root plan and the name of its artifact that a request goes on from, which Prepare finds
	// in [Request.From]; an empty plan: from none.
	From(r Request) (rootPlanID, artifact string)
}

// Sequential is an executor whose runs make their steps one after the other, and whose code decides what follows a
// step that failed. So a retry tries only the last step again: what came of the others is decided.
type Sequential interface {
	Executor
	Sequential()
}

// Concluding is an executor whose runs end with a step that answers with what came of the others. A retry that tries
// one of them again lets it answer again.
type Concluding interface {
	Executor
	// ConcludesIn returns the index of that step.
	ConcludesIn() int
}

// Offering is an executor that says which tools its agents have besides those of their definitions.
type Offering interface {
	Executor
	// Offered returns these tools of an agent in the definition that a run pinned. offers is false if the model of the
	// agent is offered no tools at all. The error is a [*RunError].
	Offered(pinned json.RawMessage, d define.Definition) (more []tool.Tool, offers bool, err error)
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
