// Package runs owns what those outside of a run do with it, over HTTP or in Go: to wait for it, and to
// answer what it waits for.
package runs

import (
	"context"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Idle reports whether a run has ended, or goes on only when somebody decides something.
func Idle(d *runstore.RunDetail) bool {
	paused := d.State == record.Paused && !awaits(d, "model:")
	return d.State.Terminal() || d.State == record.Waiting && !Sleeps(d) || paused
}

// Sleeps reports whether a run waits for an event or a time, and for no human.
func Sleeps(d *runstore.RunDetail) bool {
	return d.State == record.Waiting && len(d.Waits) == 0 && (awaits(d, "event:") || awaits(d, "time:"))
}

// awaits reports whether a run waits for something of a kind.
func awaits(d *runstore.RunDetail, kind string) bool {
	return slices.ContainsFunc(d.WaitingFor, func(what string) bool { return strings.HasPrefix(what, kind) })
}

// Parked reports whether a run is paused until there is something that it needs, such as a model that is away.
func Parked(d *runstore.RunDetail) bool { return d.State == record.Paused && len(d.WaitingFor) > 0 }

// Decider is the store as decisions use it.
type Decider interface {
	Decide(
		ctx context.Context, rootPlanID, planID, waitID string, decide func(*record.Wait) (*record.Wait, error),
	) error
}

// Decide writes a decision about a wait. with returns it for the wait as it stands; it may be called again.
// The error is that of with, that of [runstore.Store.Decide], or a [*record.InvalidError] that names what is
// wrong with the decision.
func Decide(ctx context.Context, s Decider, at record.Key, with func(*record.Wait) (decision.Decision, error)) error {
	return s.Decide(ctx, at.Root, at.Parent, at.ID, func(w *record.Wait) (*record.Wait, error) {
		d, err := with(w)
		if err != nil {
			return nil, err
		}
		return d.About(w)
	})
}
