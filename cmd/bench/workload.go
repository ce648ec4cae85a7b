package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// A run of the workload is a plan of two steps; each has a cycle of one tool call
// and one of two.
const (
	stepsOfRun  = 2
	cyclesOfRun = 2 * stepsOfRun
	toolsOfRun  = 3 * stepsOfRun
	rowsOfRun   = 1 + stepsOfRun + cyclesOfRun + toolsOfRun
)

// script tells a run as an agent program does. It yields after each call of the
// Recorder; what it says of run i is always the same.
func (t *text) script(ctx context.Context, rec *recorder.Recorder, i int) iter.Seq[error] {
	return func(yield func(error) bool) {
		r := rand.New(rand.NewPCG(t.seed, uint64(i)))
		told := func(err error) bool { return yield(err) && err == nil }
		ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{
			Name: fmt.Sprint("kind-", i%20), Title: t.title(r), UserRequest: cut(r, t.prose, 300), UserID: fmt.Sprint("user-", i%100),
		})
		if !told(err) {
			return
		}
		for s := range stepsOfRun {
			ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{
				AgentName: fmt.Sprint("agent-", s), AgentDescription: t.title(r), AgentRequest: cut(r, t.prose, 300), Model: "large-1",
			})
			if !told(err) {
				return
			}
			for c := range cyclesOfRun / stepsOfRun {
				cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: t.prompt(r), Provider: "someone", Model: "large-1"})
				if !told(err) {
					return
				}
				if !told(cycle.EndThink(ctx, recorder.ThinkResult{
					Output: t.answer(r), FinishReason: "tool_calls", InputTokens: int64(500 + r.IntN(3000)), OutputTokens: int64(50 + r.IntN(300)),
				})) {
					return
				}
				for range 1 + c%2 {
					ctx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{
						Name: fmt.Sprint("tool-", r.IntN(30)), Parameters: t.arg(r), ProviderCallID: fmt.Sprintf("call_%016x", r.Uint64()),
					})
					if !told(err) || !told(call.End(ctx, recorder.ToolResult{Result: t.result(r)})) {
						return
					}
				}
				if !told(cycle.End(ctx, recorder.CycleResult{})) {
					return
				}
			}
			if !told(step.End(ctx, recorder.StepResult{Result: t.answer(r)})) {
				return
			}
		}
		told(plan.End(ctx, recorder.PlanResult{Summary: t.answer(r)}))
	}
}

// tell tells runs, so many of them side by side: each makes one call, then each its
// next. So what a call begins has long been sent when another ends it, as when
// models and tools take their time.
func (t *text) tell(ctx context.Context, rec *recorder.Recorder, from, to, together int) error {
	for ; from < to; from += together {
		if err := t.tellTogether(ctx, rec, from, min(from+together, to)); err != nil {
			return err
		}
	}
	return nil
}

func (t *text) tellTogether(ctx context.Context, rec *recorder.Recorder, from, to int) error {
	calls := make([]func() (error, bool), 0, to-from)
	for i := from; i < to; i++ {
		call, stop := iter.Pull(t.script(ctx, rec, i))
		defer stop()
		calls = append(calls, call)
	}
	for going := true; going; {
		going = false
		for _, call := range calls {
			err, ok := call()
			if err != nil {
				return err
			}
			going = going || ok
		}
	}
	return nil
}

// kept is a Sink that keeps what it is told.
type kept struct {
	mu      sync.Mutex
	changes []record.Change
}

// Write implements [recorder.Sink].
func (k *kept) Write(_ context.Context, changes []record.Change) (record.Result, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, changes...)
	return record.Result{Accepted: len(changes)}, nil
}

// changes gives what a Recorder tells of runs.
func (t *text) changes(ctx context.Context, from, to, together int) ([]record.Change, error) {
	var k kept
	err := t.tell(ctx, recorder.New(&k, recorder.Options{}), from, to, together)
	return k.changes, err
}

// whole gives the same runs with each row told once, in whole.
func (t *text) whole(ctx context.Context, from, to int) ([]record.Change, error) {
	told, err := t.changes(ctx, from, to, 1)
	if err != nil {
		return nil, err
	}
	rows := map[record.Key]*record.Row{}
	var all []record.Change
	for _, c := range told {
		row, err := record.NewRow(c)
		if err != nil {
			return nil, err
		}
		if known := rows[c.Key()]; known != nil {
			known.Learn(row)
			continue
		}
		rows[c.Key()] = row
		all = append(all, row.Change)
	}
	return all, nil
}

// share gives the i-th of n equal parts of so many runs.
func share(runs, i, n int) (from, to int) { return runs * i / n, runs * (i + 1) / n }

// fill writes runs, so that something is there to be read.
func (t *text) fill(ctx context.Context, sink recorder.Sink, from, to int) error {
	const atOnce = 40 // runs in a Write
	return concurrently(clients, func(i int) error {
		first, last := share(to-from, i, clients)
		for ; first < last; first += atOnce {
			changes, err := t.whole(ctx, from+first, from+min(first+atOnce, last))
			if err == nil {
				err = write(ctx, sink, changes)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// write writes changes, all of which are to be accepted.
func write(ctx context.Context, sink recorder.Sink, changes []record.Change) error {
	result, err := sink.Write(ctx, changes)
	if err == nil && result.Accepted != len(changes) {
		return fmt.Errorf("%d of %d changes were accepted: %v", result.Accepted, len(changes), result.Rejected)
	}
	return err
}
