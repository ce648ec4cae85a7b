package mcp

import (
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
)

type runArguments struct {
	PlanID string `json:"planId" jsonschema:"the id of a run, or of a sub-plan"`
	Root   string `json:"root,omitempty" jsonschema:"the id of the root plan, if several runs have a plan of this id (alsoUnder)"`
	Under  string `json:"under,omitempty" jsonschema:"the address (at) of the row to begin with, instead of the whole run"`
	Depth  *int   `json:"depth,omitempty" jsonschema:"how many levels below the first row to list; without it, large runs are folded where nothing failed"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most rows to return"`
	Cursor string `json:"cursor,omitempty" jsonschema:"the nextCursor of the answer before, with the same arguments"`
}

var runBounds = map[string]limits{
	"under": {max: maxAddress}, "depth": {0, 100, 0}, "limit": {1, 500, 150}, "cursor": {max: 2 * maxAddress},
}

// runRow is a row in the outline of a run.
type runRow struct {
	place
	Depth int `json:"depth"`
	span
	figures
	Error string `json:"error,omitempty"`
	// Failure says which failure of the run this is: 1 is the cause. FailuresBelow are those under the row.
	Failure       int `json:"failure,omitempty"`
	FailuresBelow int `json:"failuresBelow,omitempty"`
	// NotListed is how many rows are under this one that are not listed.
	NotListed int `json:"notListed,omitempty"`
}

type readRun struct {
	PlanID         string     `json:"planId"`
	RootPlanID     string     `json:"rootPlanId"`
	AlsoUnder      []string   `json:"alsoUnder,omitempty"`
	State          string     `json:"state"`
	LastSignOfLife *time.Time `json:"lastSignOfLife,omitempty"`
	TotalRows      int        `json:"totalRows"`
	Failures       int        `json:"failures"`
	Recovered      bool       `json:"recovered,omitempty"`
	Cause          *cause     `json:"cause,omitempty"`
	Rows           []runRow   `json:"rows"`
	NextCursor     *string    `json:"nextCursor,omitempty"`
	Note           string     `json:"note,omitempty"`
}

const runCursors = "rows"

// readRun lists the rows of a run, or of a part of it, in the order of the tree.
func (s *Server) readRun(c echo.Context, in runArguments) (any, error) {
	from, err := cursorOf(in.Cursor, runCursors)
	if err != nil {
		return nil, err
	}

	o, err := s.outline(c, in.PlanID, in.Root)
	if err != nil {
		return nil, err
	}
	top, err := findRow(o, "under", in.Under)
	if err != nil {
		return nil, err
	}

	next := top
	if from != nil {
		if next, err = findRow(o, "cursor", from.ID); err != nil {
			return nil, err
		}
	}

	p := &o.Plan.Record
	out := readRun{
		PlanID: p.CurrentPlanID, RootPlanID: p.RootPlanID, AlsoUnder: o.Plan.AlsoUnder, State: string(o.Rows[0].State()),
		LastSignOfLife: o.Plan.LastSignOfLife,
		TotalRows:      len(o.Rows), Failures: len(o.Failures), Recovered: o.Found.Recovered, Rows: []runRow{},
	}
	if f := o.Found.Cause; f != nil {
		out.Cause = &cause{placeOf(&o.Rows[o.Cause]), errorLine(f), o.Found.Recovered}
	}

	left, notListed := room(maxItems), 0
	folded := foldedBelow(o, top, in.Depth)
	for end := top + o.Rows[top].Below; next <= end; next++ {
		r := runRowOf(&o.Rows[next])
		if folded[next] {
			r.NotListed = o.Rows[next].Below
			notListed += r.NotListed
		}
		if len(out.Rows) == in.Limit || !left.take(r) {
			out.NextCursor = new(httpd.Cursor{ID: o.Rows[next].At}.Format(runCursors))
			break
		}
		out.Rows = append(out.Rows, r)
		next += r.NotListed
	}

	if notListed > 0 {
		out.Note = fmt.Sprintf("%s below rows with notListed: read them with their address as under.",
			words.Plural(int64(notListed), "row"))
	}
	return out, nil
}

// foldedBelow returns the rows under which nothing is listed.
func foldedBelow(o *outline.Outline, top int, depth *int) map[int]bool {
	if depth == nil {
		return o.Folded(outline.FoldFew, top)
	}

	folded := map[int]bool{}
	for i := top; i <= top+o.Rows[top].Below; i++ {
		if r := &o.Rows[i]; r.Below > 0 && r.Depth-o.Rows[top].Depth >= *depth {
			folded[i] = true
		}
	}
	return folded
}

func runRowOf(r *outline.Row) runRow {
	row := runRow{place: placeOf(r), Depth: r.Depth, span: spanOf(r), Failure: r.Number, FailuresBelow: r.Failures}
	if r.Wait == nil {
		row.Error = errorOf(r.Error())
	}

	switch {
	case r.Plan != nil:
		row.figures = figuresOf(&r.Plan.Total)
	case r.Step != nil:
		row.figures = figuresOf(&r.Step.Figures)
	case r.Cycle != nil:
		k := &r.Cycle.Record
		row.figures = figures{
			InputTokens: optional.Value(k.InputTokens), OutputTokens: optional.Value(k.OutputTokens), CostUSD: k.CostUSD,
		}
	}
	return row
}
