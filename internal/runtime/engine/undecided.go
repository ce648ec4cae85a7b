package engine

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// UndecidedError says that nobody can say whether a call took effect, and that whoever made it has to decide what
// follows.
type UndecidedError struct{ call *calling }

func (e *UndecidedError) Error() string { return optional.Value(e.call.row.Result) }

// Ask asks a human what became of the call. The error says that the run waits; or it is a [*RunError], because nobody
// answered in time. Once there is an answer, the call that is made again obeys it.
func (e *UndecidedError) Ask(ctx context.Context) error {
	c := e.call
	answer, err := c.step.run.Ask(ctx, c.unknownKey(), c.unknownQuestion())
	if err != nil {
		return err
	}
	if answer.State == record.TimedOut {
		return Fail(WaitTimedOut, "Nobody said in time what became of the call of %s.", c.call.Name)
	}
	return &parkedError{until: c.step.run.now()} // it was answered a moment ago
}

// GoOn ends the step of the call: the code goes on without it.
func (e *UndecidedError) GoOn() {
	e.call.step.End("", &RunError{Kind: optional.Value(e.call.row.ErrorKind), Message: e.Error(), State: record.Unknown})
}

// unknownKey is the key of the question what became of the attempt that the call is at.
func (c *calling) unknownKey() string {
	return fmt.Sprint("unknown-", c.row.ToolCallID, "-", c.number())
}

func (c *calling) unknownQuestion() WaitInfo {
	return WaitInfo{
		Type: record.WaitActionValidation,
		Title: fmt.Sprintf("Nobody can say whether %s took effect. Did it, or should it be tried again, or skipped?",
			c.call.Name),
		Subject: c.subject(about{Decisions: []string{"done", "retry", "skip"}}), StepID: c.step.id,
		ToolCallID: c.row.ToolCallID, Timeout: c.policy.WaitTimeout,
	}
}

// again is the decision that a call whose outcome is unknown is made again.
const again = "retry"

// obey ends a call whose attempt was lost as a human decided. decided reports that they did, and that it is not to be
// made again.
func (c *calling) obey(lost *record.ActTool, a Answer) (result tool.Result, decided bool) {
	switch a.Decision {
	case "done":
		const confirmed = "A human confirmed that this call took effect. Its output is lost."
		result = tool.Result{Text: confirmed}
		if c.t.Undecided { // code reads the text as the output
			result = tool.Result{Summary: confirmed}
		}
		return c.endInNewAttempt(lost, record.Completed, result, ""), true
	case "skip":
		result = tool.Failure("A human decided to skip this call. It may have taken effect once.")
		return c.endInNewAttempt(lost, record.Skipped, result, ""), true
	}
	return tool.Result{}, false
}

// undecided returns the result of a call whose outcome is unknown, for a model; or for code, which has to decide.
func (c *calling) undecided(result tool.Result) (tool.Result, error) {
	if c.t.Undecided {
		return tool.Result{}, &UndecidedError{call: c}
	}
	return result, nil
}

// isUndecided reports whether the code was told before that the outcome of the call is unknown.
func (c *calling) isUndecided() bool {
	return c.t.Undecided && *c.row.State == record.Unknown && c.hasResult()
}

// decided does what a human decided meanwhile about an undecided call. Without a decision it stays undecided. done
// reports that it is not made again.
func (c *calling) decided(ctx context.Context) (result tool.Result, done bool, err error) {
	_, row, err := c.step.run.findWait(ctx, c.unknownKey(), nil)
	if err != nil {
		return tool.Result{}, true, err
	}
	var answer Answer
	if row != nil {
		answer.Decision = optional.Value(row.Decision)
	}

	if result, decided := c.obey(c.asItEnded(), answer); decided {
		return result, true, nil
	}
	if answer.Decision == again {
		c.step.run.addLater(c.nextAttempt(c.asItEnded()))
		return tool.Result{}, false, nil
	}
	return tool.Result{}, true, &UndecidedError{call: c}
}
