package enginetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Disturb disturbs the nth write of a house, whose engine it replaces. Writes counts all writes.
type Disturb func(h *House, n int) (writes func() int)

// Disturbances are the ways in which a write can be disturbed, by name: the worker is killed before it or
// after it, or it fails once, as if Postgres had been away.
var Disturbances = map[string]Disturb{
	"killed before": kill(true), "killed after": kill(false), "failed": fail,
}

func fail(h *House, n int) (writes func() int) {
	var count atomic.Int64
	h.Engine = h.NewEngine(func(c *engine.Config) {
		c.Write = func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
			if count.Add(1) == int64(n) {
				return record.ErrUnavailable
			}
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
	})
	return func() int { return int(count.Load()) }
}

// kill makes the engine lose a run at a write, as if its worker were killed and its lease were over.
func kill(before bool) Disturb {
	return func(h *House, n int) (writes func() int) {
		var mu sync.Mutex
		count, dead := 0, map[store.Lease]bool{}
		free := func(planID string) {
			if _, err := h.DB.Pool.Exec(context.Background(), "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1 AND NOT done", planID); err != nil {
				h.T.Error(err)
			}
		}
		h.Engine = h.NewEngine(func(c *engine.Config) {
			c.Write = func(ctx context.Context, l store.Lease, changes []record.Change, ops ...store.RunOp) error {
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
					free(l.PlanID)
					return store.ErrLeaseLost
				}
				err := c.Store.WriteRun(ctx, l, changes, ops...)
				if now && err == nil {
					mu.Lock()
					dead[l] = true
					mu.Unlock()
					free(l.PlanID)
					return store.ErrLeaseLost
				}
				return err
			}
		})
		return func() int {
			mu.Lock()
			defer mu.Unlock()
			return count
		}
	}
}
