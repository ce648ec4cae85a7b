package define

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/agent/tool"
)

// Configured is what a configuration has for runs. The zero value has nothing.
type Configured struct {
	Models  map[string]Model
	Tools   []tool.Tool            // of the toolsets
	Servers map[string]tool.Server // with their secrets
	Defined
	// MaxTakeovers is how many workers in a row a run may lose; 0: the default.
	MaxTakeovers int
	Concurrency  Concurrency
	Redactor     *redact.Redactor
	// Secrets are texts that must not be on record, beside those of the servers.
	Secrets []string
}

// Defined is what a configuration defines by name, and what holds for it.
type Defined struct {
	Policies  tool.Rules          `json:"policies,omitempty"` // the first that matches a tool applies
	Agents    map[string]Agent    `json:"agents,omitempty"`
	Workflows map[string]Workflow `json:"workflows,omitempty"`
	Plans     map[string]Plan     `json:"plans,omitempty"`
	Roles     map[string]Role     `json:"roles,omitempty"`
	// Orchestrator is how it was configured; nil: as [DefaultOrchestrator].
	Orchestrator *Orchestrator `json:"orchestrator,omitempty"`
	Dag          Dag           `json:"dag,omitzero"`
	// Schedules start runs again and again.
	Schedules map[string]Schedule `json:"schedules,omitempty"`
}

// Model is a model that is ready to be asked.
type Model struct {
	model.Model
	Definition DefinitionModel
	// Host is where it is asked; empty: where its provider's models are. MaxConcurrent bounds the requests at the same
	// time; 0: no bound.
	Host          string
	MaxConcurrent int
	// Unpriced says that runs with a limit of cost may ask it without a price. Its calls count nothing.
	Unpriced bool
}

// Configuration is a configuration that may change while runs use it.
type Configuration interface {
	// Configured returns what is in force. It stays open until release is called, once or more often.
	Configured() (in *Configured, release func(), err error)
	// StoreVectors lets the embedder's vectors be kept in a store, where other workers find them.
	StoreVectors(in VectorStore)
	// Loads returns what became of the loads so far.
	Loads() Loads
}

// VectorStore is the Store of package search, which only programs with toolset search have.
type VectorStore interface {
	Vectors(ctx context.Context, model string, texts [][sha256.Size]byte) (map[[sha256.Size]byte][]float32, error)
	StoreVectors(ctx context.Context, model string, vectors map[[sha256.Size]byte][]float32) error
}

// Loads count what became of a configuration.
type Loads struct {
	Reloads  int64     // that put another configuration in force
	Failures int64     // that left the one before
	Loaded   time.Time // when the one in force was loaded
	Stale    bool      // the last reload failed
	Held     int       // configurations that are open: the one in force, and those that runs still use
}
