package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Run is a run as it stands. Texts are empty and times zero where there is nothing yet.
type Run struct {
	PlanID, RootPlanID string
	ParentPlanID       string // of the run that started it; empty: it is a root
	Executor           string // such as agent
	Name               string // of what is run, such as the name of an agent
	Title              string
	// State is PENDING until a worker begins, WAITING while the run and those below it wait for a human, an
	// event or a time and nothing else goes on, PAUSED, RUNNING, or how it ended: COMPLETED, FAILED, CANCELLED.
	State record.State
	// Result is what the run answers.
	Result string
	// Error says why it failed. ErrorKind is the class of the error, such as limit_cost. A run that is PAUSED with the
	// kind record_mismatch has not failed: its code does other things than are on record, and it waits for other code.
	Error, ErrorKind string
	// Waits are what a human may decide, of this run and those below it, oldest first.
	Waits []Wait
	// WaitingFor is what the run needs and no live worker has, such as tool:weather or model:default; workflow:refund@1.4
	// and what differs, if it waits for the code of that release; time:2026-11-20T03:12:00Z until its StartAt, or while it
	// sleeps; event:paid:17 while it waits for an event.
	WaitingFor []string
	// DueAt is when the run, or one below it, goes on at the latest without that something happens, such as when a model
	// that is away is asked next. Zero: a worker carries it, it waits without an end, or has ended.
	DueAt time.Time
	// StartAt and ExpiresAt are those of its [Job].
	StartAt, ExpiresAt time.Time
	// Takeovers is how often another worker went on with the run because its worker was lost.
	Takeovers int64
	// Attempt counts the attempts at the run, from 1: each [Runtime.Retry] is another.
	Attempt int64
	// AgainOf is the run whose input this one has, perhaps changed, see [Runtime.Again]; empty: none.
	AgainOf string
	// ForkedFrom is the run that this one goes on from, and ForkedAt the first row of that which it makes anew, see
	// [Runtime.Fork]; empty: none.
	ForkedFrom, ForkedAt string
	// Priority and ConcurrencyKey are those of its [Job].
	Priority       int
	ConcurrencyKey string
	// Figures are those of the run itself. Total includes the runs below it.
	Figures, Total                Figures
	CreatedAt, StartTime, EndTime time.Time
}

// Figures are sums over the model calls and tool calls of a run. CostUSD is nil if no price is known.
type Figures struct {
	ModelCalls, ToolCalls, Failures int64
	InputTokens, OutputTokens       int64
	CostUSD                         *float64
	ModelTime, ToolTime             time.Duration
}

// Read returns a run. The error wraps [record.ErrNotFound] if there is none of that plan.
func (r *Runtime) Read(ctx context.Context, planID string) (*Run, error) {
	if err := r.enter(); err != nil {
		return nil, fmt.Errorf("read run %s: %w", planID, err)
	}
	defer r.leave()

	d, err := r.detail(ctx, planID)
	if err != nil {
		return nil, err
	}
	return runOf(d), nil
}

// Wait returns a run when it has ended, or goes on only when something happens: when a human decides what it waits for,
// or resumes it. While Postgres is away, or a model of the run, it waits. The error wraps [record.ErrNotFound] if there
// is no run of that plan, or the cause of the end of ctx.
func (r *Runtime) Wait(ctx context.Context, planID string) (run *Run, err error) {
	err = r.during(func() error {
		d, err := r.await(ctx, planID, runs.Idle)
		if err == nil {
			run = runOf(d)
		}
		return err
	}, "wait for run %s", planID)
	return run, err
}

// await returns a run when it is as wanted. While Postgres is away, it waits.
func (r *Runtime) await(
	ctx context.Context, planID string, wanted func(*runstore.RunDetail) bool,
) (*runstore.RunDetail, error) {
	d, err := r.awaitOnce(ctx, planID, wanted)
	for errors.Is(err, record.ErrUnavailable) {
		if err = r.pause(ctx); err == nil {
			d, err = r.awaitOnce(ctx, planID, wanted)
		}
	}
	return d, err
}

// awaitOnce is await until Postgres cannot be reached.
func (r *Runtime) awaitOnce(
	ctx context.Context, planID string, wanted func(*runstore.RunDetail) bool,
) (*runstore.RunDetail, error) {
	d, err := r.detail(ctx, planID)
	if err == nil {
		err = r.watch.Wait(ctx, d.Plan.RootPlanID, func() (bool, error) {
			d, err = r.detail(ctx, planID)
			return err == nil && wanted(d), err
		})
	}

	switch {
	case err == nil && wanted(d):
		return d, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		return nil, record.ErrClosed
	}
	return nil, err
}

// awayEvery is how often it is looked whether Postgres is back.
const awayEvery = time.Second

// pause waits a moment. The error says that ctx has ended, or the Runtime is closed.
func (r *Runtime) pause(ctx context.Context) error {
	timer := time.NewTimer(awayEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ending.Done():
		return record.ErrClosed
	}
}

func (r *Runtime) detail(ctx context.Context, planID string) (*runstore.RunDetail, error) {
	if !storable(planID) {
		return nil, fmt.Errorf("read run %q: %w", planID, record.ErrNotFound)
	}
	return r.store.Reader.RunDetail(ctx, planID)
}

func runOf(d *runstore.RunDetail) *Run {
	p := &d.Plan
	run := &Run{
		PlanID: p.CurrentPlanID, RootPlanID: p.RootPlanID, ParentPlanID: optional.Value(p.ParentPlanID),
		Executor: d.Executor, Name: optional.Value(d.Name), Title: optional.Value(p.Title),
		State: d.State, Result: optional.Value(p.Summary),
		Error: optional.Value(p.ErrorMessage), ErrorKind: optional.Value(p.ErrorKind),
		WaitingFor: d.WaitingFor, DueAt: optional.Value(d.DueAt),
		Takeovers: d.Takeovers, Attempt: max(optional.Value(p.Attempt), 1), AgainOf: optional.Value(d.AgainOf),
		ForkedFrom: optional.Value(d.RunForkedFrom), ForkedAt: optional.Value(d.RunForkedAt),
		Priority: int(d.Priority), ConcurrencyKey: optional.Value(d.ConcurrencyKey),
		StartAt: optional.Value(d.StartAt), ExpiresAt: optional.Value(d.ExpiresAt),
		Figures: figuresOf(&d.Figures), Total: figuresOf(&d.Total),
		CreatedAt: optional.Value(d.CreatedAt), StartTime: optional.Value(p.StartTime), EndTime: optional.Value(p.EndTime),
	}

	for _, w := range d.Waits {
		run.Waits = append(run.Waits, waitOf(w))
	}
	return run
}

func figuresOf(f *tree.Figures) Figures {
	return Figures{
		ModelCalls: f.ModelCalls, ToolCalls: f.ToolCalls, Failures: f.Failures, InputTokens: f.InputTokens,
		OutputTokens: f.OutputTokens, CostUSD: f.CostUSD,
		ModelTime: time.Duration(f.ThinkMs) * time.Millisecond, ToolTime: time.Duration(f.ToolMs) * time.Millisecond,
	}
}
