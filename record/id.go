package record

import "github.com/google/uuid"

// Ids are UUIDs of version 7, which sort by time, with a prefix that tells the
// kind. Any other id of up to [MaxIDBytes] bytes is as good.

// NewPlanID makes an id for a root plan.
func NewPlanID() string { return newID("plan-") }

// NewSubPlanID makes an id for a sub-plan.
func NewSubPlanID() string { return newID("subplan-") }

// NewStepID makes an id for an agent execution.
func NewStepID() string { return newID("step-") }

// NewToolCallID makes an id for a tool call.
func NewToolCallID() string { return newID("toolcall-") }

// NewThoughtID makes an id for a thought.
func NewThoughtID() string { return newID("thought-") }

// NewSourceID makes an id for a source reference.
func NewSourceID() string { return newID("source-") }

// NewWaitID makes an id for a wait.
func NewWaitID() string { return newID("wait-") }

func newID(prefix string) string { return prefix + uuid.Must(uuid.NewV7()).String() }
