package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/search"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
)

// runsQuery are the arguments of find_runs: the filters of the list of runs.
type runsQuery struct {
	Since          string   `json:"since,omitempty" jsonschema:"runs that began at or after this: how long ago, such as 24h, 7d or 2w, a day in UTC such as 2026-11-20, or a time (RFC 3339)"`
	Until          string   `json:"until,omitempty" jsonschema:"runs that began before this, given like since"`
	State          string   `json:"state,omitempty" jsonschema:"runs in this state: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED, SKIPPED, BLOCKED, INTERRUPTED or UNKNOWN"`
	Failed         *bool    `json:"failed,omitempty" jsonschema:"true: runs in which anything failed, also those that recovered; false: the others"`
	Q              string   `json:"q,omitempty" jsonschema:"runs with all of these words in the titles, requests, summaries, agent names, tool names and errors of their trees"`
	Project        string   `json:"project,omitempty" jsonschema:"runs of this project"`
	Name           string   `json:"name,omitempty" jsonschema:"runs of exactly this name"`
	Agent          string   `json:"agent,omitempty" jsonschema:"runs in which this agent worked"`
	Model          string   `json:"model,omitempty" jsonschema:"runs in which this model was asked"`
	Tool           string   `json:"tool,omitempty" jsonschema:"runs in which this tool was called"`
	UserID         string   `json:"userId,omitempty" jsonschema:"runs of this user"`
	ConversationID string   `json:"conversationId,omitempty" jsonschema:"runs of this conversation"`
	Tag            string   `json:"tag,omitempty" jsonschema:"runs with this tag"`
	MinCost        *float64 `json:"minCost,omitempty" jsonschema:"runs that cost at least so many US dollars"`
	MaxCost        *float64 `json:"maxCost,omitempty" jsonschema:"runs that cost at most so many US dollars"`
	MinDuration    string   `json:"minDuration,omitempty" jsonschema:"runs that took at least so long, such as 90s or 5m"`
	MaxDuration    string   `json:"maxDuration,omitempty" jsonschema:"runs that took at most so long"`
	Limit          int      `json:"limit,omitempty" jsonschema:"the most runs to return"`
	Cursor         string   `json:"cursor,omitempty" jsonschema:"the nextCursor of the answer before, with the same filters"`
}

var runsBounds = map[string]limits{
	"limit": {1, 100, 20}, "q": {max: search.MaxQueryBytes}, "cursor": {max: maxAddress},
	"minCost": {0, 1_000_000_000, 0}, "maxCost": {0, 1_000_000_000, 0},
}

// run is a root plan in a list.
type run struct {
	PlanID      string `json:"planId"`
	Title       string `json:"title,omitempty"`
	Name        string `json:"name,omitempty"`
	Project     string `json:"project,omitempty"`
	State       string `json:"state"`
	Placeholder bool   `json:"placeholder,omitempty"` // only the id is known
	span
	Steps  int64 `json:"steps,omitempty"`
	Failed int64 `json:"failed,omitempty"`
	figures
	Cause *cause `json:"cause,omitempty"`
}

// cause is the row that explains the state of a run.
type cause struct {
	place
	Error     string `json:"error,omitempty"`
	Recovered bool   `json:"recovered,omitempty"`
}

type foundRuns struct {
	Runs       []run   `json:"runs"`
	NextCursor *string `json:"nextCursor,omitempty"`
	Incomplete bool    `json:"incomplete,omitempty"`
	Note       string  `json:"note,omitempty"`
}

// findRuns lists runs, newest first.
func (s *Server) findRuns(c echo.Context, in runsQuery) (any, error) {
	q, err := valuesOf(in)
	if err != nil {
		return nil, err
	}
	page, err := s.lookup.PlanPage(c, httpd.QueryFrom(q, lookup.PlanQuery...))
	if err != nil {
		return nil, err
	}

	out := foundRuns{Runs: []run{}, Incomplete: page.Incomplete}
	left := room(maxItems)
	for i := range page.Plans {
		p := &page.Plans[i]
		r := runOf(p)
		if !left.take(r) {
			before := page.Plans[i-1].Cursor
			page.Next = &store.Position{Time: before.BeganAt, ID: before.RootPlanID}
			break
		}
		out.Runs = append(out.Runs, r)
	}

	if page.Next != nil {
		out.NextCursor = new(httpd.Cursor(*page.Next).Format(lookup.PlanCursors))
	}
	switch {
	case page.Incomplete:
		out.Note = "Older runs are still being added to the search, so some may be missing."
	case len(out.Runs) == 0 && in.Cursor == "":
		out.Note = "No run matches. Filters are exact but q; try fewer of them, or an earlier since."
	}
	return out, nil
}

// valuesOf returns the arguments of a tool as the values of a query.
func valuesOf(in any) (url.Values, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}

	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return nil, err
	}

	q := url.Values{}
	for name, value := range members {
		q.Set(name, fmt.Sprint(value))
	}
	return q, nil
}

func runOf(p *store.PlanSummary) run {
	r := run{
		PlanID: p.Record.RootPlanID, Title: words.Shorten(optional.Value(p.Record.Title), nameChars),
		Name:    words.Shorten(optional.Value(p.Record.Name), nameChars),
		Project: optional.Value(p.Record.Project), State: string(optional.Value(p.Record.State)), Placeholder: p.Placeholder,
		span: span{p.Record.StartTime, p.Record.EndTime, p.Total.DurationMs}, Steps: p.Steps, Failed: p.Failed,
		figures: figuresOf(&p.Total),
	}

	var row outline.Row
	switch {
	case p.Asks != nil:
		row.Wait = p.Asks
		row.At, _ = outline.AtOf(p.Asks)
		r.Cause = &cause{place: placeOf(&row)}
	case p.Failure != nil:
		row.Node = p.Failure.Node()
		row.At, _ = outline.AtOf(row.Record())
		r.Cause = &cause{placeOf(&row), errorLine(p.Failure), p.Recovered}
	}
	return r
}
