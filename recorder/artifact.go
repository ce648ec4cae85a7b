package recorder

import (
	"context"

	"github.com/actlog/actlog/record"
)

// ArtifactInfo is something that a plan produced, identified by its name. Fields with their zero
// value are not reported.
type ArtifactInfo struct {
	Name  string // at most [record.MaxIDBytes] bytes; the same name again updates
	Type  string
	Value any // recorded as its JSON; a string becomes a JSON string
}

// Artifact records something that the plan produced, at the step and tool call of the plan that
// ctx is in. A failed call is not repeated by a later one: call again.
func (p *Plan) Artifact(ctx context.Context, info ArtifactInfo) error {
	what := action{"record artifact " + info.Name + " of", p}
	value, encodeErr := jsonOf("value", info.Value)

	row := &record.Artifact{
		RootPlanID: p.link.RootPlanID,
		PlanID:     p.link.PlanID,
		Name:       info.Name,
		Rev:        new(p.rec.nextRev()),
		Type:       optional(info.Type),
		Value:      value,
	}
	row.StepID, row.ToolCallID = p.within(ctx)
	return withEncodeError(what, encodeErr, p.send(ctx, what, row))
}
