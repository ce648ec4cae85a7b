package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// budgeted are parts with a budget of project support, which can be raised while they are used.
type budgeted struct {
	*enginetest.Parts
	budget *atomic.Int64
}

func (p budgeted) Concurrency() define.Concurrency {
	return define.Concurrency{Budgets: map[string]float64{"support": float64(p.budget.Load())}}
}

// support starts a run of project support.
func support(h *enginetest.House, request string) string {
	return h.Start("worker", request, func(r *engine.Request) { r.Project = "support" })
}

// budgetHouse has an agent, worker, whose runs make two model calls of $3 each, with a call of a tool between them.
func budgetHouse(t *testing.T, budget int64) (h *enginetest.House, p budgeted, g *gated) {
	t.Helper()
	g = &gated{gate: make(chan struct{})}
	turns := calls([]scriptmodel.ToolCall{call("work", object{})}, terminate("Done."))
	for i := range turns {
		turns[i].Usage = &scriptmodel.Usage{Prompt: 1_000_000, Completion: 0}
	}

	h = build(t, []scriptmodel.Scene{{Name: "s", Turns: turns}},
		map[string]define.Definition{"worker": {Tools: []string{"work"}}}, []tool.Tool{g.tool()})
	p = budgeted{h.Parts, new(atomic.Int64)}
	p.budget.Store(budget)

	price := store.Price{
		Provider: "scripted", Model: "scripted", FromDay: time.Now().AddDate(-1, 0, 0), Rates: store.Rates{Input: 3},
	}
	if err := h.Store.SetPrice(t.Context(), price); err != nil {
		t.Fatal(err)
	}
	return h, p, g
}

// work starts a worker with a budget.
func (p budgeted) work(h *enginetest.House) (stop func()) {
	return h.Work(h.NewEngine(func(c *engine.Config) {
		c.Parts = func() (engine.Parts, func()) { return p, func() {} }
	}))
}

// waitsForBudget waits until a run waits for the budget.
func waitsForBudget(t *testing.T, h *enginetest.House, id, spent string) {
	t.Helper()
	storetest.Until(t, "it waits for the budget", func() bool {
		d, err := h.Runs.Reader.RunDetail(t.Context(), id)
		return err == nil && d.State == record.Pending && len(d.WaitingFor) == 1 &&
			strings.HasPrefix(d.WaitingFor[0], "budget:support has spent "+spent+" of 5 US dollars today")
	})
}

// TestBudgetOverWorkers checks that what one worker spent keeps three of them from beginning runs of the project, that
// what has begun goes on, and that the others begin on the next day, or when the budget is raised.
func TestBudgetOverWorkers(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *enginetest.House, budgeted){
		"raised": func(_ *testing.T, _ *enginetest.House, p budgeted) { p.budget.Store(100) },
		"next day": func(t *testing.T, h *enginetest.House, _ budgeted) {
			t.Helper()
			storetest.Exec(t, h.Store, "UPDATE actlog.project_day SET day = day - 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, g := budgetHouse(t, 5)
			p.work(h)
			first, second := support(h, "Go on 1."), support(h, "Go on 2.")
			storetest.Until(t, "both have made a model call", func() bool { return g.now.Load() == 2 })

			counted := func() bool {
				return storetest.Query[bool](t, h.Store, "SELECT COALESCE(sum(cost_usd), 0) = 6 FROM actlog.project_day")
			}
			storetest.Until(t, "that is counted", counted)
			var others []string
			for i := range 4 {
				others = append(others, support(h, fmt.Sprintf("Go on %d.", i+3)))
			}
			for range 2 {
				p.work(h)
			}

			for _, id := range others {
				waitsForBudget(t, h, id, "6")
			}
			g.gate <- struct{}{}
			g.gate <- struct{}{}
			h.Await(first, record.Completed)
			h.Await(second, record.Completed)
			for _, id := range others {
				waitsForBudget(t, h, id, "12")
			}

			close(g.gate)
			end(t, h, p)
			h.Await(others[0], record.Completed)
			if name == "raised" {
				for _, id := range others {
					h.Await(id, record.Completed)
				}
			}
		})
	}
}

// TestBudgetAtStart checks that a worker does not begin a run before it knows what was spent, and that one can be
// stopped that waits for a budget.
func TestBudgetAtStart(t *testing.T) {
	t.Parallel()
	h, p, _ := budgetHouse(t, 5)
	storetest.Exec(t, h.Store, `INSERT INTO actlog.project_day_change (project, day, cost_usd)
		VALUES ('support', (now() AT TIME ZONE 'UTC')::date, 5)`)
	id := support(h, "Go.")
	p.work(h)
	waitsForBudget(t, h, id, "5")

	if err := h.Runs.Control(context.Background(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Cancelled)
}
