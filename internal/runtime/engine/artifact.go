package engine

import (
	"cmp"
	"encoding/json"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// newArtifact returns something that a plan produced, known by its name.
func newArtifact(parts Parts, rootPlanID, planID string, a tool.Artifact) *record.Artifact {
	return &record.Artifact{
		RootPlanID: rootPlanID, PlanID: planID, Name: a.Name, Type: new(cmp.Or(a.Type, "generic")),
		Value: json.RawMessage(parts.Redact(string(a.Value))),
	}
}
