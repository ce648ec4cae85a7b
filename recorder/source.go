package recorder

import (
	"cmp"
	"context"

	"github.com/actlog/actlog/record"
)

// SourceInfo is a reference to something that an agent read and relied on. What
// is left at its zero value is not told.
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

// Source records a reference, at the step and tool call of the plan that ctx is
// in. One that is not taken is not kept: call again.
func (p *Plan) Source(ctx context.Context, info SourceInfo) error {
	what := doing{"recording a source of", p}
	metadata, unencoded := metadataOf(info.Metadata)
	row := &record.Source{
		RootPlanID:     p.link.RootPlanID,
		PlanID:         p.link.PlanID,
		SourceID:       cmp.Or(info.ID, record.NewSourceID()),
		Rev:            new(p.t.rec.nextRev()),
		URI:            said(info.URI),
		Type:           said(info.Type),
		LineStart:      said(info.LineStart),
		LineEnd:        said(info.LineEnd),
		Snippet:        said(info.Snippet),
		Description:    said(info.Description),
		RelevanceScore: copied(info.RelevanceScore),
		Metadata:       metadata,
	}
	row.StepID, row.ToolCallID = p.where(ctx)
	return withUnencoded(what, unencoded, p.t.send(ctx, what, row))
}
