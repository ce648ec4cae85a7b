package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// AtEveryWrite carries a run undisturbed, and then again and again, each time with another of its writes
// disturbed: the worker is killed before or after it, or it fails once, as if Postgres had been away. carry gives its
// house to disturb before the house works, and returns what came of the run, in a form that an undisturbed run
// shares. check compares that with what was to come. Each time another sixteenth of all writes is tried, each write
// with one of the disturbances, at night with all three; ACTLOG_EVERY_WRITE=1 tries all of all writes. AtEveryWrite
// returns what came of the undisturbed run.
func AtEveryWrite(
	t *testing.T, carry func(t *testing.T, disturb func(*House)) string, check func(t *testing.T, got, want string),
) (want string) {
	t.Helper()
	var writes func() int
	want = carry(t, func(h *House) { writes = fail(h, 0) })
	t.Logf("%d writes:\n%s", writes(), want)

	disturbances := []struct {
		name    string
		disturb func(*House, int) (writes func() int)
	}{{"failed", fail}, {"killed before", kill(true)}, {"killed after", kill(false)}}

	first, step := rand.IntN(min(16, writes()))+1, 16
	ways := 1
	if pgtest.Nightly() {
		ways = 3
	}
	if os.Getenv("ACTLOG_EVERY_WRITE") != "" {
		first, step = 1, 1
		ways = 3
	}

	for n := first; n <= writes(); n += step {
		for _, i := range rand.Perm(len(disturbances))[:ways] {
			d := disturbances[i]
			t.Run(fmt.Sprintf("%s %d", d.name, n), func(t *testing.T) {
				t.Parallel()
				check(t, carry(t, func(h *House) { d.disturb(h, n) }), want)
			})
		}
	}
	return want
}

// fail lets the nth write of a house fail once. The result counts all writes.
func fail(h *House, n int) (writes func() int) {
	var count atomic.Int64
	h.Engine = h.NewEngine(func(c *engine.Config) {
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			if count.Add(1) == int64(n) {
				return record.ErrUnavailable
			}
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
	})
	return func() int { return int(count.Load()) }
}

// kill makes the engine of a house lose a run at its nth write, as if its worker were killed and its lease were
// over.
func kill(before bool) func(h *House, n int) (writes func() int) {
	return func(h *House, n int) (writes func() int) {
		var mu sync.Mutex
		count, dead := 0, map[runstore.Lease]bool{}
		free := func(planID string) {
			if _, err := h.DB.Pool.Exec(context.Background(),
				"UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1 AND NOT done", planID); err != nil {
				h.T.Error(err)
			}
		}

		h.Engine = h.NewEngine(func(c *engine.Config) {
			c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
				mu.Lock()
				if dead[l] {
					mu.Unlock()
					return runstore.ErrLeaseLost
				}
				count++
				now := count == n
				dead[l] = now && before
				mu.Unlock()

				if now && before {
					free(l.PlanID)
					return runstore.ErrLeaseLost
				}

				err := c.Store.WriteRun(ctx, l, changes, ops...)
				if now && err == nil {
					mu.Lock()
					dead[l] = true
					mu.Unlock()
					free(l.PlanID)
					return runstore.ErrLeaseLost
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
