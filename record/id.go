package record

import "github.com/google/uuid"

// Ids are UUIDs of version 7, which sort by time, behind a prefix that names the kind. Any
// other id of up to [MaxIDBytes] bytes works as well.

// NewPlanID returns an id for a root plan.
func NewPlanID() string { return newID("plan-") }

// NewSubPlanID returns an id for a sub-plan.
func NewSubPlanID() string { return newID("subplan-") }

// NewStepID returns an id for an agent execution.
func NewStepID() string { return newID("step-") }

// NewToolCallID returns an id for a tool call.
func NewToolCallID() string { return newID("toolcall-") }

// NewThoughtID returns an id for a thought.
func NewThoughtID() string { return newID("thought-") }

// NewSourceID returns an id for a source reference.
func NewSourceID() string { return newID("source-") }

// NewWaitID returns an id for a wait.
func NewWaitID() string { return newID("wait-") }

func newID(prefix string) string { return prefix + uuid.Must(uuid.NewV7()).String() }
