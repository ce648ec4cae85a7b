package runapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// waitJSON is what a run waits for: a form, or a decision about a subject, whose members stand here.
type waitJSON struct {
	WaitID          string            `json:"waitId"`
	Type            record.WaitType   `json:"type"`
	Title           *string           `json:"title"`
	State           record.State      `json:"state"`
	FormDescription *string           `json:"formDescription"`
	FormInputs      []json.RawMessage `json:"formInputs"`
	Decisions       []string          `json:"decisions"`
	Name            *string           `json:"name"`
	Parameters      json.RawMessage   `json:"parameters"`
	Files           []string          `json:"files"`
	Preview         *decision.Preview `json:"preview"`
	Plan            json.RawMessage   `json:"plan"`
	AskedAt         *time.Time        `json:"askedAt"`
	ExpiresAt       *time.Time        `json:"expiresAt"`
	PlanID          string            `json:"planId"`
	StepID          *string           `json:"stepId"`
	ToolCallID      *string           `json:"toolCallId"`
	Decision        *string           `json:"decision"`
	DecisionText    *string           `json:"decisionText"`
	DecidedBy       *string           `json:"decidedBy"` // as the server knows them
	By              *string           `json:"by"`        // as they say
}

func toWait(w *record.Wait) waitJSON {
	out := waitJSON{
		WaitID: w.WaitID, Type: *cmp.Or(w.Type, new(record.WaitUserInput)), Title: w.Title,
		State: *cmp.Or(w.State, new(record.Waiting)), FormDescription: w.FormDescription,
		Decisions: decision.Decisions(w), AskedAt: w.StartTime, ExpiresAt: w.ExpiresAt, PlanID: w.PlanID, StepID: w.StepID,
		ToolCallID: w.ToolCallID,
		Decision:   w.Decision, DecisionText: w.DecisionText, DecidedBy: w.DecidedBy, By: w.By,
	}

	_ = json.Unmarshal(w.FormInputs, &out.FormInputs) // one that was cut is no list
	out.FormInputs = orEmpty(out.FormInputs)

	subject := decision.SubjectOf(w)
	out.Name, out.Parameters = subject.Name, subject.Parameters
	out.Files, out.Plan = orEmpty(subject.Files), subject.Plan
	out.Preview = subject.Preview
	return out
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// decide writes what a human decided about a wait of a run, or of a run below it.
func (s *Server) decide(c echo.Context) error {
	q := httpd.QueryOf(c)
	waitID, planID := q.ID("waitId"), q.ID("planId")
	if q.Err != nil {
		return q.Err
	}

	_, m, err := s.readBody(c)
	if err != nil {
		return err
	}

	o := objectOf(m, "", "decision", "values", "text", "by")
	d := decision.Decision{
		Decision: o.text("decision", maxBodyBytes), Values: o.object("values"), Text: o.text("text", maxBodyBytes),
		By: httpd.KeyOf(c), Claim: o.id("by"),
	}
	switch {
	case o.err != nil:
		return refused(o.err)
	case d.Decision == "":
		return refused(missing("decision"))
	}

	var decided *record.Wait
	key, err := s.reader(c).RunWait(c.Request().Context(), planID, waitID)
	if err == nil {
		decided, err = s.decideAt(c, key, func(*record.Wait) (decision.Decision, error) { return d, nil })
	}
	if errors.Is(err, runstore.ErrDecided) {
		return httpd.Refused(http.StatusConflict, runstore.ErrDecided.Error())
	}
	if err != nil {
		return refused(err)
	}

	return c.JSON(http.StatusOK, toWait(decided))
}

// decideAt writes a decision about a wait, and returns the wait. The error is that of [runs.Decide].
func (s *Server) decideAt(
	c echo.Context, key record.Key, with func(*record.Wait) (decision.Decision, error),
) (*record.Wait, error) {
	ctx := c.Request().Context()
	err := runs.Decide(ctx, s.store, key, func(w *record.Wait) (decision.Decision, error) {
		d, err := with(w)
		d.Redact = s.config.Redact
		return d, err
	})
	if errors.Is(err, runstore.ErrSelfApproval) {
		return nil, httpd.Refused(http.StatusForbidden, runstore.ErrSelfApproval.Error())
	}
	if err != nil {
		return nil, err
	}

	row, err := s.reader(c).Row(ctx, key)
	if err != nil {
		return nil, err
	}
	return row.(*record.Wait), nil
}
