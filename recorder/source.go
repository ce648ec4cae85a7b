package recorder

import (
	"cmp"
	"context"

	"github.com/actlog/actlog/record"
)

// SourceInfo is a reference to something that an agent read and relied on. Fields with their zero
// value are not reported.
type SourceInfo struct {
	ID                 string // default: a new one; with your own, a repeat adds no second one
	URI                string
	Type               record.SourceType
	LineStart, LineEnd int64 // from 1, inclusive
	Snippet            string
	Description        string
	RelevanceScore     *float64       // 0 to 1
	Metadata           map[string]any // a JSON object
}

// Source records a reference, at the step and tool call of the plan that ctx is in. A failed call
// is not repeated by a later one: call again.
func (p *Plan) Source(ctx context.Context, info SourceInfo) error {
	what := action{"record a source of", p}
	metadata, encodeErr := metadataOf(info.Metadata)

	row := &record.Source{
		RootPlanID:     p.link.RootPlanID,
		PlanID:         p.link.PlanID,
		SourceID:       cmp.Or(info.ID, record.NewSourceID()),
		Rev:            new(p.rec.nextRev()),
		URI:            optional(info.URI),
		Type:           optional(info.Type),
		LineStart:      optional(info.LineStart),
		LineEnd:        optional(info.LineEnd),
		Snippet:        optional(info.Snippet),
		Description:    optional(info.Description),
		RelevanceScore: copied(info.RelevanceScore),
		Metadata:       metadata,
	}
	row.StepID, row.ToolCallID = p.within(ctx)
	return withEncodeError(what, encodeErr, p.send(ctx, what, row))
}
