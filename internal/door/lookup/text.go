package lookup

import (
	"context"
	"errors"
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
var SearchQuery = []string{
	"q", "kind", "project", "state", "name", "agent", "userId", "conversationId", "tag", "environment", "since", "until",
	"limit", "cursor",
}

// freeTime is how long a search in texts may take without a rest after it.
const freeTime = 100 * time.Millisecond

// SearchTexts searches the texts of runs for what a query asks, which may have the members of [SearchQuery]. It returns
// some hits of each run, and the number of the others; all hits if perRun is 0.
func (l *Lookup) SearchTexts(c echo.Context, q *httpd.Query, perRun int) (page TextsPage, err error) {
	filter := planFilter(q)
	page.Search = store.TextSearch{
		Text: filter.Query, Kinds: kindsOf(q), Filter: filter, Environment: q.Text("environment"), From: textPlace(q),
		Most: filter.Limit, PerRun: perRun, Time: l.config.SearchTime,
	}
	if q.Err != nil {
		return page, q.Err
	}

	ctx := c.Request().Context()
	done, err := l.texts.Take(ctx, httpd.ClientOf(c))
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

	err = l.Relaxed(c, func(ctx context.Context, r *store.Reader) (err error) {
		page.TextsFound, err = r.SearchTexts(ctx, page.Search)
		return err
	})
	if errors.Is(err, store.ErrSlow) {
		err = tooSlow(err)
	}
	return page, err
}

func kindsOf(q *httpd.Query) (kinds []record.Kind) {
	if q.Text("kind") == "" {
		return nil
	}

	for name := range strings.SplitSeq(q.Text("kind"), ",") {
		if kind := record.Kind(name); slices.Contains(record.Kinds, kind) {
			kinds = append(kinds, kind)
		} else {
			q.Err = httpd.BadField("kind", "must be kinds of records, with commas between them: "+joined(record.Kinds))
		}
	}
	return kinds
}

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
		p.RootPlanID, p.Section = parts[0], int(section)
		p.Parent, p.Seq = parts[2], seq
		p.ID = parts[4]
	}

	hostile := slices.ContainsFunc(parts, func(s string) bool { return !httpd.Storable(s) })
	if len(parts) != 5 || p.Section < 0 || p.Skip < 0 || errors.Join(errs...) != nil || hostile {
		q.Err = httpd.BadField("cursor", "must be a nextCursor of this search, as it was given")
		return nil
	}
	return p
}

// TextAt returns the address of a hit in its run. What is attached to a plan is by its step, if it names one, else by
// the plan.
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
