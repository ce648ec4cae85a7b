package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// maxPerRun is how many hits of a run a search may return at most, if it counts the others.
const maxPerRun = 500

type textHitJSON struct {
	RootPlanID string       `json:"rootPlanId"`
	Title      *string      `json:"title"`
	RunName    *string      `json:"runName"`
	Project    *string      `json:"project"`
	State      record.State `json:"state"`
	Began      time.Time    `json:"began"`
	At         string       `json:"at"`
	Kind       record.Kind  `json:"kind"`
	PlanID     *string      `json:"planId"`
	StepID     *string      `json:"stepId"`
	Seq        *int64       `json:"seq"`
	ToolCallID *string      `json:"toolCallId"`
	TextID     *string      `json:"textId"`
	Name       *string      `json:"name"`
	Field      string       `json:"field"`
	Before     string       `json:"before"`
	Match      string       `json:"match"`
	After      string       `json:"after"`
}

func textHit(h *store.TextHit) textHitJSON {
	hit := textHitJSON{
		RootPlanID: h.Run.RootPlanID, Title: h.Run.Title, RunName: h.Run.Name, Project: h.Run.Project, State: h.Run.State,
		Began: h.Run.BeganAt,
		At:    lookup.TextAt(h), Kind: h.Key.Kind, PlanID: optional.Pointer(h.PlanID), StepID: optional.Pointer(h.StepID),
		Name: optional.Pointer(h.Name), Field: h.Field, Before: h.Before, Match: h.Match, After: h.After,
	}

	switch h.Key.Kind {
	case record.KindThinkAct:
		hit.Seq = &h.Key.Seq
	case record.KindActTool:
		hit.Seq, hit.ToolCallID = &h.Key.Seq, &h.Key.ID
	case record.KindThought, record.KindArtifact, record.KindSource, record.KindWait:
		hit.TextID = &h.Key.ID
	}
	return hit
}

// searchTexts lists the texts of all runs that have what the query asks for.
func (s *Server) searchTexts(c echo.Context) error {
	q := httpd.QueryOf(c, append(lookup.SearchQuery, "perRun")...)
	page, err := s.lookup.SearchTexts(c, q, q.Number("perRun", 0, 1, maxPerRun))
	if err != nil {
		return err
	}

	out := textHitList{Items: make([]textHitJSON, 0, len(page.Hits)), Left: page.LeftOfRuns(), Incomplete: page.Incomplete}
	for i := range page.Hits {
		out.Items = append(out.Items, textHit(&page.Hits[i]))
	}
	if page.Next != nil {
		out.NextCursor, out.Reached = new(lookup.TextCursor(*page.Next)), &page.Next.BeganAt
	}
	return sendJSON(c, http.StatusOK, out)
}

type textHitList struct {
	Items      []textHitJSON      `json:"items"`
	Left       []lookup.LeftOfRun `json:"left"`
	NextCursor *string            `json:"nextCursor"`
	Incomplete bool               `json:"incomplete"`
	Reached    *time.Time         `json:"reached"`
}
