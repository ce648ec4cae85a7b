package agent

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Action is what is asked of a run and all below it.
type Action string

// The actions.
const (
	Stop   Action = "stop"   // at once. It ends CANCELLED; calls under way are UNKNOWN
	Pause  Action = "pause"  // when each call under way has ended
	Resume Action = "resume" // after a pause
)

var actions = map[Action]runstore.Action{Stop: runstore.Stop, Pause: runstore.Pause, Resume: runstore.Resume}

// ErrEnded means that a run has ended, so that nothing can be asked of it.
var ErrEnded = runstore.ErrEnded

// Control asks a run and all below it to stop, to pause or to go on. by is who asks, as the program knows them, and
// may be empty. The error wraps [record.ErrNotFound] if there is no such run, and [ErrEnded] if it has ended.
func (r *Runtime) Control(ctx context.Context, planID string, action Action, by string) error {
	if err := r.enter(); err != nil {
		return fmt.Errorf("%s run %s: %w", action, planID, err)
	}
	defer r.leave()

	of, ok := actions[action]
	switch {
	case !ok:
		return invalid("action", "must be stop, pause or resume")
	case !storable(planID):
		return fmt.Errorf("%s run %q: %w", action, planID, record.ErrNotFound)
	case len(by) > record.MaxIDBytes || !storable(by):
		return invalid("by", fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxIDBytes))
	}

	return r.store.Control(ctx, planID, of, by)
}
