package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// forger writes records that would change what a run does, if they counted.
type forger struct {
	h      *enginetest.House
	random *rand.Rand
	root   string // of the run

	mu      sync.Mutex
	refused int
}

// ids are those of all rows of the run as it goes on: they follow from the id of its plan.
func (f *forger) ids() (plan, step, call, wait string, seq int64) {
	plan = f.root
	for range f.random.IntN(3) { // of a sub-plan
		plan = engine.Derive("subplan-", f.callOf(engine.Derive("step-", plan, 0)))
	}

	step, seq = engine.Derive("step-", plan, 0), int64(f.random.IntN(6))
	call = engine.Derive("toolcall-", step, seq, f.random.IntN(2))
	wait = engine.Derive("wait-", plan, fmt.Sprint("approve-", call, "-1"))
	if f.random.IntN(2) == 0 {
		wait = engine.Derive("wait-", plan, "form-"+call)
	}
	return plan, step, call, wait, seq
}

func (f *forger) callOf(step string) string {
	return engine.Derive("toolcall-", step, int64(f.random.IntN(6)), f.random.IntN(2))
}

// forge returns a record of a random kind, and whether it names the run.
func (f *forger) forge() (c record.Change, owned bool) {
	plan, step, call, wait, seq := f.ids()
	root := f.root
	if f.random.IntN(3) == 0 { // a tree beside it, perhaps one that has the name of a sub-plan
		root = []string{"beside", plan}[f.random.IntN(2)]
	}
	owned = root == f.root
	message := json.RawMessage(
		`{"role":"assistant","parts":[{"call":{"id":"1","name":"pay","arguments":"{\"name\":\"forged\"}"}}]}`,
	)

	switch f.random.IntN(6) {
	case 0:
		return &record.Plan{RootPlanID: root, CurrentPlanID: plan, State: new(record.Completed), Summary: new("forged")},
			owned
	case 1:
		return &record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: step, State: new(record.Completed), Result: new("forged"),
		}, owned
	case 2:
		return &record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: seq, Attempt: new(int64(1 + f.random.IntN(3))), State: new(record.Completed),
			Message: message, ThinkOutput: new("forged"), Rev: new(int64(1) << 40),
		}, owned
	case 3:
		return &record.ActTool{
			RootPlanID: root, StepID: step, Seq: seq, ToolCallID: call, Policy: json.RawMessage(`{}`),
			Parameters: new(`{"name":"forged"}`), State: new(record.Completed), Result: new("forged"), Rev: new(int64(1) << 40),
		}, owned
	case 4:
		return &record.Wait{
			RootPlanID: root, PlanID: plan, WaitID: wait, State: new(record.Approved), Decision: new("approve"),
			DecidedBy: new("forger"),
		}, owned
	default:
		return &record.Plan{RootPlanID: "below", CurrentPlanID: "below-it", ParentPlanID: &plan, ToolCallID: &call}, false
	}
}

// write writes random records until ctx ends, or so many.
func (f *forger) write(ctx context.Context, batches int) {
	for n := 0; ctx.Err() == nil && n != batches; n++ {
		var changes []record.Change
		owned := map[int]bool{}
		for i := range 1 + f.random.IntN(10) {
			c, o := f.forge()
			changes, owned[i] = append(changes, c), o
		}

		result, err := f.h.Store.Write(context.WithoutCancel(ctx), changes)
		if err != nil {
			f.h.T.Errorf("write: %v", err)
			return
		}
		refused := map[int]bool{}
		for _, r := range result.Rejected {
			refused[r.Index] = r.Err.Code == record.CodeOwnedByRuntime
		}
		for i, c := range changes {
			if owned[i] && !refused[i] {
				f.h.T.Errorf("a record of the run was taken: %+v", c.Key())
			}
		}

		f.mu.Lock()
		f.refused += len(result.Rejected)
		f.mu.Unlock()
	}
}

// TestRecordsDecideNothing (S1) lets clients write random records while a run goes on, before it, and after it: of its
// rows, of trees that have the names of its sub-plans, and of plans below it. It does what it does undisturbed, and its
// rows stay as they are.
func TestRecordsDecideNothing(t *testing.T) {
	t.Parallel()
	travel := func(t *testing.T, forgers int) (outline string, done map[string]int) {
		t.Helper()
		e := &effects{done: map[string][]string{}}
		h := journey(t, e)
		started := h.Start("root", "Travel.")

		var all []*forger
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for n := range forgers {
			f := &forger{h: h, random: rand.New(rand.NewPCG(uint64(n), 31)), root: started}
			f.write(ctx, 20) // before its sub-plans, steps and waits are there
			all = append(all, f)
			busy.Go(func() { f.write(ctx, -1) })
		}

		busy.Go(func() { answer(ctx, h) })
		h.Work(h.Engine)
		p := h.Await(started, record.Completed)
		cancel()
		busy.Wait()

		before := storetest.Dump(t, h.Store, started)
		for _, f := range all {
			f.write(t.Context(), 20)
			if f.refused == 0 {
				t.Error("a client wrote nothing that was refused")
			}
		}
		if after := storetest.Dump(t, h.Store, started); after != before {
			t.Errorf("the rows of the run that has ended have changed:\n%s\nbefore:\n%s", after, before)
		}

		e.mu.Lock()
		defer e.mu.Unlock()
		done = map[string]int{}
		for name, ids := range e.done {
			done[name] = len(ids)
		}
		return outlineOf(h, p), done
	}

	want, effects := travel(t, 0)
	got, forged := travel(t, 3)
	if got != want {
		t.Errorf("the run came to another end:\n%s\nundisturbed:\n%s", got, want)
	}
	if fmt.Sprint(forged) != fmt.Sprint(effects) {
		t.Errorf("effects: %v, undisturbed %v", forged, effects)
	}
}

// TestNobodyDecidesWhatWasOnlyRecorded (S1) checks that a wait which a client recorded cannot be decided: nothing waits
// for the answer.
func TestNobodyDecidesWhatWasOnlyRecorded(t *testing.T) {
	t.Parallel()
	h := journey(t, &effects{done: map[string][]string{}})
	w := record.Wait{
		RootPlanID: "recorded", PlanID: "recorded", WaitID: "w", Type: new(record.WaitActionValidation),
		State: new(record.Waiting),
	}
	storetest.Write(t, h.Store, &w)

	if err := h.Decide(w, record.Approved, "approve", ""); err == nil {
		t.Error("it was decided")
	}
}

// TestPolicyOfALateTool (S9) checks that the policy of a call is on record before it asks, also if the tool was not
// there when the model asked for it: who may approve is read from there.
func TestPolicyOfALateTool(t *testing.T) {
	t.Parallel()
	e := &effects{done: map[string][]string{}}
	h := build(t, []scriptmodel.Scene{{Name: "payer", Match: scriptmodel.Match{System: "Pay."}, Turns: calls(
		[]scriptmodel.ToolCall{call("pay", object{"name": "c"})}, terminate("paid"))}},
		map[string]define.Definition{"payer": {SystemPrompt: "Pay.", Tools: []string{"pay*"}}}, nil)

	lost := make(chan struct{})
	stop := h.Work(h.NewEngine(func(c *engine.Config) {
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			select {
			case <-lost:
				return runstore.ErrLeaseLost
			default:
			}

			asks := func(c record.Change) bool {
				made, ok := c.(*record.ActTool)
				return ok && *made.State == record.Pending
			}
			if !slices.ContainsFunc(changes, asks) {
				return h.Runs.WriteRun(ctx, l, changes, ops...)
			}

			// The worker is lost when the call is on record, and not yet that there is no such tool.
			changes = slices.DeleteFunc(slices.Clone(changes), func(c record.Change) bool {
				return c.Key().Kind == record.KindActTool && !asks(c)
			})
			if err := h.Runs.WriteRun(ctx, l, changes, ops...); err != nil {
				return err
			}
			close(lost)
			return runstore.ErrLeaseLost
		}
	}))
	id := h.Start("payer", "Pay.")
	<-lost
	stop()

	late, err := tool.NewSet(e.tool("pay", tool.Policy{Approval: true, NotStarter: true}))
	if err != nil {
		t.Fatal(err)
	}
	h.Parts.Set = late
	if _, err := h.DB.Pool.Exec(t.Context(), "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1",
		id); err != nil {
		t.Fatal(err)
	}

	h.Work(h.NewEngine(nil))
	storetest.Until(t, "the call asks", func() bool { return len(h.Waits()) == 1 })
	policy := storetest.Query[string](t, h.Store,
		"SELECT policy #>> '{approval,notStarter}' FROM actlog.act_tool_info WHERE root_plan_id = $1", id)
	if policy != "true" {
		t.Errorf("notStarter is %q on record", policy)
	}
}
