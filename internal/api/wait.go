package api

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// waitItemJSON is a wait for a human, over or not. Every member is always there.
type waitItemJSON struct {
	ID              int64           `json:"id"`
	RootPlanID      string          `json:"rootPlanId"`
	PlanID          string          `json:"planId"`
	WaitID          string          `json:"waitId"`
	StepID          *string         `json:"stepId"`
	ToolCallID      *string         `json:"toolCallId"`
	Type            record.WaitType `json:"type"`
	Title           *string         `json:"title"`
	FormDescription *string         `json:"formDescription"`
	FormInputs      json.RawMessage `json:"formInputs"`
	State           record.State    `json:"state"`
	Decision        *string         `json:"decision"`
	DecidedBy       *string         `json:"decidedBy"`
	StartTime       *time.Time      `json:"startTime"`
	EndTime         *time.Time      `json:"endTime"`
	ExpiresAt       *time.Time      `json:"expiresAt"`
	Truncated       []string        `json:"truncated"`
}

func toWaitItem(it *store.Item[record.Wait]) waitItemJSON {
	r := &it.Record
	return waitItemJSON{
		ID: it.ID, RootPlanID: r.RootPlanID, PlanID: r.PlanID, WaitID: r.WaitID, StepID: r.StepID, ToolCallID: r.ToolCallID,
		Type: orDefault(r.Type, record.WaitUserInput), Title: r.Title, FormDescription: r.FormDescription, FormInputs: form(r.FormInputs),
		State: *r.State, Decision: r.Decision, DecidedBy: r.DecidedBy, StartTime: r.StartTime, EndTime: r.EndTime, ExpiresAt: r.ExpiresAt,
		Truncated: orEmpty(it.Truncated),
	}
}

// form gives the inputs of a form: none where none were told, and of one that was
// too long and was cut.
func form(inputs json.RawMessage) json.RawMessage {
	if !bytes.HasPrefix(inputs, []byte("[")) {
		return json.RawMessage("[]")
	}
	return compacted(inputs)
}

func (s *Server) listWaits(c echo.Context) error {
	ctx := c.Request().Context()
	return besidePlan(c, "waits", func(planID string, after store.Position, limit int) ([]store.Item[record.Wait], bool, error) {
		return s.store.Waits(ctx, planID, after, limit)
	}, toWaitItem)
}
