package mcp

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

type rowArguments struct {
	PlanID string `json:"planId" jsonschema:"the id of the run that the row is in, or of a sub-plan"`
	Root   string `json:"root,omitempty" jsonschema:"the id of the root plan, if several runs have a plan of this id"`
	At     string `json:"at" jsonschema:"the address of the row"`
	Field  string `json:"field,omitempty" jsonschema:"return only this text of the row"`
	Offset int    `json:"offset,omitempty" jsonschema:"where to begin in that text, in characters: the nextOffset of the answer before"`
	Chars  int    `json:"chars,omitempty" jsonschema:"the most characters of each text"`
}

var rowBounds = map[string]limits{
	"at": {max: maxAddress}, "offset": {0, record.MaxTextBytes, 0}, "chars": {100, 20_000, 4_000},
}

// maxBelow is how many rows are named below a row.
const maxBelow = 50

type readRow struct {
	PlanID     string `json:"planId"`
	RootPlanID string `json:"rootPlanId"`
	place
	span
	Path []place `json:"path"`
	// Facts are the short fields of the row as the API names them, and Texts its long ones.
	Facts map[string]any `json:"facts,omitempty"`
	Texts []passage      `json:"texts"`
	// EarlierAttempts are how the attempts before the present one went.
	EarlierAttempts []attempt `json:"earlierAttempts,omitempty"`
	Below           []place   `json:"below,omitempty"`
	BelowNotListed  int       `json:"belowNotListed,omitempty"`
}

type attempt struct {
	Number int64  `json:"attempt"`
	State  string `json:"state"`
	Error  string `json:"error,omitempty"`
}

// readRow reads a row in full, or a part of one of its texts.
func (s *Server) readRow(c echo.Context, in rowArguments) (any, error) {
	if in.Offset > 0 && in.Field == "" {
		return nil, httpd.BadField("offset", "needs field: the text in which it is a place")
	}

	o, err := s.outline(c, in.PlanID, in.Root)
	if err != nil {
		return nil, err
	}
	at, err := findRow(o, "at", in.At)
	if err != nil {
		return nil, err
	}

	r := &o.Rows[at]
	row, err := s.lookup.Reader(c).Detail(c.Request().Context(), r.Key())
	if err != nil {
		return nil, err
	}

	left := room(maxItems)
	out := readRow{
		PlanID: o.Plan.Record.CurrentPlanID, RootPlanID: o.Plan.Record.RootPlanID, place: placeOf(r), span: spanOf(r),
		Path: pathTo(o, at),
	}

	if in.Field != "" {
		text, names, ok := textOf(row.Record, in.Field)
		if !ok {
			return nil, httpd.BadField("field", fmt.Sprintf("must be a text of this row: %s", names))
		}
		out.Texts = []passage{passageOf(row, in.Field, text, in.Offset, in.Chars, &left)}
		return out, nil
	}

	out.Facts = factsOf(row.Record)
	left.take(out.Facts)
	left.take(out.Path)
	for i, below := range o.Children(at) {
		if i >= maxBelow || !left.take(placeOf(&o.Rows[below])) {
			out.BelowNotListed++
			continue
		}
		out.Below = append(out.Below, placeOf(&o.Rows[below]))
	}

	for _, p := range row.PastAttempts[max(0, len(row.PastAttempts)-maxListed):] {
		out.EarlierAttempts = append(out.EarlierAttempts, attempt{
			p.Number, string(p.State), errorOf(p.ErrorKind, p.ErrorMessage),
		})
	}
	left.take(out.EarlierAttempts)
	out.Texts = textsOf(row, in.Chars, &left)
	return out, nil
}
