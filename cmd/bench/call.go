package main

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

// measureCall measures how long one call of a Recorder takes for the agent that makes it.
func measureCall(ctx context.Context, b *bench) (figures []figure, err error) {
	db, err := b.database(ctx, "call")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()

	sink, err := direct.Open(ctx, db.url, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(sink.Close)) }()

	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()

	if _, err := conn.Exec(
		ctx, "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value text)",
	); err != nil {
		return nil, err
	}

	calls := b.n(2_000, 50)
	rec := recorder.New(sink, recorder.Options{})

	ours, baseline, err := b.byTurns(ctx,
		func(ctx context.Context) (float64, error) {
			next, stop := iter.Pull(b.text.endless(ctx, rec))
			defer stop()
			return medianMicroseconds(calls, func() error {
				err, _ := next()
				return err
			})
		},
		func(ctx context.Context) (float64, error) {
			values := b.text.sample(1)
			return medianMicroseconds(calls, func() error {
				_, err := conn.Exec(ctx, "INSERT INTO bare (value) VALUES ($1)", values[3])
				return err
			})
		})
	if err != nil {
		return nil, err
	}
	figures = append(figures, against("synchronous, median", "us", ours, baseline, "commit of a row", atMost(4)))

	var allocations []float64
	took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
		took, allocated, err := b.bufferedCall(ctx, b.n(200_000, 1_000))
		allocations = append(allocations, allocated)
		return took, err
	}, nil)
	if err != nil {
		return nil, err
	}
	return append(figures,
		alone("buffered, mean", "us", took, atMost(20)),
		alone("buffered, allocations", "", allocations[1:], atMost(10))), nil
}

// endless records one run after the other.
func (t *text) endless(ctx context.Context, rec *recorder.Recorder) iter.Seq[error] {
	return func(yield func(error) bool) {
		for i := 0; ; i++ {
			for err := range t.script(ctx, rec, i) {
				if !yield(err) {
					return
				}
			}
		}
	}
}

func medianMicroseconds(times int, do func() error) (float64, error) {
	took := make([]float64, times)
	for i := range took {
		start := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		took[i] = 1_000 * ms(time.Since(start))
	}
	return valueOf(took).Median, nil
}

// bufferedCall returns the mean microseconds and allocations of a call that returns as soon as it
// is queued. The calls are those of cycles with one tool call. The agent does not wait for what
// follows, so the sink behind the Buffer takes no time.
func (b *bench) bufferedCall(ctx context.Context, calls int) (microseconds, allocations float64, err error) {
	const callsOfCycle = 5
	buffer := recorder.NewBuffer(recorder.Discard, recorder.BufferOptions{})
	defer func() { err = errors.Join(err, closing(buffer.Close)) }()

	ctx, plan, err := recorder.New(buffer, recorder.Options{}).StartPlan(ctx, recorder.PlanInfo{})
	if err != nil {
		return 0, 0, err
	}
	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
	if err != nil {
		return 0, 0, err
	}

	texts := b.text.sample(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range calls / callsOfCycle {
		cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: texts[0], Model: "large-1"})
		if err != nil {
			return 0, 0, err
		}
		if err := cycle.EndThink(ctx,
			recorder.ThinkResult{Output: texts[1], InputTokens: 1500, OutputTokens: 150}); err != nil {
			return 0, 0, err
		}

		ctx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{Name: "tool", Parameters: texts[2]})
		if err != nil {
			return 0, 0, err
		}
		if err := call.End(ctx, recorder.ToolResult{Result: texts[3]}); err != nil {
			return 0, 0, err
		}
		if err := cycle.End(ctx, recorder.CycleResult{}); err != nil {
			return 0, 0, err
		}
	}

	took := time.Since(start)
	runtime.ReadMemStats(&after)
	made := float64(calls / callsOfCycle * callsOfCycle)
	return 1_000 * ms(took) / made, float64(after.Mallocs-before.Mallocs) / made, nil
}
