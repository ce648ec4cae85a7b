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
	count, dead := 0, map[store.Lease]bool{}
	e.writing = func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
		mu.Lock()
		if dead[l] {
			mu.Unlock()
			return store.ErrLeaseLost
		}
		count++
		now := count == n
		dead[l] = now && before
		mu.Unlock()
		if now && before {
			lost(l.PlanID)
			return store.ErrLeaseLost
		}
		err := e.store.WriteRun(ctx, l, changes, ops...)
		if now && err == nil {
			mu.Lock()
			dead[l] = true
			mu.Unlock()
			lost(l.PlanID)
			return store.ErrLeaseLost
		}
		return err
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}
