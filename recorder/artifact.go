package recorder

import (
	"context"

	"github.com/actlog/actlog/record"
)

// ArtifactInfo is something that a plan produced, known by its name. What is left
// at its zero value is not told.
type ArtifactInfo struct {
	Name  string // at most [record.MaxIDBytes] bytes; the same name again updates
	Type  string
	Value any // told as its JSON; a string becomes a JSON string
}

// Artifact records something that the plan produced, at the step and tool call of
// the plan that ctx is in. One that is not taken is not kept: call again.
func (p *Plan) Artifact(ctx context.Context, info ArtifactInfo) error {
	what := doing{"recording artifact " + info.Name + " of", p}
	value, unencoded := jsonOf("value", info.Value)
	row := &record.Artifact{
		RootPlanID: p.link.RootPlanID,
		PlanID:     p.link.PlanID,
		Name:       info.Name,
		Rev:        new(p.t.rec.nextRev()),
		Type:       said(info.Type),
		Value:      value,
	}
	row.StepID, row.ToolCallID = p.where(ctx)
	return withUnencoded(what, unencoded, p.t.send(ctx, what, row))
}
