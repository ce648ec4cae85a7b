package engine

import (
	"context"
	"time"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// endOrRetry ends a call that failed, or moves on to its next attempt if its policy says so. The failed attempt and the
// next one are put on record together, so whoever goes on with the run knows that the call is not over, how often it
// has failed, and when.
func (c *calling) endOrRetry(result tool.Result, kind string) tool.Result {
	failed := c.attempts(record.Failed) + 1
	if result.Final || !c.policy.Retry.Again(failed, tool.FailureKind(kind)) {
		return c.recordEnd(record.Failed, result, kind)
	}

	r := c.step.run
	row := c.change(record.Failed)
	row.StartTime, row.EndTime = c.row.StartTime, new(r.now())
	row.ErrorKind, row.ErrorMessage = &kind, new(tool.Cut(r.redact(result.Text), maxToolError))

	r.addResult(c.nextAttempt(row))
	return result
}

// longRest is the pause from which on a call that is made again keeps no worker: its run is parked. That costs two
// transactions, and the run is read again, which is too much for a second.
const longRest = 5 * time.Second

// rest waits until a call that failed may be made again. How long is known from the record, so another worker waits for
// what is left of the pause.
func (c *calling) rest(ctx context.Context) error {
	if len(c.past) == 0 || c.row.StartTime != nil || c.policy.Retry == nil {
		return nil
	}
	last := c.past[len(c.past)-1]
	if last.State != record.Failed || last.EndTime == nil {
		return nil
	}

	r := c.step.run
	due := last.EndTime.Add(c.policy.Retry.Pause(c.attempts(record.Failed)))
	switch left := due.Sub(r.now()); {
	case left <= 0:
		return r.boundary(ctx)
	case left > longRest:
		return &parkedError{until: due}
	default:
		return r.wait(ctx, left)
	}
}

// turn waits until the rule that is in force for the tool lets the call begin. The caller calls end when the call has
// ended.
func (c *calling) turn(ctx context.Context) (end func(), err error) {
	r := c.step.run
	tools, limits := r.parts.Policies().Limits(c.tool.Spec().Name)
	done, err := r.turn(ctx, "tools:"+tools, limits, limit.Tokens{})
	if err != nil {
		return nil, err
	}
	return func() { done(limit.Tokens{}) }, nil
}
