package enginetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Disturb disturbs the nth write of an engine, from 1; 0: none. Writes counts all writes.
type Disturb func(h *House, n int) (wrap func(engine.Write) engine.Write, writes func() int)

// Disturbances are the ways in which a write can be disturbed: the worker is killed before or after it, or it
// fails.
var Disturbances = map[string]Disturb{
	"failed":        fail,
	"killed before": func(h *House, n int) (func(engine.Write) engine.Write, func() int) { return kill(h, n, true) },
	"killed after":  func(h *House, n int) (func(engine.Write) engine.Write, func() int) { return kill(h, n, false) },
}

// fail makes the nth write fail once, as if Postgres had been away.
func fail(_ *House, n int) (wrap func(engine.Write) engine.Write, writes func() int) {
	var count atomic.Int64
	return func(write engine.Write) engine.Write {
		return func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
			if count.Add(1) == int64(n) {
				return record.ErrUnavailable
			}
			return write(ctx, l, changes, ops...)
		}
	}, func() int { return int(count.Load()) }
}

// kill makes the engine lose a run at its nth write, before or after it, as if its worker were killed. Its
// lease is over then: the run is anyone's.
func kill(h *House, n int, before bool) (wrap func(engine.Write) engine.Write, writes func() int) {
	var mu sync.Mutex
	count, dead := 0, map[store.Lease]bool{}
	lost := func(planID string) error {
		_, err := h.DB.Pool.Exec(context.Background(), "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1 AND NOT done", planID)
		if err != nil {
			h.T.Error(err)
		}
		return store.ErrLeaseLost
	}
	return func(write engine.Write) engine.Write {
		return func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
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
				return lost(l.PlanID)
			}
			err := write(ctx, l, changes, ops...)
			if now && err == nil {
				mu.Lock()
				dead[l] = true
				mu.Unlock()
				return lost(l.PlanID)
			}
			return err
		}
	}, func() int { mu.Lock(); defer mu.Unlock(); return count }
}
