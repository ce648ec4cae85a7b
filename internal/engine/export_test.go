package engine

import (
	"context"
	"sync"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Kill makes the engine lose a run at its nth write, before or after it, as if its worker were killed.
// lost is called once no more is written of that run. Writes counts all writes.
func Kill(e *Engine, n int, before bool, lost func(planID string)) (writes func() int) {
	var mu sync.Mutex
	count, dead := 0, map[*Run]bool{}
	e.writing = func(r *Run) func(context.Context, store.Lease, []record.Change, ...store.RunOp) error {
		return func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
			mu.Lock()
			if dead[r] {
				mu.Unlock()
				return store.ErrLeaseLost
			}
			count++
			now := count == n
			dead[r] = now && before
			mu.Unlock()
			if now && before {
				lost(r.run.PlanID)
				return store.ErrLeaseLost
			}
			err := e.store.WriteRun(ctx, l, changes, ops...)
			if now && err == nil {
				mu.Lock()
				dead[r] = true
				mu.Unlock()
				lost(r.run.PlanID)
				return store.ErrLeaseLost
			}
			return err
		}
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}
