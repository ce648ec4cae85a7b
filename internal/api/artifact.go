package api

import (
	"encoding/json"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// artifactJSON is something that a plan produced. Every member is always there.
type artifactJSON struct {
	ID         int64           `json:"id"`
	RootPlanID string          `json:"rootPlanId"`
	PlanID     string          `json:"planId"`
	Name       string          `json:"name"`
	StepID     *string         `json:"stepId"`
	ToolCallID *string         `json:"toolCallId"`
	Type       *string         `json:"type"`
	Value      json.RawMessage `json:"value"`
	Truncated  []string        `json:"truncated"`
}

func toArtifact(it *store.Item[record.Artifact]) artifactJSON {
	r := &it.Record
	return artifactJSON{
		ID: it.ID, RootPlanID: r.RootPlanID, PlanID: r.PlanID, Name: r.Name, StepID: r.StepID, ToolCallID: r.ToolCallID, Type: r.Type,
		Value: orNull(r.Value), Truncated: orEmpty(it.Truncated),
	}
}

func (s *Server) listArtifacts(c echo.Context) error {
	ctx := c.Request().Context()
	return besidePlan(c, "artifacts", func(planID string, after store.Position, limit int) ([]store.Item[record.Artifact], bool, error) {
		return s.store.Artifacts(ctx, planID, after, limit)
	}, toArtifact)
}
