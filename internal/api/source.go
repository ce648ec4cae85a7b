package api

import (
	"encoding/json"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// sourceJSON is something that an agent relied on. Every member is always there.
type sourceJSON struct {
	ID             int64              `json:"id"`
	RootPlanID     string             `json:"rootPlanId"`
	PlanID         string             `json:"planId"`
	SourceID       string             `json:"sourceId"`
	StepID         *string            `json:"stepId"`
	ToolCallID     *string            `json:"toolCallId"`
	URI            *string            `json:"uri"`
	Type           *record.SourceType `json:"type"`
	LineStart      *int64             `json:"lineStart"`
	LineEnd        *int64             `json:"lineEnd"`
	Snippet        *string            `json:"snippet"`
	Description    *string            `json:"description"`
	RelevanceScore *float64           `json:"relevanceScore"`
	Metadata       json.RawMessage    `json:"metadata"`
	Truncated      []string           `json:"truncated"`
}

func toSource(it *store.Item[record.Source]) sourceJSON {
	r := &it.Record
	return sourceJSON{
		ID: it.ID, RootPlanID: r.RootPlanID, PlanID: r.PlanID, SourceID: r.SourceID, StepID: r.StepID, ToolCallID: r.ToolCallID, URI: r.URI,
		Type: r.Type, LineStart: r.LineStart, LineEnd: r.LineEnd, Snippet: r.Snippet, Description: r.Description,
		RelevanceScore: r.RelevanceScore, Metadata: orNull(r.Metadata), Truncated: orEmpty(it.Truncated),
	}
}

func (s *Server) listSources(c echo.Context) error {
	ctx := c.Request().Context()
	return besidePlan(c, "sources", func(planID string, after store.Position, limit int) ([]store.Item[record.Source], bool, error) {
		return s.store.Sources(ctx, planID, after, limit)
	}, toSource)
}
