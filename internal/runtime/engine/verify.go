package engine

import (
	"context"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// unknownText is what a model reads of a call whose outcome nobody can tell.
const unknownText = "The outcome of this call is unknown: it may have taken effect or not. Verify before you repeat it."

// verified returns the result of the call if its tool can say that it took effect. The error says that the tool could
// not look; it is a [tool.ErrUnknown] if nothing says whether the call took effect.
func (c *calling) verified(ctx context.Context) (result tool.Result, done bool, err error) {
	call := c.toolCall(nil)
	approved, err := c.approvedBefore(ctx)
	if err == nil {
		call.Approved = approved
		result, done, err = tool.Verify(c.startedBy(ctx), c.tool, c.policy, call)
	}
	if err != nil { // then nobody knows more than before
		c.step.run.engine.config.Logger.Warn("verify a call failed",
			"tool", c.call.Name, "toolCallId", c.row.ToolCallID, "err", c.step.run.redact(err.Error()))
		return tool.Result{}, false, err
	}

	return result, done, nil
}

// fail ends a call that did not work, unless its policy is to make it again. If it was made before by a worker that was
// lost, that one may have gone on for a while: then the call cannot work again because it took effect, and is over. If
// nobody can tell, its outcome stays unknown, whatever came of this attempt.
func (c *calling) fail(ctx context.Context, result tool.Result, kind string) (tool.Result, error) {
	if c.attempts(record.Unknown) == 0 {
		return c.endOrRetry(result, kind), nil
	}

	before, done, err := c.verified(ctx)
	switch {
	case done:
		return c.recordEnd(record.Completed, before, ""), nil
	case context.Cause(ctx) != nil:
		return tool.Result{}, context.Cause(ctx)
	case err != nil:
		result.Text = unknownText + " It was made again, which failed: " + result.Text
		return c.undecided(c.recordEnd(record.Unknown, result, kind))
	}
	return c.endOrRetry(result, kind), nil
}
