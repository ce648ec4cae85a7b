package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// placeJSON is a row of a tree: a plan, a step, a cycle, a tool call or a wait.
type placeJSON struct {
	At    string       `json:"at"` // as in the addresses of the page
	Kind  record.Kind  `json:"kind"`
	Name  *string      `json:"name"`
	State record.State `json:"state"`
}

// reasonJSON is a place with what happened there, and when.
type reasonJSON struct {
	placeJSON
	ErrorKind    *string    `json:"errorKind"`
	ErrorMessage *string    `json:"errorMessage"`
	Text         *string    `json:"text"` // the line of the error that says what happened
	Tool         *string    `json:"tool"` // of a call, or of the call that asked
	StartTime    *time.Time `json:"startTime"`
	EndTime      *time.Time `json:"endTime"`
}

type failureJSON struct {
	reasonJSON
	Path []placeJSON `json:"path"`
}

// causeJSON is the row that explains the state of a run.
type causeJSON struct {
	reasonJSON
	Recovered bool `json:"recovered"`
}

// causeOf returns what a run asks a human, else the cause of its failure; nil: there is neither.
func causeOf(p *store.PlanSummary) *causeJSON {
	var r outline.Row
	var c causeJSON
	switch {
	case p.Asks != nil:
		r.Wait = p.Asks
		c.StartTime = p.Asks.StartTime
		c.Tool = p.AskingTool
		r.At, _ = outline.AtOf(p.Asks)
	case p.Failure != nil:
		r.Node = p.Failure.Node()
		c.Recovered = p.Recovered
		r.At, _ = outline.AtOf(r.Record())
		c.reasonJSON = reasonOf(&r, p.Failure)
		return &c
	default:
		return nil
	}

	c.placeJSON = placeOf(&r)
	return &c
}

// reasonOf returns a row with what went wrong there.
func reasonOf(r *outline.Row, f *tree.Failure) reasonJSON {
	reason := reasonJSON{
		placeJSON: placeOf(r), ErrorKind: f.Kind, ErrorMessage: f.Message, Tool: f.Tool, Text: optional.Pointer(f.Text()),
	}
	reason.StartTime, reason.EndTime = r.Times()
	return reason
}

// listFailures lists what failed in a plan and below it, the cause first.
func (s *Server) listFailures(c echo.Context) error {
	q := httpd.QueryOf(c, "root")
	id, root := q.ID("planId"), q.Text("root")
	if q.Err != nil {
		return q.Err
	}

	o, err := s.lookup.Run(c, root, id)
	if err != nil {
		return err
	}

	out := struct {
		PlanID     string        `json:"planId"`
		RootPlanID string        `json:"rootPlanId"`
		Recovered  bool          `json:"recovered"`
		Cause      *string       `json:"cause"` // its address, which may be that of an open question
		Items      []failureJSON `json:"items"`
	}{
		o.Plan.Record.CurrentPlanID, o.Plan.Record.RootPlanID, o.Found.Recovered, nil,
		make([]failureJSON, 0, len(o.Failures)),
	}
	if o.Cause >= 0 {
		out.Cause = &o.Rows[o.Cause].At
	}

	for i, at := range o.Failures {
		r := &o.Rows[at]
		f := failureJSON{reasonJSON: reasonOf(r, &o.Found.Failures[i]), Path: []placeJSON{}}
		for _, above := range o.Path(r.Parent) {
			f.Path = append(f.Path, placeOf(&o.Rows[above]))
		}
		out.Items = append(out.Items, f)
	}
	return sendJSON(c, http.StatusOK, out)
}

func placeOf(r *outline.Row) placeJSON {
	return placeJSON{At: r.At, Kind: r.Key().Kind, Name: optional.Pointer(r.Name()), State: r.State()}
}
