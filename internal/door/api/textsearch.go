package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// TextsPage is a page of the texts of runs that have what was looked for.
type TextsPage struct {
	store.TextsFound
	Search store.TextSearch
}

// SearchQuery are the members of a query that a search in texts may have.
var SearchQuery = []string{"q", "kind", "project", "state", "name", "agent", "userId", "conversationId", "tag", "environment", "since", "until", "limit", "cursor"}

// maxPerRun is how many hits of a run a search may return at most, if it counts the others.
const maxPerRun = 500

// freeTime is how long a search in texts may take without a rest after it.
const freeTime = 100 * time.Millisecond

// SearchTextsByRun searches the texts of runs for what the query of a request asks. It returns some hits of each run, and the number of the
// others.
func (s *Server) SearchTextsByRun(c echo.Context, perRun int) (TextsPage, error) {
	q := httpd.QueryOf(c, SearchQuery...)
	return s.searchTextsOf(c, q, perRun)
}

// FindTexts is [Server.SearchTextsByRun] for values that did not come in the query of the request.
func (s *Server) FindTexts(c echo.Context, values url.Values, perRun int) (TextsPage, error) {
	return s.searchTextsOf(c, httpd.QueryFrom(values, SearchQuery...), perRun)
}

func (s *Server) searchTextsOf(c echo.Context, q *httpd.Query, perRun int) (page TextsPage, err error) {
	filter := planFilter(q)
	page.Search = store.TextSearch{
		Text: filter.Query, Kinds: kindsOf(q), Filter: filter, Environment: q.Text("environment"), From: textPlace(q), Most: filter.Limit, PerRun: perRun, Time: s.config.SearchTime,
	}
	if q.Err != nil {
		return page, q.Err
	}
	ctx := c.Request().Context()
	done, err := s.texts.Take(ctx, httpd.ClientOf(c))
	if err != nil {
		return page, err
	}
	start := time.Now()
	defer func() { // who searches all the time leaves half of the time to others
		if took := time.Since(start); took > freeTime {
			time.AfterFunc(took, done)
		} else {
			done()
		}
	}()
	err = s.relaxed(c, func(ctx context.Context, r *store.Reader) (err error) {
		page.TextsFound, err = r.SearchTexts(ctx, page.Search)
		return err
	})
	if errors.Is(err, store.ErrSlow) {
		err = tooSlow(err)
	}
	return page, err
}

// kindsOf reads kinds of rows, with commas between them.
func kindsOf(q *httpd.Query) (kinds []record.Kind) {
	if q.Text("kind") == "" {
		return nil
	}
	for name := range strings.SplitSeq(q.Text("kind"), ",") {
		if kind := record.Kind(name); slices.Contains(record.Kinds, kind) {
			kinds = append(kinds, kind)
		} else {
			q.Err = httpd.BadField("kind", fmt.Sprintf("must be kinds of records, with commas between them: %s", joined(record.Kinds)))
		}
	}
	return kinds
}

// textCursors are the cursors of the search in texts.
const textCursors = "texts"

// TextCursor returns the cursor of a place.
func TextCursor(at store.TextPlace) string {
	parts := []string{at.RootPlanID, strconv.Itoa(at.Section), at.Parent, strconv.FormatInt(at.Seq, 10), at.ID}
	for i := range parts {
		parts[i] = url.QueryEscape(parts[i])
	}
	return httpd.Cursor{Time: at.BeganAt, Number: int64(at.Skip), ID: strings.Join(parts, " ")}.Format(textCursors)
}

// textPlace reads the place at which a search goes on; nil: at its beginning.
func textPlace(q *httpd.Query) *store.TextPlace {
	at := q.Cursor(textCursors)
	if at == nil {
		return nil
	}
	parts := strings.Split(at.ID, " ")
	var errs []error
	for i := range parts {
		plain, err := url.QueryUnescape(parts[i])
		parts[i], errs = plain, append(errs, err)
	}
	p := &store.TextPlace{Skip: int(at.Number)}
	p.BeganAt = at.Time
	if len(parts) == 5 {
		section, err := strconv.ParseInt(parts[1], 10, 16)
		seq, seqErr := strconv.ParseInt(parts[3], 10, 64)
		errs = append(errs, err, seqErr)
		p.RootPlanID, p.Section, p.Parent, p.Seq, p.ID = parts[0], int(section), parts[2], seq, parts[4]
	}
	if len(parts) != 5 || p.Section < 0 || p.Skip < 0 || errors.Join(errs...) != nil || slices.ContainsFunc(parts, func(s string) bool { return !httpd.Storable(s) }) {
		q.Err = httpd.BadField("cursor", "must be a nextCursor of this search, as it was given")
		return nil
	}
	return p
}

type textHitJSON struct {
	RootPlanID string       `json:"rootPlanId"`
	Title      *string      `json:"title"`
	RunName    *string      `json:"runName"`
	Project    *string      `json:"project"`
	State      record.State `json:"state"`
	Began      time.Time    `json:"began"`
	At         string       `json:"at"`
	Kind       record.Kind  `json:"kind"`
	PlanID     *string      `json:"planId"`
	StepID     *string      `json:"stepId"`
	Seq        *int64       `json:"seq"`
	ToolCallID *string      `json:"toolCallId"`
	TextID     *string      `json:"textId"`
	Name       *string      `json:"name"`
	Field      string       `json:"field"`
	Before     string       `json:"before"`
	Match      string       `json:"match"`
	After      string       `json:"after"`
}

// TextAt returns the address of a hit in its run. What stands beside a plan is by its step, if it names one, else by the plan.
func TextAt(h *store.TextHit) string {
	switch h.Key.Kind {
	case record.KindAgentExecution:
		return outline.At("step", h.Key.ID)
	case record.KindThinkAct:
		return outline.At("cycle", h.Key.Parent, strconv.FormatInt(h.Key.Seq, 10))
	case record.KindActTool:
		return outline.At("call", h.Key.Parent, strconv.FormatInt(h.Key.Seq, 10), h.Key.ID)
	case record.KindWait:
		return outline.At("wait", h.Key.ID)
	}
	if h.StepID != "" {
		return outline.At("step", h.StepID)
	}
	return outline.At("plan", h.PlanID)
}

// textHit is a hit as it is answered.
func textHit(h *store.TextHit) textHitJSON {
	given := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	hit := textHitJSON{
		RootPlanID: h.Run.RootPlanID, Title: h.Run.Title, RunName: h.Run.Name, Project: h.Run.Project, State: h.Run.State, Began: h.Run.BeganAt,
		At: TextAt(h), Kind: h.Key.Kind, PlanID: given(h.PlanID), StepID: given(h.StepID), Name: given(h.Name),
		Field: h.Field, Before: h.Before, Match: h.Match, After: h.After,
	}
	switch h.Key.Kind {
	case record.KindThinkAct:
		hit.Seq = &h.Key.Seq
	case record.KindActTool:
		hit.Seq, hit.ToolCallID = &h.Key.Seq, &h.Key.ID
	case record.KindThought, record.KindArtifact, record.KindSource, record.KindWait:
		hit.TextID = &h.Key.ID
	}
	return hit
}

// searchTexts lists the texts of all runs that have what the query asks for.
func (s *Server) searchTexts(c echo.Context) error {
	q := httpd.QueryOf(c, append(SearchQuery, "perRun")...)
	perRun := 0
	if q.Text("perRun") != "" {
		perRun = q.Number("perRun", 1, maxPerRun)
	}
	page, err := s.searchTextsOf(c, q, perRun)
	if err != nil {
		return err
	}
	out := textHitList{Items: make([]textHitJSON, 0, len(page.Hits)), Left: page.LeftOfRuns(), Incomplete: page.Incomplete}
	for i := range page.Hits {
		out.Items = append(out.Items, textHit(&page.Hits[i]))
	}
	if page.Next != nil {
		out.NextCursor, out.Reached = new(TextCursor(*page.Next)), &page.Next.BeganAt
	}
	return sendJSON(c, http.StatusOK, out)
}

// LeftOfRuns returns the runs that have more hits than are shown of them, in the order of their hits.
func (p *TextsPage) LeftOfRuns() []LeftOfRun {
	left, before := []LeftOfRun{}, ""
	for i := range p.Hits {
		root := p.Hits[i].Run.RootPlanID
		if n, open := p.More[root], p.Open[root]; root != before && (n > 0 || open) {
			left = append(left, LeftOfRun{root, n, open})
		}
		before = root
	}
	return left
}

// LeftOfRun says how many texts of a run were left out; open: at least so many.
type LeftOfRun struct {
	RootPlanID string `json:"rootPlanId"`
	Texts      int    `json:"texts"`
	Open       bool   `json:"open"`
}

type textHitList struct {
	Items      []textHitJSON `json:"items"`
	Left       []LeftOfRun   `json:"left"`
	NextCursor *string       `json:"nextCursor"`
	Incomplete bool          `json:"incomplete"`
	Reached    *time.Time    `json:"reached"`
}
