package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// countedModel is a model that counts the requests that go on. They end when the gate lets them.
type countedModel struct {
	gate    chan struct{} // nil: they end at once
	over    func() bool   // whether the conversations end that are to loop
	calls   atomic.Int64
	now     atomic.Int64
	highest atomic.Int64
}

func (*countedModel) Provider() string { return "stub" }
func (*countedModel) Name() string     { return "counted" }

func (m *countedModel) Generate(
	ctx context.Context, req model.Request, _ func(model.Delta),
) (*model.Response, error) {
	c := model.ToolCall{ID: fmt.Sprint(m.calls.Add(1)), Name: "terminate", Arguments: `{"message":"Done."}`}
	n := m.now.Add(1)
	defer m.now.Add(-1)
	for highest := m.highest.Load(); n > highest && !m.highest.CompareAndSwap(highest, n); highest = m.highest.Load() {
	}

	if m.gate != nil {
		select {
		case <-m.gate:
		case <-ctx.Done():
			return nil, &model.Error{Kind: model.KindCancelled, Err: ctx.Err()}
		}
	}

	if m.over != nil && !m.over() && slices.ContainsFunc(req.Messages, func(m model.Message) bool {
		return m.Role == model.RoleUser && strings.Contains(m.Text(), "Loop.")
	}) {
		c.Name, c.Arguments = "work", "{}"
	}
	return &model.Response{
		Message: model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Call: &c}}}, Finish: model.FinishToolCalls,
		Usage: model.Usage{Input: new(int64(800)), Output: new(int64(100))},
	}, nil
}

// limitedHouse has an agent, worker, whose model is within limits, and whose runs end at once. Those that are asked to
// loop make calls until that is over.
func limitedHouse(
	t *testing.T, limits model.Limits, gate chan struct{}, over func() bool,
) (*enginetest.House, *countedModel) {
	t.Helper()
	work := tool.Func("work", "Works.", func(context.Context, struct{}) (string, error) { return "Done.", nil })
	agent := define.Definition{Tools: []string{"work"}, MaxSteps: 100_000}
	h := build(t, []scriptmodel.Scene{{Name: "another model", Turns: calls(terminate("Done."))}},
		map[string]define.Definition{"worker": agent}, []tool.Tool{work})
	m := &countedModel{gate: gate, over: over}
	h.Parts.DefaultModel = model.WithPatience(model.Limit(m, limits), enginetest.Patience)
	return h, m
}

func (m *countedModel) goOn(t *testing.T, n int) {
	t.Helper()
	storetest.Until(t, fmt.Sprintf("%d requests go on", n), func() bool { return m.now.Load() == int64(n) })
}

// granted returns the sum of what workers have of a limit, or want.
func granted(t *testing.T, h *enginetest.House, what, limit string) int {
	t.Helper()
	return storetest.Query[int](t, h.Store,
		fmt.Sprintf("SELECT COALESCE(sum(%s), 0)::bigint FROM actlog.worker_grant WHERE limit_name = '%s'", what, limit))
}

// few is a worker that carries few runs at once, so that others carry some, too.
func few(n int) func(*engine.Config) {
	return func(c *engine.Config) { c.Slots = n }
}

// TestModelLimitOverWorkers checks that as many requests go on at the same time as may, over several workers.
func TestModelLimitOverWorkers(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h, m := limitedHouse(t, model.Limits{Concurrent: 3}, gate, nil)
	const runs = 12
	for range 3 {
		h.Work(h.NewEngine(few(runs / 3)))
	}

	var ids []string
	for i := range runs {
		ids = append(ids, h.Start("worker", fmt.Sprintf("Go on %d.", i)))
	}
	for left := runs; left > 0; left-- {
		m.goOn(t, min(3, left))
		gate <- struct{}{}
	}

	for _, id := range ids {
		h.Await(id, record.Completed)
	}
	if n := m.highest.Load(); n != 3 {
		t.Errorf("%d requests went on at once", n)
	}
}

// TestOnePlaceOfThreeWorkers checks that the only place of a model goes from one worker to the next, all of which
// always want it, and to one that wants it rarely.
func TestOnePlaceOfThreeWorkers(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	h, m := limitedHouse(t, model.Limits{Concurrent: 1}, nil, over.Load)
	for range 3 {
		h.Work(h.NewEngine(few(2)))
	}

	var ids []string
	for i := range 5 {
		ids = append(ids, h.Start("worker", fmt.Sprintf("Loop. %d", i)))
	}
	for range 2 {
		h.Await(h.Start("worker", "Go."), record.Completed)
	}
	for _, id := range ids { // each run goes on
		cycles := func() int {
			return storetest.Query[int](t, h.Store,
				"SELECT count(*) FROM actlog.think_act_record WHERE root_plan_id = $1", id)
		}
		storetest.Until(t, "it goes on", func() bool { return cycles() > 2 })
	}

	over.Store(true)
	for _, id := range ids {
		h.Await(id, record.Completed)
	}
	h.Await(h.Start("worker", "Go."), record.Completed) // by any worker, whoever has the place
	if n := m.highest.Load(); n != 1 {
		t.Errorf("%d requests went on at once", n)
	}
}

// TestRequestsAMinute checks that no more requests begin within a minute than may, over several workers, and that a run
// that waits for one obeys who stops it.
func TestRequestsAMinute(t *testing.T) {
	t.Parallel()
	h, m := limitedHouse(t, model.Limits{Concurrent: 4, PerMinute: 5}, nil, nil)
	var ids []string
	for i := range 8 {
		ids = append(ids, h.Start("worker", fmt.Sprintf("Go on %d.", i)))
	}
	for range 3 {
		h.Work(h.NewEngine(few(3)))
	}

	storetest.Until(t, "the others wait", func() bool {
		return m.calls.Load() == 5 && granted(t, h, "wanted", "model:default/maxPerMinute") == 8
	})
	if n := granted(t, h, "units", "model:default/maxPerMinute"); n != 5 {
		t.Errorf("the workers have %d requests together", n)
	}

	for _, id := range ids {
		if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil && m.calls.Load() != 5 {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		p := h.Ended(id)
		if *p.Record.State == record.Cancelled && len(p.Steps) > 0 && len(h.Step(p).Cycles) > 0 {
			t.Errorf("a request that waited is on record: %s", *h.Step(p).Cycles[0].Record.State)
		}
	}
	if n := m.calls.Load(); n != 5 {
		t.Errorf("%d requests began", n)
	}
}

// TestTokensAMinute checks that requests wait for the tokens that others used, over several workers.
func TestTokensAMinute(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{}, 3)
	h, m := limitedHouse(t, model.Limits{TokensPerMinute: 2500}, gate, nil)
	for range 3 {
		h.Work(h.NewEngine(few(1)))
	}

	var ids []string
	for i := range 3 {
		ids = append(ids, h.Start("worker", fmt.Sprintf("Go on %d.", i)))
	}
	const limit = "model:default/tokensPerMinute"
	storetest.Until(t, "one waits", func() bool {
		return m.calls.Load() == 2 && granted(t, h, "wanted", limit) > 3000 // each is expected to use more than 1,000
	})
	for range ids {
		gate <- struct{}{}
	}

	storetest.Until(t, "what was used counts", func() bool {
		return storetest.Query[bool](t, h.Store, "SELECT count(*) = 2 FROM actlog.run WHERE done") &&
			granted(t, h, "wanted", limit) >= 2*900+1000
	})
	if n := m.calls.Load(); n != 2 {
		t.Errorf("%d requests began", n)
	}
	for _, id := range ids {
		_ = h.Runs.Control(t.Context(), id, runstore.Stop, "") // two have ended
		h.Ended(id)
	}
}

// TestLimitsOfALostWorker checks that nobody gets the places of a worker that was lost before others know it, and that
// they get them then.
func TestLimitsOfALostWorker(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h, m := limitedHouse(t, model.Limits{Concurrent: 2}, gate, nil)

	// As a worker that was killed during two requests left them.
	storetest.Exec(t, h.Store, `INSERT INTO actlog.worker (worker_id, host, release, provides, slots, lease_until)
		VALUES ('killed', 'h', 'r', '{}', 1, now() + INTERVAL '1 hour')`)
	granted, err := h.Runs.Grants(t.Context(), "killed", 1, []runstore.Ask{
		{Limit: "model:default/maxConcurrent", Most: 2, Wanted: 2, Liked: 2},
	})
	if err != nil || len(granted) != 1 || granted[0].Units != 2 {
		t.Fatalf("granted %+v, %v", granted, err)
	}

	id := h.Start("worker", "Go.")
	stop := h.Work(h.NewEngine(func(c *engine.Config) { c.Lease = time.Hour }))
	storetest.Until(t, "it waits", func() bool {
		return storetest.Query[bool](t, h.Store,
			"SELECT count(*) = 1 FROM actlog.worker_grant WHERE wanted = 1 AND units = 0")
	})
	if n := m.calls.Load(); n != 0 {
		t.Errorf("%d requests began", n)
	}
	stop()

	h.Work(h.NewEngine(func(c *engine.Config) { c.Lease = time.Second }))
	m.goOn(t, 1)
	close(gate)
	h.Await(id, record.Completed)
}

// TestRoundsOfLimits checks that requests within the limits cost no statement of their own.
func TestRoundsOfLimits(t *testing.T) {
	t.Parallel()
	const calls = 150
	var over atomic.Bool
	h, m := limitedHouse(t, model.Limits{Concurrent: 2, PerMinute: 1000, TokensPerMinute: 100_000_000}, nil, over.Load)
	h.Work(h.Engine)

	id := h.Start("worker", "Loop.")
	storetest.Until(t, "it has made many requests", func() bool { return m.calls.Load() >= calls })
	over.Store(true)
	h.Await(id, record.Completed)

	rounds := storetest.Query[int64](t, h.Store, "SELECT max(round) FROM actlog.worker_grant")
	if n := m.calls.Load(); rounds == 0 || rounds*3 > n {
		t.Errorf("%d requests, %d rounds", n, rounds)
	}
}

// TestToolLimitOverWorkers checks that a rule limits the calls of its tools over all workers.
func TestToolLimitOverWorkers(t *testing.T) {
	t.Parallel()
	h, g := gatedHouse(t)
	h.Parts.Rules = tool.Rules{{Tools: "wor*", Limits: limit.Limits{Concurrent: 2}}}
	for range 3 {
		h.Work(h.NewEngine(few(2)))
	}

	var ids []string
	for i := range 6 {
		ids = append(ids, h.Start("worker", fmt.Sprintf("Go on %d.", i)))
	}
	for left := 6; left > 0; left-- {
		storetest.Until(t, "all places are taken", func() bool { return g.now.Load() == int64(min(2, left)) })
		g.gate <- struct{}{}
	}

	for _, id := range ids {
		h.Await(id, record.Completed)
	}
	if n := g.highest.Load(); n != 2 {
		t.Errorf("%d calls went on at once", n)
	}
}
