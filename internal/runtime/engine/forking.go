package engine

import (
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// ForkRequest asks for a run that goes on from a row of another one.
type ForkRequest struct {
	PlanID string
	// At is the first row that is made anew: step:STEP, cycle:STEP/SEQ or call:STEP/SEQ/CALL.
	At      string
	Changes Changes
	// Starter, IdempotencyKey and Body are as in [Request].
	Starter, IdempotencyKey string
	Body                    []byte
	By                      runstore.Who
}

// forking finds what a fork has of another run.
type forking struct {
	runTree
	engine   *Engine
	parts    Parts
	request  ForkRequest
	original runstore.Forkable

	at     spot
	goesOn map[string]spot   // where the fork goes on, by the plans of the original
	root   string            // of the fork
	copied map[string]copied // by the addresses of the rows
	planOf map[string]string // the plans of the steps of the fork
	out    runstore.Forked
}

// copied is where a row is in the fork.
type copied struct{ stepID, id string }

// spot is a place in a plan: a step, a cycle of it or a call of that. The fork makes it anew, or goes on below it.
type spot struct {
	step  runstore.TreeRow
	cycle *runstore.TreeRow // nil: the whole step
	call  *runstore.TreeRow // nil: the whole cycle
	into  string            // the plan that the call began, in which the fork goes on; empty: the spot is made anew
}

// row is the row of the spot.
func (s spot) row() runstore.TreeRow {
	switch {
	case s.call != nil:
		return *s.call
	case s.cycle != nil:
		return *s.cycle
	}
	return s.step
}
