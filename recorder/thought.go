package recorder

import (
	"cmp"
	"context"
	"slices"

	"github.com/actlog/actlog/record"
)

// ThoughtInfo is an entry of the reasoning log. Fields with their zero value are not reported.
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

// Thought adds an entry to the plan's reasoning log, at the step of the plan that ctx is in. A
// failed call is not repeated by a later one: call again.
func (p *Plan) Thought(ctx context.Context, info ThoughtInfo) error {
	row := &record.Thought{
		RootPlanID:        p.link.RootPlanID,
		PlanID:            p.link.PlanID,
		ThoughtID:         cmp.Or(info.ID, record.NewThoughtID()),
		Rev:               new(p.rec.nextRev()),
		AgentID:           optional(info.AgentID),
		Role:              optional(info.Role),
		Iteration:         copied(info.Iteration),
		Type:              optional(info.Type),
		Content:           optional(info.Content),
		RelatedOperations: slices.Clone(info.RelatedOperations),
		Confidence:        copied(info.Confidence),
		Time:              new(p.rec.now()),
	}

	row.StepID, _ = p.within(ctx)
	return p.send(ctx, action{"record a thought of", p}, row)
}
