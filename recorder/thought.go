package recorder

import (
	"cmp"
	"context"
	"slices"

	"github.com/actlog/actlog/record"
)

// ThoughtInfo is an entry of the reasoning log. What is left at its zero value is
// not told.
type ThoughtInfo struct {
	ID                string // default: a new one; with your own, a repeat adds no second entry
	Type              record.ThoughtType
	Content           string
	AgentID           string
	Role              string
	Iteration         *int64 // -1 for a fatal error
	RelatedOperations []string
	Confidence        *float64
}

// Thought adds an entry to the plan's reasoning log, at the step of the plan that
// ctx is in. An entry that is not taken is not kept: call again.
func (p *Plan) Thought(ctx context.Context, info ThoughtInfo) error {
	row := &record.Thought{
		RootPlanID:        p.link.RootPlanID,
		PlanID:            p.link.PlanID,
		ThoughtID:         cmp.Or(info.ID, record.NewThoughtID()),
		Rev:               new(p.t.rec.nextRev()),
		AgentID:           said(info.AgentID),
		Role:              said(info.Role),
		Iteration:         copied(info.Iteration),
		Type:              said(info.Type),
		Content:           said(info.Content),
		RelatedOperations: slices.Clone(info.RelatedOperations),
		Confidence:        copied(info.Confidence),
		Time:              new(p.t.rec.now()),
	}
	row.StepID, _ = p.where(ctx)
	return p.t.send(ctx, doing{"recording a thought of", p}, row)
}
