package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

const (
	// maxWaitFor bounds how long the tool waits, if it is told how long.
	maxWaitFor = 10 * 365 * 24 * time.Hour

	noEventText = `{"timedOut": true}`
)

type waitForArguments struct {
	Event   string   `json:"event,omitempty" jsonschema:"The key of the event to wait for, such as paid:17"`
	Seconds *float64 `json:"seconds,omitempty" jsonschema:"How many seconds to wait at most; with no event, how long to sleep. Without it, the wait for the event has no end"`
}

// waitFor waits for an event, or for some time. Its function never runs: the run itself carries it, and lets go of its
// worker meanwhile.
type waitFor struct{ tool.Tool }

func newWaitFor() tool.Tool {
	return waitFor{tool.Func(define.WaitForTool,
		"Waits until an event is sent, some seconds are over, or whichever comes first. The result is the data of the event "+
			"as JSON, or "+noEventText+". An event that was sent in the last 24 hours, and that you did not get yet, counts.",
		func(context.Context, waitForArguments) (string, error) {
			return "", errors.New("to wait needs a run")
		})}
}

// CheckArguments implements [tool.ArgumentChecker].
func (waitFor) CheckArguments(arguments json.RawMessage) error {
	_, err := readWaitFor(arguments)
	return err
}

func readWaitFor(arguments json.RawMessage) (args waitForArguments, err error) {
	if err := tool.Decode(arguments, &args); err != nil {
		return args, err
	}

	switch {
	case args.Event == "" && args.Seconds == nil:
		return args, errors.New("event or seconds: one of them is required")
	case args.Event != "":
		err = checkEventKey("event", args.Event)
	}
	if s := args.Seconds; err == nil && s != nil && (*s < 0 || *s > maxWaitFor.Seconds()) {
		err = fmt.Errorf("seconds: must be from 0 to %.0f", maxWaitFor.Seconds())
	}
	return args, err
}

// callInRun waits. That the call waits is on record before it is looked for events, so none is missed; a call takes its
// event and ends in one transaction.
func (waitFor) callInRun(ctx context.Context, c *calling) (tool.Result, error) {
	r := c.step.run
	args, err := readWaitFor(json.RawMessage(c.call.Arguments))
	if err != nil {
		return c.recordEnd(record.Failed, tool.BadArguments(err), "tool"), nil
	}

	if *c.row.State != record.Waiting {
		if err := c.beginWait(ctx, args); err != nil {
			return tool.Result{}, err
		}
	}
	until := args.until(*c.row.StartTime)

	if args.Event != "" || !r.now().Before(until) {
		if result, over, err := c.endWait(args); over || err != nil {
			return result, err
		}
	}
	return tool.Result{}, &parkedError{until: until, waiting: true}
}

// until returns when a wait ends that began at a time; zero: it has no end.
func (args waitForArguments) until(began time.Time) time.Time {
	if args.Seconds == nil {
		return time.Time{}
	}
	return began.Add(time.Duration(*args.Seconds * float64(time.Second)))
}

// beginWait puts on record that the call waits.
func (c *calling) beginWait(ctx context.Context, args waitForArguments) error {
	r := c.step.run
	if err := r.goesOn(ctx); err != nil {
		return err
	}

	waits := c.change(record.Waiting)
	waits.StartTime = new(r.now().Truncate(time.Microsecond)) // as it is read again
	wait := runstore.AwaitEvent(c.row.ToolCallID, r.redact(args.Event), args.until(*waits.StartTime))
	if err := r.write([]record.Change{waits}, append(r.fits(), runstore.GoesOn(), wait)...); err != nil {
		return err
	}

	r.noteFits()
	c.keep(waits)
	return nil
}

// endWait ends the call, if its event was sent or its time is over.
func (c *calling) endWait(args waitForArguments) (result tool.Result, over bool, err error) {
	var end *record.ActTool
	take := func(over bool, data json.RawMessage) []record.Change {
		if end = nil; !over {
			return nil
		}
		end = c.endOfWait(args, data)
		return []record.Change{end}
	}

	ops := []runstore.RunOp{runstore.TakeEvent(c.row.ToolCallID, c.number(), take)}
	if c.step.run.suspect() > 0 { // the end of a call counts as a result, and so does that it waits
		ops = append(ops, runstore.Gain())
	}
	if err := c.step.run.write(nil, ops...); err != nil || end == nil {
		return tool.Result{}, false, err
	}

	c.keep(end)
	return resultOf(c.row), true, nil
}

// endOfWait returns the end of the call with the data of its event; nil: the time is over. To a model that is a result,
// too; for code the call has failed, so that a retry of its run waits again.
func (c *calling) endOfWait(args waitForArguments, data json.RawMessage) *record.ActTool {
	r := c.step.run
	end := c.change(record.Completed)
	end.StartTime, end.EndTime = c.row.StartTime, new(r.now())
	end.Result = new(r.redact(string(data)))
	if data != nil {
		return end
	}

	end.Result = new(noEventText)
	if c.t.Undecided && args.Event != "" {
		end.State, end.ErrorKind = new(record.Failed), new(WaitTimedOut)
		end.ErrorMessage = new("The event was not sent in time.")
	}
	return end
}
