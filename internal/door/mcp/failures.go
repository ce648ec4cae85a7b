package mcp

import (
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/view/words"
)

type failuresArguments struct {
	PlanID string `json:"planId" jsonschema:"the id of a run, or of a sub-plan"`
	Root   string `json:"root,omitempty" jsonschema:"the id of the root plan, if several runs have a plan of this id"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most failures to return"`
}

var failuresBounds = map[string]limits{"limit": {1, 50, 10}}

// failure is the cause, or a row that failed while nothing below it did.
type failure struct {
	place
	span
	Error string  `json:"error,omitempty"`
	Path  []place `json:"path"`
	// Texts are those of the cause.
	Texts []passage `json:"texts,omitempty"`
}

type listedFailures struct {
	PlanID     string    `json:"planId"`
	RootPlanID string    `json:"rootPlanId"`
	State      string    `json:"state"`
	Recovered  bool      `json:"recovered,omitempty"`
	Total      int       `json:"total"`
	Failures   []failure `json:"failures"`
	Note       string    `json:"note,omitempty"`
}

// causeChars is how much of each text of the cause is shown.
const causeChars = 2_000

// failures lists what failed in a run, the cause first, with its texts.
func (s *Server) failures(c echo.Context, in failuresArguments) (any, error) {
	o, err := s.outline(c, in.PlanID, in.Root)
	if err != nil {
		return nil, err
	}

	out := listedFailures{
		PlanID: o.Plan.Record.CurrentPlanID, RootPlanID: o.Plan.Record.RootPlanID, State: string(o.Rows[0].State()),
		Recovered: o.Found.Recovered,
		Total:     len(o.Failures), Failures: []failure{},
	}

	left := room(maxItems)
	for i, at := range o.Failures[:min(len(o.Failures), in.Limit)] {
		r := &o.Rows[at]
		f := failure{place: placeOf(r), span: spanOf(r), Path: pathTo(o, at), Error: errorLine(&o.Found.Failures[i])}
		if !left.take(f) {
			break
		}

		if i == 0 {
			row, err := s.lookup.Reader(c).Detail(c.Request().Context(), r.Key())
			if err != nil {
				return nil, err
			}
			f.Texts = textsOf(row, causeChars, &left)
		}
		out.Failures = append(out.Failures, f)
	}

	switch more := out.Total - len(out.Failures); {
	case out.Total == 0:
		out.Note = "Nothing failed in this run so far."
	case out.Recovered:
		out.Note = "The run went on after each failure: none of them explains how it ended. The first one comes first."
	case more > 0:
		out.Note = words.Plural(int64(more), "failure") + " more. read_run shows where, by failuresBelow."
	}
	return out, nil
}
