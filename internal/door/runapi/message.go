package runapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// messageJSON is what somebody said to a run at work.
type messageJSON struct {
	MessageID string     `json:"messageId"`
	PlanID    string     `json:"planId"`
	To        *string    `json:"to"`
	Text      string     `json:"text"`
	By        *string    `json:"by"`
	When      string     `json:"when"`
	State     string     `json:"state"`
	CreatedAt time.Time  `json:"createdAt"`
	ReadAt    *time.Time `json:"readAt"`
	StepID    *string    `json:"stepId"`
	Seq       *int64     `json:"seq"`
}

func toMessage(m runstore.Message) messageJSON {
	out := messageJSON{
		MessageID: m.MessageID, PlanID: m.PlanID, To: m.To, Text: m.Text, By: m.By, When: engine.WhenNext, State: m.State,
		CreatedAt: m.CreatedAt, ReadAt: m.ReadAt, StepID: m.StepID, Seq: m.Seq,
	}
	if m.Interrupts {
		out.When = engine.WhenInterrupt
	}
	return out
}

// say says something to a run at work.
func (s *Server) say(c echo.Context) error {
	asked, o, err := s.askedAgain(c, "text", "to", "when", "by")
	if err != nil {
		return err
	}
	r := engine.SayRequest{
		PlanID: asked.planID, Text: o.text("text", maxBodyBytes), To: o.id("to"), When: o.id("when"), By: asked.by,
		IdempotencyKey: asked.key, Body: asked.body,
	}
	if o.err != nil {
		return refused(o.err)
	}

	m, err := s.Say(c.Request().Context(), r)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, toMessage(m))
}

// Say says something to a run at work, as POST /api/v1/runs/{planId}/messages does. The error is as there.
func (s *Server) Say(ctx context.Context, r engine.SayRequest) (runstore.Message, error) {
	m, err := s.starter.Say(ctx, r)
	for _, conflict := range []error{runstore.ErrEnded, runstore.ErrManyUnread} {
		if errors.Is(err, conflict) {
			return m, httpd.Refused(http.StatusConflict, conflict.Error())
		}
	}
	if errors.Is(err, runstore.ErrKeyUsed) {
		err = invalid(idempotencyHeader, runstore.ErrKeyUsed.Error())
	}
	return m, refused(err)
}

const messagesList = "messages"

type messageListJSON struct {
	Items      []messageJSON `json:"items"`
	NextCursor *string       `json:"nextCursor"`
}

// messages serves what was said to a run and to the runs below it, oldest first.
func (s *Server) messages(c echo.Context) error {
	q := httpd.QueryOf(c, "limit", "cursor")
	id, limit := q.ID("planId"), q.Limit()
	after := q.Cursor(messagesList)
	if q.Err != nil {
		return q.Err
	}
	last := ""
	if after != nil {
		last = after.ID
	}

	found, err := s.reader(c).SaidTo(c.Request().Context(), id, last, limit+1) // one more shows if there is a next page
	if err != nil {
		return err
	}

	out := messageListJSON{Items: make([]messageJSON, min(len(found), limit))}
	for i := range out.Items {
		out.Items[i] = toMessage(found[i])
	}
	if len(found) > limit {
		end := found[limit-1]
		out.NextCursor = new(httpd.Cursor{Time: end.CreatedAt, ID: end.MessageID}.Format(messagesList))
	}
	return c.JSON(http.StatusOK, out)
}
