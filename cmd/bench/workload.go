package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// A run of the workload is a plan of two steps. Each step has one cycle with one tool call and one
// cycle with two.
const (
	stepsOfRun  = 2
	cyclesOfRun = 2 * stepsOfRun
	toolsOfRun  = 3 * stepsOfRun
	rowsOfRun   = 1 + stepsOfRun + cyclesOfRun + toolsOfRun
)

// script records run i like an agent program. It yields after each call of the Recorder. The same i
// makes the same run.
func (t *text) script(ctx context.Context, rec *recorder.Recorder, i int) iter.Seq[error] {
	return func(yield func(error) bool) {
		r := rand.New(rand.NewPCG(t.seed, uint64(i)))
		next := func(err error) bool { return yield(err) && err == nil }
		ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{
			Name: fmt.Sprint("kind-", i%20), Title: t.title(r), UserRequest: cut(r, t.prose, 300),
			UserID: fmt.Sprint("user-", i%100),
		})
		if !next(err) {
			return
		}

		for s := range stepsOfRun {
			ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{
				AgentName: fmt.Sprint("agent-", s), AgentDescription: t.title(r), AgentRequest: cut(r, t.prose, 300),
				Model: "large-1",
			})
			if !next(err) {
				return
			}

			for c := range cyclesOfRun / stepsOfRun {
				cycle, err := step.StartCycle(ctx, recorder.CycleInfo{
					ThinkInput: t.prompt(r), Provider: "someone", Model: "large-1",
				})
				if !next(err) {
					return
				}
				if !next(cycle.EndThink(ctx, recorder.ThinkResult{
					Output: t.answer(r), FinishReason: "tool_calls", InputTokens: int64(500 + r.IntN(3000)),
					OutputTokens: int64(50 + r.IntN(300)),
				})) {
					return
				}

				for range 1 + c%2 {
					ctx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{
						Name: fmt.Sprint("tool-", r.IntN(30)), Parameters: t.arg(r),
						ProviderCallID: fmt.Sprintf("call_%016x", r.Uint64()),
					})
					if !next(err) || !next(call.End(ctx, recorder.ToolResult{Result: t.result(r)})) {
						return
					}
				}

				if !next(cycle.End(ctx, recorder.CycleResult{})) {
					return
				}
			}

			if !next(step.End(ctx, recorder.StepResult{Result: t.answer(r)})) {
				return
			}
		}

		next(plan.End(ctx, recorder.PlanResult{Summary: t.answer(r)}))
	}
}

// recordRuns records runs, together of them side by side: each run makes one call, then each run
// makes its next call. So the start of a row was sent long before its end, as with real models and
// tools.
func (t *text) recordRuns(ctx context.Context, rec *recorder.Recorder, from, to, together int) error {
	for ; from < to; from += together {
		if err := t.recordTogether(ctx, rec, from, min(from+together, to)); err != nil {
			return err
		}
	}
	return nil
}

func (t *text) recordTogether(ctx context.Context, rec *recorder.Recorder, from, to int) error {
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

// collector is a Sink that keeps the changes in memory.
type collector struct {
	mu      sync.Mutex
	changes []record.Change
}

// Write implements [recorder.Sink].
func (k *collector) Write(_ context.Context, changes []record.Change) (record.Result, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, changes...)
	return record.Result{Accepted: len(changes)}, nil
}

// changes returns the changes that a Recorder sends for runs.
func (t *text) changes(ctx context.Context, from, to, together int) ([]record.Change, error) {
	var k collector
	err := t.recordRuns(ctx, recorder.New(&k, recorder.Options{}), from, to, together)
	return k.changes, err
}

// whole returns the same runs with one complete change per row.
func (t *text) whole(ctx context.Context, from, to int) ([]record.Change, error) {
	partial, err := t.changes(ctx, from, to, 1)
	if err != nil {
		return nil, err
	}

	rows := map[record.Key]*field.Row{}
	var all []record.Change
	for _, c := range partial {
		row, err := field.NewRow(c)
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

// share returns the i-th of n equal parts of the runs.
func share(runs, i, n int) (from, to int) { return runs * i / n, runs * (i + 1) / n }

// fill writes runs, so that there is something to read.
func (t *text) fill(ctx context.Context, sink recorder.Sink, from, to int) error {
	const runsPerWrite = 40
	return concurrently(clients, func(i int) error {
		first, last := share(to-from, i, clients)
		for ; first < last; first += runsPerWrite {
			changes, err := t.whole(ctx, from+first, from+min(first+runsPerWrite, last))
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

// write writes changes. A rejected change is an error.
func write(ctx context.Context, sink recorder.Sink, changes []record.Change) error {
	result, err := sink.Write(ctx, changes)
	if err == nil && result.Accepted != len(changes) {
		return fmt.Errorf("only %d of %d changes were accepted: %v", result.Accepted, len(changes), result.Rejected)
	}
	return err
}
