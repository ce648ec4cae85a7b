// Package recorder is the Recorder that a Go agent holds. It has a handle for a plan, its steps,
// their cycles and tool calls. A handle records what is about to happen before it happens, and
// the outcome after it.
//
//	ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{Title: "Answer a question"})
//	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{AgentName: "reader"})
//	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: prompt})
//	err = cycle.EndThink(ctx, recorder.ThinkResult{Output: reply})
//	toolCtx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{Name: "search", Parameters: args})
//	err = call.End(toolCtx, recorder.ToolResult{Result: found})
//	err = cycle.End(ctx, recorder.CycleResult{})
//	err = step.End(ctx, recorder.StepResult{Result: answer})
//	err = plan.End(ctx, recorder.PlanResult{Summary: answer})
//
// A plan that is started with the context of a tool call is its sub-plan: in this process or, by
// [Inject] and [Extract], in another one. [Recorder.ContinuePlan] goes on with a run that another
// process started.
//
// Every call returns after the [Sink] has answered. [NewHTTP] and package direct make Sinks that
// answer after the commit. A [Buffer] or package spool in front of one answers at once and
// delivers later. An error never makes a handle unusable: an agent that prefers to go on without
// its record can ignore it. What a handle could not report about itself because the sink failed
// is sent with the next call on it or on anything below it.
//
// Nothing starts in a plan, step or cycle that has ended, and the same attempt at a step, cycle or tool
// call does not start again: the error wraps [record.ErrEnded]. Handles know of each other's ends if
// they come from one plan handle; those of tool calls, from one cycle handle. What is known late of
// something that has ended is still recorded: ends, answers of models, thoughts, artifacts, sources,
// decisions, exceptions.
//
// Handles are safe for concurrent use.
package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
	"weak"

	"github.com/actlog/actlog/record"
)

// EndTimeoutDefault bounds calls that record an end, see [Options.EndTimeout].
const EndTimeoutDefault = 10 * time.Second

// Sink is where a Recorder's changes go.
//
// Write returns after everything it accepted is on record. Result.Rejected names by index what
// was refused for good. After an error nothing is known to be on record, and the same changes may
// be written again, in any order and any number of times: they are idempotent.
// [record.ErrUnavailable] says that a later try may succeed. Neither side alters a change after
// it was passed to Write, which is called from several goroutines at once. A [Buffer], and what
// is built on one, returns earlier: what it accepted is queued. A Sink that queues should be a
// [Beater].
type Sink interface {
	Write(ctx context.Context, changes []record.Change) (record.Result, error)
}

// Discard is a Sink that accepts everything and keeps nothing, for programs in which recording
// can be switched off. Handles, ids and links work as usual.
var Discard Sink = discard{}

type discard struct{}

func (discard) Write(_ context.Context, changes []record.Change) (record.Result, error) {
	return record.Result{Accepted: len(changes)}, nil
}

// Options are what all plans of a Recorder have in common. The zero value is ready to use.
type Options struct {
	// Project, Environment and Release are recorded for each plan that does not name its own. A
	// sub-plan inherits the project of the plan above it first.
	Project, Environment, Release string

	// EndTimeout bounds each call that records an end (End, EndThink, Fail, Close, Decide,
	// Exception). These calls go on when their context is already cancelled, because the end of a
	// cancelled run is worth recording too, and wait for the sink at most this long. Default
	// [EndTimeoutDefault].
	EndTimeout time.Duration

	// Heartbeat is how often a sign of life (lastSeenAt) is sent for each plan that was started or
	// continued here and has not ended, so that a server can distinguish a long silence from a dead
	// process. No call waits for it, and a failure is only logged.
	// Negative: none is sent. Default [HeartbeatDefault].
	Heartbeat time.Duration

	// Clock returns the times that are recorded, and the revisions. It is called from several
	// goroutines at once. Default [time.Now].
	Clock func() time.Time

	// Logger receives what no call can return: a heartbeat that failed, or a Close that could not
	// be recorded while its goroutine panics. Default: nothing is logged.
	Logger *slog.Logger
}

// Recorder sends to a Sink what agents do. Make one with [New]. It is safe for concurrent use and
// needs no closing. One per process is enough.
type Recorder struct {
	sink    Sink
	options Options
	rev     atomic.Int64
	heart   heart
}

// New makes a Recorder that writes to sink. It panics if sink is nil: use [Discard] to record
// nothing.
func New(sink Sink, options Options) *Recorder {
	if sink == nil {
		panic("recorder: New needs a sink; recorder.Discard records nothing")
	}

	options.EndTimeout = cmp.Or(options.EndTimeout, EndTimeoutDefault)
	options.Heartbeat = cmp.Or(options.Heartbeat, HeartbeatDefault)
	if options.Clock == nil {
		options.Clock = time.Now
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	r := &Recorder{sink: sink, options: options}
	r.heart = heart{rec: r, every: options.Heartbeat, plans: map[record.Key][]weak.Pointer[Plan]{}}
	return r
}

func (r *Recorder) now() time.Time { return r.options.Clock().UTC() }

// nextRev returns the revision of the next record: the clock in microseconds, but always more
// than the last one. So the later of two records counts even if the clock stood still or was set
// back.
func (r *Recorder) nextRev() int64 {
	now := r.options.Clock().UnixMicro()
	for {
		last := r.rev.Load()
		next := max(now, last+1)
		if r.rev.CompareAndSwap(last, next) {
			return next
		}
	}
}

// write passes changes to the sink. concluded reports whether the sink has decided on all of them,
// so that none has to be sent again. The error then names what was refused.
func (r *Recorder) write(ctx context.Context, changes []record.Change) (concluded bool, err error) {
	result, err := r.sink.Write(ctx, changes)
	if err != nil {
		return false, err
	}

	var refused []error
	for _, rejection := range result.Rejected {
		what := "record"
		if 0 <= rejection.Index && rejection.Index < len(changes) {
			what = describe(changes[rejection.Index])
		}
		refused = append(refused, fmt.Errorf("%s: %w", what, rejection.Err))
	}
	return true, errors.Join(refused...)
}

// endContext lets an end be recorded after ctx was cancelled, for a limited time.
func (r *Recorder) endContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.options.EndTimeout)
}

func describe(c record.Change) string {
	key := c.Key()
	if key.Kind == record.KindThinkAct {
		return fmt.Sprintf("%s %s/%d", key.Kind, key.Parent, key.Seq)
	}
	return fmt.Sprintf("%s %s", key.Kind, key.ID)
}
