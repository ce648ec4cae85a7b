package api

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// thoughtJSON is an entry of the reasoning log. Every member is always there.
type thoughtJSON struct {
	ID                int64               `json:"id"`
	RootPlanID        string              `json:"rootPlanId"`
	PlanID            string              `json:"planId"`
	ThoughtID         string              `json:"thoughtId"`
	StepID            *string             `json:"stepId"`
	AgentID           *string             `json:"agentId"`
	Role              *string             `json:"role"`
	Iteration         *int64              `json:"iteration"`
	Type              *record.ThoughtType `json:"type"`
	Content           *string             `json:"content"`
	RelatedOperations []string            `json:"relatedOperations"`
	Confidence        *float64            `json:"confidence"`
	Time              *time.Time          `json:"time"`
	Truncated         []string            `json:"truncated"`
}

func toThought(it *store.Item[record.Thought]) thoughtJSON {
	r := &it.Record
	return thoughtJSON{
		ID: it.ID, RootPlanID: r.RootPlanID, PlanID: r.PlanID, ThoughtID: r.ThoughtID, StepID: r.StepID, AgentID: r.AgentID, Role: r.Role,
		Iteration: r.Iteration, Type: r.Type, Content: r.Content, RelatedOperations: orEmpty(r.RelatedOperations), Confidence: r.Confidence,
		Time: r.Time, Truncated: orEmpty(it.Truncated),
	}
}

func (s *Server) listThoughts(c echo.Context) error {
	ctx := c.Request().Context()
	return besidePlan(c, "thoughts", func(planID string, after store.Position, limit int) ([]store.Item[record.Thought], bool, error) {
		return s.store.Thoughts(ctx, planID, after, limit)
	}, toThought)
}
