package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// writer is [engine.Config.Write].
type writer func(context.Context, runstore.Lease, []record.Change, ...runstore.RunOp) error

// disturbed lets f carry out the writes of an engine, which gets the one that does it.
func disturbed(h *enginetest.House, f func(write writer) writer) {
	h.Engine = h.NewEngine(func(c *engine.Config) { c.Write = f(h.Runs.WriteRun) })
}

// callStates returns the states of the calls of the only step of a run, by the names of their tools.
func callStates(h *enginetest.House, id string) map[string]record.State {
	states := map[string]record.State{}
	for _, c := range stepOf(h, id).Cycles {
		for _, made := range c.ToolCalls {
			states[text(made.Record.Name)] = *made.Record.State
		}
	}
	return states
}

func stepOf(h *enginetest.House, id string) *tree.Step { return h.Step(h.Plan(id)) }

// kindsOf names the kinds of changes, with their states.
func kindsOf(changes []record.Change) (kinds []string) {
	for _, c := range changes {
		switch c := c.(type) {
		case *record.ThinkAct:
			kinds = append(kinds, fmt.Sprintf("cycle %d %s", c.Seq, optional.Value(c.State)))
		case *record.ActTool:
			kinds = append(kinds, fmt.Sprintf("call of cycle %d %s", c.Seq, optional.Value(c.State)))
		default:
			kinds = append(kinds, string(c.Key().Kind))
		}
	}
	return kinds
}

// named returns a tool with a function that takes nothing.
func named(name string, f func(ctx context.Context, planID string) (string, error)) tool.Tool {
	return tool.CallFunc(name, "Does something.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		return f(ctx, c.PlanID)
	})
}

// agentOf returns a house with an agent that has tools, and calls them in turns.
func agentOf(t *testing.T, tools []tool.Tool, turns ...[]scriptmodel.ToolCall) *enginetest.House {
	t.Helper()
	return build(t, []scriptmodel.Scene{{Name: "a", Turns: calls(turns...)}},
		map[string]define.Definition{"a": {Tools: []string{"*"}}}, tools)
}

// reopener makes a call in a step, opens the step again at once, and comes to the same call.
type reopener struct{}

func (reopener) Kind() string { return "reopener" }

func (reopener) Prepare(_ engine.Parts, r engine.Request) (engine.Prepared, error) {
	return engine.Prepared{Input: r.Input}, nil
}

func (reopener) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	tools, err := run.Tools(ctx, nil, nil)
	if err != nil {
		return engine.Result{}, err
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		return engine.Result{}, err
	}

	var said []string
	for range 2 {
		s, err := run.Step(ctx, 0, engine.StepInfo{})
		if err != nil {
			return engine.Result{}, err
		}
		results, err := s.Act(ctx, 0, []model.ToolCall{{Name: "quick", Arguments: "{}"}}, engine.Thinking{Tools: set})
		if err != nil {
			return engine.Result{}, err
		}
		said = append(said, results[0].Text)
	}
	return engine.Result{Summary: strings.Join(said, " ")}, nil
}

// TestOpenedAgain checks that a step which is opened again knows what it has just done.
func TestOpenedAgain(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	quick := named("quick", func(context.Context, string) (string, error) {
		return fmt.Sprintf("call %d", made.Add(1)), nil
	})
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:    []scriptmodel.Scene{{Name: "unused", Turns: calls(terminate("unused"))}},
		Executors: []engine.Executor{reopener{}}, Tools: []tool.Tool{quick},
	})
	h.Engine.SetGrace(time.Hour) // no timer writes the result
	h.Work(h.Engine)

	started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "reopener", Input: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	p := h.Ended(started.PlanID)
	if text(p.Record.Summary) != "call 1 call 1" || made.Load() != 1 {
		t.Errorf("the run says %q after %d calls, %s", text(p.Record.Summary), made.Load(), text(p.Record.ErrorMessage))
	}
}

// TestEndAndBeginAreOneWrite checks that a call ends in the write in which the next one begins, and that everything
// before a call is on record when it is made.
func TestEndAndBeginAreOneWrite(t *testing.T) {
	t.Parallel()
	const cycles = 3
	var h *enginetest.House
	var made atomic.Int64
	look := named("look", func(_ context.Context, planID string) (string, error) {
		n := made.Add(1)
		all := stepOf(h, planID).Cycles
		if int64(len(all)) != n {
			return "", fmt.Errorf("%d cycles are on record in call %d", len(all), n)
		}
		for i, c := range all {
			want := record.Completed
			if i == len(all)-1 {
				want = record.Running
			}
			if c.Record.ThinkEndTime == nil || *c.Record.State != want || *c.ToolCalls[0].Record.State != want {
				return "", fmt.Errorf("in call %d, cycle %d is %s and its call %s", n, i, *c.Record.State,
					*c.ToolCalls[0].Record.State)
			}
		}
		return fmt.Sprint("seen ", n), nil
	})

	var turns [][]scriptmodel.ToolCall
	for range cycles {
		turns = append(turns, []scriptmodel.ToolCall{call("look", object{})})
	}
	h = agentOf(t, []tool.Tool{look}, append(turns, terminate("done"))...)

	var writes atomic.Int64
	disturbed(h, func(write writer) writer {
		return func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			t.Logf("write %d: %s", writes.Add(1), kindsOf(changes))
			return write(ctx, l, changes, ops...)
		}
	})
	h.Engine.SetGrace(time.Hour)
	h.Work(h.Engine)
	p := h.Await(h.Start("a", "Go."), record.Completed)

	for i, c := range h.Step(p).Cycles {
		if result := text(c.ToolCalls[0].Record.Result); i < cycles && result != fmt.Sprint("seen ", i+1) {
			t.Errorf("cycle %d: %s", i, result)
		}
	}
	const want = 2*(cycles+1) + 1 // the last cycle calls terminate, and the run ends
	if n := writes.Load(); n != want {
		t.Errorf("%d writes, want %d", n, want)
	}
}

// TestResultIsNotKeptWaiting checks that a result is on record while another call of its cycle is still made.
func TestResultIsNotKeptWaiting(t *testing.T) {
	t.Parallel()
	var h *enginetest.House
	quick := named("quick", func(context.Context, string) (string, error) { return "quick", nil })
	slow := named("slow", func(_ context.Context, planID string) (string, error) {
		storetest.Until(t, "the quick call has ended", func() bool {
			return callStates(h, planID)["quick"] == record.Completed
		})
		return "slow", nil
	})
	h = agentOf(t, []tool.Tool{quick, slow},
		[]scriptmodel.ToolCall{call("quick", object{}), call("slow", object{})}, terminate("done"))

	h.Work(h.Engine)
	h.Await(h.Start("a", "Go."), record.Completed)
}

// TestResultThatCannotBeWritten lets the write of a result fail that nothing follows at once. It is written when that
// can be done, although the run does not go on here, and no call is made again.
func TestResultThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var h *enginetest.House
	var quicks, slows atomic.Int64

	quick := named("quick", func(context.Context, string) (string, error) {
		quicks.Add(1)
		return "quick", nil
	})

	slow := named("slow", func(_ context.Context, planID string) (string, error) {
		slows.Add(1)
		storetest.Until(t, "the quick call has ended", func() bool {
			return callStates(h, planID)["quick"] == record.Completed
		})
		return "slow", nil
	})

	h = agentOf(t, []tool.Tool{quick, slow},
		[]scriptmodel.ToolCall{call("quick", object{}), call("slow", object{})}, terminate("done"))

	var failed atomic.Bool
	disturbed(h, func(write writer) writer {
		return func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			for _, each := range changes {
				made, ok := each.(*record.ActTool)
				if ok && *made.State == record.Completed && failed.CompareAndSwap(false, true) {
					return record.ErrUnavailable
				}
			}
			return write(ctx, l, changes, ops...)
		}
	})
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Completed)

	if !failed.Load() || quicks.Load() != 1 || slows.Load() != 1 {
		t.Errorf("failed: %t; quick was called %d times, slow %d times", failed.Load(), quicks.Load(), slows.Load())
	}
	claims := storetest.Query[int64](t, h.Store, "SELECT epoch FROM actlog.run WHERE plan_id = $1", id)
	if claims != 2 {
		t.Errorf("the run was claimed %d times, want 2", claims)
	}
}

// sourced is a tool whose result has a source of a type. A call of it ends once ready.
type sourced struct {
	of    record.SourceType
	ready func(planID string)
}

func (sourced) Spec() tool.Spec {
	return tool.Spec{Name: "sourced", Description: "Has a source.", Schema: []byte(`{"type":"object"}`)}
}

func (s sourced) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	s.ready(call.PlanID)
	return tool.Result{Text: "sourced", Sources: []tool.Source{{URI: "a", Type: s.of}}}, nil
}

// TestResultThatIsInvalid checks that a run ends that has a result which cannot be on record, and that this costs none
// of what came with it.
func TestResultThatIsInvalid(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, time.Hour} {
		t.Run(grace.String(), func(t *testing.T) {
			t.Parallel()
			var h *enginetest.House
			called := make(chan struct{})

			good := named("good", func(context.Context, string) (string, error) {
				close(called)
				return "good", nil
			})
			invalid := sourced{of: "nonsense", ready: func(planID string) {
				<-called
				if grace == 0 { // otherwise the ends of both are written at once
					storetest.Until(t, "the good call has ended", func() bool {
						return callStates(h, planID)["good"] == record.Completed
					})
				}
			}}

			h = agentOf(t, []tool.Tool{good, invalid},
				[]scriptmodel.ToolCall{call("good", object{}), call("sourced", object{})}, terminate("done"))
			h.Engine.SetGrace(grace)
			h.Work(h.Engine)
			id := h.Start("a", "Go.")
			p := h.Await(id, record.Failed)

			if text(p.Record.ErrorKind) != "internal" || !strings.Contains(text(p.Record.ErrorMessage), "type") {
				t.Errorf("the run failed with %s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
			if states := callStates(h, id); states["good"] != record.Completed || states["sourced"] != record.Completed {
				t.Errorf("the calls are %v", states)
			}
		})
	}
}

// TestPausedWhileTheModelAnswers checks that a run asks nobody anything that is to pause before its model has answered.
func TestPausedWhileTheModelAnswers(t *testing.T) {
	t.Parallel()
	field := []object{{"label": "City", "name": "city"}}
	for _, asked := range []scriptmodel.ToolCall{
		call("pay", object{"name": "a"}), call("form", object{"title": "City?", "inputs": field}),
	} {
		t.Run(asked.Name, func(t *testing.T) {
			t.Parallel()
			begun, free := make(chan struct{}), make(chan struct{})
			reply := func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
				close(begun)
				select {
				case <-free:
				case <-ctx.Done():
				}
				return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{asked}}, nil
			}
			e := &effects{done: map[string][]string{}}
			h := build(t, []scriptmodel.Scene{{
				Name: "a", Turns: append([]scriptmodel.Turn{{Reply: reply}}, calls(terminate("done"))...),
			}}, map[string]define.Definition{"a": {Tools: []string{"pay", "form"}}},
				[]tool.Tool{e.tool("pay", tool.Policy{Approval: true})}, func(c *engine.Config) { c.Beat = time.Minute })

			h.Work(h.Engine)
			id := h.Start("a", "Go.")
			<-begun
			if err := h.Runs.Control(t.Context(), id, runstore.Pause, ""); err != nil {
				t.Fatal(err)
			}

			close(free)
			h.Await(id, record.Paused)
			if open := h.Waits(); len(open) > 0 {
				t.Errorf("it asks %s", *open[0].Type)
			}

			ctx, cancel := context.WithCancel(t.Context())
			var answering sync.WaitGroup
			answering.Go(func() { answer(ctx, h) })
			defer func() { cancel(); answering.Wait() }()
			if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
				t.Fatal(err)
			}
			h.Await(id, record.Completed)
		})
	}
}
