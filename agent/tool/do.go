package tool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// MaxText is the length in bytes to which Do cuts texts, if it is not given another.
const MaxText = 64 << 10

// Do calls a tool within its bounds, by a policy:
//
//   - Arguments are those of [Canonical]. If they are bad, by [CheckArguments], the result is failed, and no call is
//     made.
//   - A tool that has something to prepare does so first. If it cannot, the result is failed.
//   - A panic of the tool is a failed result.
//   - The call ends after the time-out of the policy. It is a failed result then, which says so, or an error that is
//     [ErrTimeout] and [ErrUnknown] if the tool writes, or if a human is to say what became of such a call.
//   - If call.Ask returns an error, so does Do, whatever the tool makes of it.
//   - The text is cut to maxText bytes (0 means [MaxText]), with a notice that says how long it was.
//     Data that is longer is dropped. Texts are valid UTF-8.
//
// The tool must end when its context does.
func Do(ctx context.Context, t Tool, p Policy, call Call, maxText int) (Result, error) {
	arguments, err := Canonical(call.Arguments)
	if err == nil {
		err = check(t, arguments)
	}
	if err != nil {
		return BadArguments(err), nil
	}

	call.Arguments = arguments
	return DoChecked(ctx, t, p, call, maxText)
}

// DoChecked is [Do] for a call whose arguments are in the form of [Canonical], and in which [CheckArguments] found
// nothing wrong.
func DoChecked(ctx context.Context, t Tool, p Policy, call Call, maxText int) (Result, error) {
	if maxText <= 0 {
		maxText = MaxText
	}
	if prepares, ok := t.(Preparer); ok {
		if err := prepares.Prepare(ctx); err != nil {
			return failed(ctx, err)
		}
	}

	inner, clock := withClock(ctx, p.Timeout)
	defer clock.stop()
	var unanswered atomic.Pointer[error]
	if ask := call.Ask; ask != nil {
		call.Ask = func(ctx context.Context, q Question) (Answer, error) {
			clock.pause()
			defer clock.goOn()
			answer, err := ask(ctx, q)
			if err != nil {
				unanswered.CompareAndSwap(nil, &err)
			}
			return answer, err
		}
	}

	result, err := protected(inner, t, call)
	if noAnswer := unanswered.Load(); noAnswer != nil {
		return Result{}, *noAnswer
	}
	if (err != nil || result.Failed) && errors.Is(context.Cause(inner), errTimeout) {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if p.Writes || p.OnUnknown == Ask {
			return Result{}, fmt.Errorf("tool %s %w: no result within %s: %w", t.Spec().Name, ErrTimeout, p.Timeout, ErrUnknown)
		}
		result, err = timedOut(result, p.Timeout), nil
	}

	if err != nil {
		return Result{}, err
	}
	return within(result, maxText), nil
}

const maxSummary = 500

// within returns a result whose texts have at most so many bytes.
func within(result Result, maxText int) Result {
	result.Text = Cut(result.Text, maxText)
	result.Summary = Cut(result.Summary, maxSummary)
	if len(result.Data) > maxText {
		result.Data = nil
	}
	return result
}

// timedOut returns the result of a call that took too long, with what the tool said of it, if anything.
func timedOut(result Result, timeout time.Duration) Result {
	text := fmt.Sprintf("No result within %s.", timeout)
	if result.Text != "" {
		text += "\n" + result.Text
	}
	result.Text = text
	result.Failed, result.TimedOut = true, true
	return result
}

var errTimeout = errors.New("time-out of the tool")

// protected calls a tool. A panic is a failed result.
func protected(ctx context.Context, t Tool, call Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = Failure(fmt.Sprintf("The tool failed: %v", p)), nil
		}
	}()
	return t.Call(ctx, call)
}

// lookTimeout bounds what a tool whose policy has no time-out finds out before or after a call.
const lookTimeout = 30 * time.Second

func orDefault(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return lookTimeout
	}
	return timeout
}

// safely calls a function of a tool. A panic is an error.
func safely(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool failed: %v", p)
		}
	}()
	return call()
}

// failed returns how a call ended whose function returned an error.
func failed(ctx context.Context, err error) (Result, error) {
	if ctx.Err() != nil || errors.Is(err, ErrUnknown) {
		return Result{}, err
	}
	return Result{Text: err.Error(), Failed: true, Final: errors.Is(err, ErrChanged)}, nil
}

// clock ends a context after a time, in which pauses do not count.
type clock struct {
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	paused  int
	left    time.Duration
	started time.Time
	timer   *time.Timer // nil without a time-out
}

func withClock(ctx context.Context, limit time.Duration) (context.Context, *clock) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &clock{cancel: cancel, left: limit, started: time.Now()}
	if limit > 0 {
		c.timer = time.AfterFunc(limit, func() { cancel(errTimeout) })
	}
	return ctx, c
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.timer != nil && c.paused == 1 && c.timer.Stop() {
		c.left -= time.Since(c.started)
	}
}

func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.timer != nil && c.paused == 0 {
		c.started = time.Now()
		c.timer.Reset(max(c.left, 0))
	}
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = nil
	c.cancel(nil)
}
