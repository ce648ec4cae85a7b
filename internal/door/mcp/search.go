package mcp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/search"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type searchArguments struct {
	PlanID string `json:"planId,omitempty" jsonschema:"the id of a run, or of a sub-plan; without it, all runs are searched, newest first"`
	Root   string `json:"root,omitempty" jsonschema:"the id of the root plan, if several runs have a plan of this id"`
	Text   string `json:"text" jsonschema:"what to look for: a part of a text, in any case"`
	textsQuery
	Limit  int    `json:"limit,omitempty" jsonschema:"the most places to return"`
	Cursor string `json:"cursor,omitempty" jsonschema:"the nextCursor of the answer before, with the same arguments"`
}

// textsQuery are the arguments that choose among all runs.
type textsQuery struct {
	Kind    string `json:"kind,omitempty" jsonschema:"without planId: only texts of these kinds of rows, with commas between them: plan, agentExecution, thinkAct, actTool, thought, artifact, source, wait"`
	Since   string `json:"since,omitempty" jsonschema:"without planId: runs that began at or after this: how long ago, such as 24h, 7d or 2w, a day in UTC such as 2026-11-20, or a time (RFC 3339)"`
	Until   string `json:"until,omitempty" jsonschema:"without planId: runs that began before this, given like since"`
	Project string `json:"project,omitempty" jsonschema:"without planId: runs of this project"`
	Agent   string `json:"agent,omitempty" jsonschema:"without planId: runs in which this agent worked"`
	State   string `json:"state,omitempty" jsonschema:"without planId: runs in this state"`
}

var searchBounds = map[string]limits{
	"text": {max: search.MaxQueryBytes}, "limit": {1, 100, 25}, "cursor": {max: 2 * maxAddress}, "kind": {max: 200},
}

// hit is a text that has what was looked for.
type hit struct {
	*ofRun
	place
	// TextOf is what has the text, if not the row: a thought, an artifact or a source.
	TextOf string `json:"textOf,omitempty"`
	Field  string `json:"field"`
	Before string `json:"before"`
	Match  string `json:"match"`
	After  string `json:"after"`
}

// ofRun says of which run a hit among all runs is.
type ofRun struct {
	PlanID string    `json:"planId"`
	Title  string    `json:"title,omitempty"`
	Began  time.Time `json:"began"`
}

type foundTexts struct {
	PlanID     string `json:"planId,omitempty"`
	RootPlanID string `json:"rootPlanId,omitempty"`
	Hits       []hit  `json:"hits"`
	// MoreIn are runs that have more hits than are listed of them.
	MoreIn     []moreIn `json:"moreIn,omitempty"`
	NextCursor *string  `json:"nextCursor,omitempty"`
	Note       string   `json:"note,omitempty"`
}

// moreIn says in words how many more hits a run has.
type moreIn struct {
	PlanID string `json:"planId"`
	More   string `json:"more"`
}

// hitsOfRun is how many hits of a run are listed, if all runs are searched.
const hitsOfRun = 3

const searchCursors = "search"

// search looks for a text in a run, or in all.
func (s *Server) search(c echo.Context, in searchArguments) (any, error) {
	if in.PlanID == "" {
		return s.searchRuns(c, in)
	}
	if in.textsQuery != (textsQuery{}) {
		return nil, httpd.BadField("planId", "must be left out if since, until, project, agent, state or kind chooses runs")
	}

	from, err := cursorOf(in.Cursor, searchCursors)
	if err != nil {
		return nil, err
	}
	o, err := s.outline(c, in.PlanID, in.Root)
	if err != nil {
		return nil, err
	}

	found, err := s.lookup.SearchTree(c, o, in.Text, from, in.Limit)
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

func (s *Server) searchRuns(c echo.Context, in searchArguments) (any, error) {
	if in.Root != "" {
		return nil, httpd.BadField("root", "goes with planId")
	}

	values, err := valuesOf(in.textsQuery)
	if err != nil {
		return nil, err
	}
	values.Set("q", in.Text)
	values.Set("limit", fmt.Sprint(in.Limit))
	if in.Cursor != "" {
		values.Set("cursor", in.Cursor)
	}

	page, err := s.lookup.SearchTexts(c, httpd.QueryFrom(values, lookup.SearchQuery...), hitsOfRun)
	if wrong := new(record.InvalidError); errors.As(err, &wrong) { // what is looked for
		return nil, httpd.BadField("text", wrong.Reason)
	}
	if err != nil {
		return nil, err
	}

	out := foundTexts{Hits: []hit{}}
	for i := range page.Hits {
		h := &page.Hits[i]
		each := hit{
			ofRun: &ofRun{h.Run.RootPlanID, words.Shorten(optional.Value(h.Run.Title), nameChars), h.Run.BeganAt},
			place: place{At: lookup.TextAt(h), Kind: string(h.Key.Kind), Name: words.Shorten(h.Name, nameChars)},
			Field: h.Field, Before: h.Before, Match: h.Match, After: h.After,
		}
		if h.Key.Kind == record.KindThinkAct {
			each.Name = strings.TrimSpace(each.Name + " " + cycleName(h.Key.Seq))
		}
		out.Hits = append(out.Hits, each)
	}
	for _, left := range page.LeftOfRuns() {
		out.MoreIn = append(out.MoreIn, moreIn{left.RootPlanID, words.MoreInRun(int64(left.Texts), left.Open)})
	}

	var notes []string
	if len(out.MoreIn) > 0 {
		notes = append(notes, "Of each run, the first hits are listed: to see all, search again with its planId.")
	}
	if page.Next != nil {
		out.NextCursor = new(lookup.TextCursor(*page.Next))
	}
	if page.Incomplete {
		notes = append(notes, "There was time for runs back to "+page.Next.BeganAt.Format(time.RFC3339)+
			": go on with nextCursor, or choose fewer runs.")
	}

	out.Note = strings.Join(notes, " ")
	return out, nil
}
