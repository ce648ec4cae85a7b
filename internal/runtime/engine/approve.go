package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// maxAction bounds what a human reads of what the step is asked to do, in bytes.
const maxAction = 2 << 10

// unapprovableError says that nobody can approve a call, because it cannot work.
type unapprovableError struct{ why string }

func (e *unapprovableError) Error() string { return e.why }

// shown returns what a human sees of the call. What a human was shown once stays: the approval is for that, and the
// tool learns its digest.
func (c *calling) shown(ctx context.Context, asked *record.Wait) (about, error) {
	if before := shownIn(asked); before.Preview != nil {
		return before, nil
	}
	return c.foresee(ctx)
}

// foresee asks the tool what the call would do. The error is an [unapprovableError] if the tool says that it cannot
// work.
func (c *calling) foresee(ctx context.Context) (a about, err error) {
	ctx = c.startedBy(ctx)
	preview, can, err := tool.PreviewOf(ctx, c.tool, c.policy, c.toolCall(nil))
	if cause := context.Cause(ctx); cause != nil {
		return about{}, cause
	} else if err != nil {
		return about{}, &unapprovableError{err.Error()}
	}

	if can {
		preview.Text = c.step.run.redact(preview.Text)
		a.Preview = &preview
	}

	if known, ok := c.tool.(tool.Toucher); ok {
		a.Files, err = known.Touches(ctx, c.toolCall(nil))
	}
	if cause := context.Cause(ctx); cause != nil {
		return about{}, cause
	} else if err != nil {
		return about{}, &unapprovableError{"The call cannot be approved: " + err.Error()}
	}

	for i := range a.Files {
		a.Files[i] = c.step.run.redact(a.Files[i])
	}
	slices.Sort(a.Files)
	return a, nil
}

// approve asks a human to approve the call. refused reports that it is not made.
func (c *calling) approve(ctx context.Context) (result tool.Result, refused bool, err error) {
	if err := c.step.run.goesOn(ctx); err != nil {
		return tool.Result{}, true, err
	}
	key, asked, err := c.approval(ctx)
	if err != nil || len(c.past) > 0 && c.approves(asked) { // what was approved has failed, and is made again
		c.approved = digestOf(shownIn(asked))
		return tool.Result{}, err != nil, err
	}

	a, err := c.shown(ctx, asked)
	if cannot, ok := errors.AsType[*unapprovableError](err); ok {
		result, err = c.fail(ctx, tool.Result{Text: cannot.why, Failed: true, Final: true}, "tool")
		return result, true, err
	}
	if err != nil {
		return tool.Result{}, true, err
	}

	subject := c.subject(a)
	if len(subject) > record.MaxTextBytes {
		result = c.recordEnd(record.Failed,
			tool.Failure("The call is too long to be approved: nobody could see all of it."), "tool")
		return result, true, nil
	}

	waits := c.change(record.AwaitingApproval)
	answer, err := c.step.run.ask(ctx, key, WaitInfo{
		Type: record.WaitActionValidation, Title: "May " + c.call.Name + " run?",
		Description: tool.Cut(c.step.info.Request, maxAction), Subject: subject,
		StepID: c.step.id, ToolCallID: c.row.ToolCallID, Timeout: c.policy.WaitTimeout,
	}, waits)
	switch {
	case err != nil:
		return tool.Result{}, true, err
	case answer.State == record.Approved:
		c.approved = digestOf(a)
		return tool.Result{}, false, nil
	}

	text := "A human rejected this call. It was not made."
	if answer.Text != "" {
		text += " They say: " + c.step.run.redact(answer.Text)
	}
	kind := ""
	if answer.State == record.TimedOut {
		text, kind = "Nobody approved this call in time. It was not made.", WaitTimedOut
	}

	return c.recordEnd(record.Skipped, tool.Failure(text), kind), true, nil
}
