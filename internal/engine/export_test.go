package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Fail makes the nth write of the engine fail once, as if Postgres had been away. Writes counts all
// writes.
func Fail(e *Engine, n int) (writes func() int) {
	var count atomic.Int64
	e.writing = func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
		if count.Add(1) == int64(n) {
			return record.ErrUnavailable
		}
		return e.store.WriteRun(ctx, l, changes, ops...)
	}
	return func() int { return int(count.Load()) }
}

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
