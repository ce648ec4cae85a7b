package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/actlog/actlog/record"
)

// approval returns the key of the question whether the call may be made, and the question as it is on record; nil: it
// is not there. What was approved for an attempt that failed is approved for those after it, if they are the same
// call.
func (c *calling) approval(ctx context.Context) (key string, w *record.Wait, err error) {
	for n := c.sinceApproval(); ; n = c.number() {
		key = fmt.Sprint("approve-", c.row.ToolCallID, "-", n)
		_, w, err = c.step.run.findWait(ctx, key, nil)
		if err != nil || n == c.number() || c.approves(w) {
			return key, w, err
		}
	}
}

// approves reports whether a human approved exactly this call.
func (c *calling) approves(w *record.Wait) bool {
	return w != nil && *w.State == record.Approved && isAbout(w, plainJSON(c.subject(shownIn(w))))
}

// shownIn returns what a human was shown of a call; nothing if there was no preview.
func shownIn(w *record.Wait) (a about) {
	if w != nil {
		_ = json.Unmarshal(w.Subject, &a) // if it was cut, it has no preview
	}
	return a
}

// approvedBefore returns the digest of what a human approved for the attempt that the call is at, if anything. That
// the call was made says that it was approved.
func (c *calling) approvedBefore(ctx context.Context) (string, error) {
	_, w, err := c.approval(ctx)
	return digestOf(shownIn(w)), err
}

// digestOf returns the digest of the preview that a human was shown; empty: there was none.
func digestOf(a about) string {
	if a.Preview == nil {
		return ""
	}
	return a.Preview.Digest
}

// sinceApproval returns the attempt that a human approves: the first one, or that after the last one whose outcome is
// unknown, or that was not made. The approval is also for those that are made again because they failed.
func (c *calling) sinceApproval() int64 {
	for _, a := range slices.Backward(c.past) {
		if a.State != record.Failed || a.StartTime == nil {
			return a.Number + 1
		}
	}
	return 1
}
