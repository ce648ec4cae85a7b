package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/outline"
	"github.com/actlog/actlog/record"
)

// placeJSON is a row of a tree: a plan, a step, a cycle, a tool call or a wait.
type placeJSON struct {
	At    string       `json:"at"` // as in the addresses of the page
	Kind  record.Kind  `json:"kind"`
	Name  *string      `json:"name"`
	State record.State `json:"state"`
}

type failureJSON struct {
	placeJSON
	ErrorKind    *string     `json:"errorKind"`
	ErrorMessage *string     `json:"errorMessage"`
	StartTime    *time.Time  `json:"startTime"`
	EndTime      *time.Time  `json:"endTime"`
	Path         []placeJSON `json:"path"`
}

// listFailures lists what failed by itself in a plan and below it, the cause first.
func (s *Server) listFailures(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}
	q := httpd.QueryOf(c, "root")
	root := q.Text("root")
	if q.Err != nil {
		return q.Err
	}
	plan, err := s.reader(c).Skeleton(c.Request().Context(), root, id)
	if err != nil {
		return err
	}
	o := outline.Of(plan)
	out := struct {
		PlanID     string        `json:"planId"`
		RootPlanID string        `json:"rootPlanId"`
		Recovered  bool          `json:"recovered"`
		Items      []failureJSON `json:"items"`
	}{plan.Record.CurrentPlanID, plan.Record.RootPlanID, o.Recovered, make([]failureJSON, 0, len(o.Failures))}
	for _, at := range o.Failures {
		r := &o.Rows[at]
		f := failureJSON{placeJSON: placeOf(r), Path: []placeJSON{}}
		f.ErrorKind, f.ErrorMessage = r.Error()
		f.StartTime, f.EndTime = r.Times()
		for _, above := range o.Path(r.Parent) {
			f.Path = append(f.Path, placeOf(&o.Rows[above]))
		}
		out.Items = append(out.Items, f)
	}
	return sendJSON(c, http.StatusOK, out)
}

func placeOf(r *outline.Row) placeJSON {
	p := placeJSON{At: r.At, State: r.State()}
	switch {
	case r.Wait != nil:
		p.Kind = record.KindWait
	case r.Plan != nil:
		p.Kind = record.KindPlan
	case r.Step != nil:
		p.Kind = record.KindAgentExecution
	case r.Cycle != nil:
		p.Kind = record.KindThinkAct
	case r.Call != nil:
		p.Kind = record.KindActTool
	}
	if name := r.Name(); name != "" {
		p.Name = &name
	}
	return p
}
