package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// gated is a tool whose calls go on when the gate lets them.
type gated struct {
	gate    chan struct{}
	now     atomic.Int64 // calls under way
	highest atomic.Int64
}

func (g *gated) tool() tool.Tool {
	return tool.CallFunc("work", "Works.", func(ctx context.Context, _ tool.Call, _ struct{}) (string, error) {
		n := g.now.Add(1)
		defer g.now.Add(-1)
		for highest := g.highest.Load(); n > highest && !g.highest.CompareAndSwap(highest, n); highest = g.highest.Load() {
		}

		select {
		case <-g.gate:
			return "Done.", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry}))
}

// gatedHouse has an agent, worker, whose runs call such a tool once.
func gatedHouse(t *testing.T, set ...func(*engine.Config)) (*enginetest.House, *gated) {
	t.Helper()
	g := &gated{gate: make(chan struct{})}
	h := build(t, []scriptmodel.Scene{{
		Name: "s", Turns: calls([]scriptmodel.ToolCall{call("work", object{})}, terminate("Done.")),
	}}, map[string]define.Definition{"worker": {Tools: []string{"work"}}}, []tool.Tool{g.tool()}, set...)
	return h, g
}

// TestRunsAtOnce checks that as many runs of an agent go on at once as may, over several workers that look for nothing
// by themselves: each place that becomes free is taken because its worker said so.
func TestRunsAtOnce(t *testing.T) {
	t.Parallel()
	h, g := gatedHouse(t)
	h.Parts.AtOnce.Agents = map[string]int{"worker": 3}
	const runs = 12

	for range 3 {
		h.Work(h.NewEngine(func(c *engine.Config) { c.Scan, c.Lease = time.Hour, time.Hour }))
	}
	storetest.Until(t, "the workers listen", func() bool {
		return storetest.Query[int](t, h.Store, "SELECT count(*) FROM actlog.worker") == 3
	})

	var ids []string
	for i := range runs {
		ids = append(ids, h.Start("worker", fmt.Sprintf("Go on %d.", i)))
	}
	for left := runs; left > 0; left-- {
		storetest.Until(t, "all places are taken", func() bool { return g.now.Load() == int64(min(3, left)) })
		g.gate <- struct{}{}
	}

	for _, id := range ids {
		h.Await(id, record.Completed)
	}
	if n := g.highest.Load(); n != 3 {
		t.Errorf("%d runs went on at once", n)
	}
}

// TestPlaceOfALostWorker checks that the run of a worker that was killed keeps its place, and that the place is free
// when another one has ended the run.
func TestPlaceOfALostWorker(t *testing.T) {
	t.Parallel()
	h, g := gatedHouse(t, func(c *engine.Config) { c.Lease = time.Second })
	h.Parts.AtOnce.Agents = map[string]int{"worker": 1}
	kill := mortal(t, h)
	first := h.Start("worker", "Go.")
	storetest.Until(t, "it works", func() bool { return g.now.Load() == 1 })
	second := h.Start("worker", "Go on.")
	kill()

	h.Work(h.NewEngine(func(c *engine.Config) { c.Lease = time.Second }))
	storetest.Until(t, "it is taken over", func() bool {
		d, err := h.Runs.Reader.RunDetail(t.Context(), first)
		return err == nil && d.Takeovers == 1 && d.State == record.Running && g.now.Load() >= 1
	})
	storetest.Until(t, "the other one waits", func() bool {
		d, err := h.Runs.Reader.RunDetail(t.Context(), second)
		return err == nil && d.State == record.Pending && slices.Equal(d.WaitingFor, []string{"agent:worker has 1 of 1"})
	})

	close(g.gate)
	h.Await(first, record.Completed)
	h.Await(second, record.Completed)
}
