package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/actlog/actlog/record"
)

// shownBefore returns what a human was shown of the call, as it is on record; nothing if there was no preview.
func (c *calling) shownBefore(ctx context.Context, key string) (before about, err error) {
	_, row, err := c.step.run.findWait(ctx, key, nil)
	if row == nil {
		return about{}, err
	}
	_ = json.Unmarshal(row.Subject, &before) // if it was cut, it has no preview
	return before, nil
}

// approvedBefore returns the digest of what a human approved for the attempt that the call is at, if anything. That
// the call was made says that it was approved.
func (c *calling) approvedBefore(ctx context.Context) (string, error) {
	before, err := c.shownBefore(ctx, c.approvalKey())
	if err != nil || before.Preview == nil {
		return "", err
	}
	return before.Preview.Digest, nil
}

// approvalKey is the key of the question whether the call may be made.
func (c *calling) approvalKey() string {
	return fmt.Sprint("approve-", c.row.ToolCallID, "-", c.sinceApproval())
}

// sinceApproval returns the attempt that a human approves: the first one, or that after the last one whose outcome is
// unknown. The approval is also for those that are made again because they failed.
func (c *calling) sinceApproval() int64 {
	for _, a := range slices.Backward(c.past) {
		if a.State != record.Failed {
			return a.Number + 1
		}
	}
	return 1
}
