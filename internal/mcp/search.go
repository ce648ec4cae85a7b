package mcp

import (
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/search"
	"github.com/actlog/actlog/record"
)

type searchArguments struct {
	PlanID string `json:"planId" jsonschema:"the id of a run, or of a sub-plan"`
	Root   string `json:"root,omitempty" jsonschema:"the id of the root plan, if several runs have a plan of this id"`
	Text   string `json:"text" jsonschema:"what to look for: a part of a text, in any case"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most places to return"`
	Cursor string `json:"cursor,omitempty" jsonschema:"the nextCursor of the answer before, with the same arguments"`
}

var searchBounds = map[string]bound{"text": {most: search.MaxQueryBytes}, "limit": {1, 100, 25}, "cursor": {most: 2 * maxAddress}}

// hit is a text that has what was looked for.
type hit struct {
	place
	// TextOf is what has the text, if not the row: a thought, an artifact or a source.
	TextOf string `json:"textOf,omitempty"`
	Field  string `json:"field"`
	Before string `json:"before"`
	Match  string `json:"match"`
	After  string `json:"after"`
}

type foundTexts struct {
	PlanID     string  `json:"planId"`
	RootPlanID string  `json:"rootPlanId"`
	Hits       []hit   `json:"hits"`
	NextCursor *string `json:"nextCursor,omitempty"`
	Note       string  `json:"note,omitempty"`
}

// searchCursors are the cursors of the texts of a run.
const searchCursors = "search"

// search looks for a text in a run.
func (s *Server) search(c echo.Context, in searchArguments) (any, error) {
	from, err := cursorOf(in.Cursor, searchCursors)
	if err != nil {
		return nil, err
	}
	o, err := s.outline(c, in.PlanID, in.Root)
	if err != nil {
		return nil, err
	}
	found, err := s.lists.Find(c, o, in.Text, from, in.Limit)
	if wrong := new(record.InvalidError); errors.As(err, &wrong) { // what is looked for
		return nil, httpd.BadField("text", wrong.Reason)
	}
	if err != nil {
		return nil, err
	}
	out := foundTexts{PlanID: o.Plan.Record.CurrentPlanID, RootPlanID: o.Plan.Record.RootPlanID, Hits: []hit{}}
	for i := range found.Hits {
		h, r := &found.Hits[i], &o.Rows[found.Hits[i].Row]
		each := hit{place: placeOf(r), Field: h.Field, Before: h.Before, Match: h.Match, After: h.After}
		if h.Kind != r.Key().Kind {
			each.TextOf = string(h.Kind)
		}
		out.Hits = append(out.Hits, each)
	}
	if found.Next != nil {
		out.NextCursor = new(found.Next.Format(searchCursors))
	}
	if found.Incomplete {
		out.Note = fmt.Sprintf("There was time for %d of %d rows: go on with nextCursor.", found.Searched, len(o.Rows))
	}
	return out, nil
}
