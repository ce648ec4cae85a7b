package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type searchView struct {
	lookup.TextsPage
	query    url.Values
	wrong    faults // with members of the query, which are left out
	searched bool   // whether something is looked for
	now      time.Time
}

// searchPage shows which runs say a text, and where.
func (s *Server) searchPage(c echo.Context) error {
	if clean := withValues(c.QueryParams()); len(clean) < len(c.QueryParams()) { // a form sends its empty fields, too
		return c.Redirect(http.StatusSeeOther, searchPath(clean))
	}

	v := &searchView{query: c.QueryParams(), now: s.now()}
	if v.searched = v.query.Has("q"); v.searched {
		var err error
		v.wrong, err = readWithout(c, func() (err error) {
			if !c.Request().URL.Query().Has("q") { // q itself was wrong and was removed: no search
				v.TextsPage, v.searched = lookup.TextsPage{}, false
				return nil
			}
			v.TextsPage, err = s.lookup.SearchTexts(c, httpd.QueryOf(c, lookup.SearchQuery...), hitsOfRun)
			return err
		})
		if err != nil {
			return err
		}
	}
	return send(c, v.wrong.status(), textsPage(v))
}

func searchPath(query url.Values) string {
	return strings.TrimSuffix("/search?"+query.Encode(), "?")
}

func (v *searchView) value(name string) string { return v.query.Get(name) }

// given reports whether one of some members was given.
func (v *searchView) given(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return v.value(name) != "" })
}

// with returns the address of the search with another cursor; empty: from its beginning.
func (v *searchView) with(cursor string) string {
	query := v.wrong.without(v.query)
	query.Del("cursor")
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return searchPath(query)
}

// title says what was found.
func (v *searchView) title() string {
	quoted := "“" + words.Shorten(v.value("q"), 80) + "”"
	n := len(v.Hits)
	goesOn, from := v.Next != nil, v.value("cursor") != ""
	switch {
	case n == 0 && goesOn:
		return "No text with " + quoted + " so far"
	case n == 0 && from:
		return "No more texts with " + quoted
	case n == 0:
		return "No run says " + quoted
	}

	title := words.Plural(int64(n), "text") + " with " + quoted
	switch {
	case from:
		title += ", further back"
	case goesOn:
		title = "The first " + title
	}
	return title
}

// note says how far the search has come, if there was no time for more.
func (v *searchView) note() string {
	if !v.Incomplete {
		return ""
	}
	return "Searched back to " + v.Next.BeganAt.UTC().Format("2006-01-02 15:04:05") + " UTC. There was no time for more."
}

// more returns the address of the rest; empty: there is none.
func (v *searchView) more() string {
	if v.Next == nil {
		return ""
	}
	return v.with(lookup.TextCursor(*v.Next))
}

// hitsOfRun is how many texts of a run are shown. The run itself lists them all.
const hitsOfRun = 3

// others says how many more texts a run has than are shown; empty: none.
func (v *searchView) others(r *saying) string {
	return words.MoreInRun(int64(v.More[r.run.RootPlanID]), v.Open[r.run.RootPlanID])
}

// othersPath returns the address of all texts of a run.
func (v *searchView) othersPath(r *saying) string {
	return runPath(r.run.RootPlanID) + "?" + url.Values{"q": {v.value("q")}}.Encode()
}

type saying struct {
	run  *store.TextRun
	hits []*store.TextHit
}

// runs returns the runs that say it, in their order.
func (v *searchView) runs() (all []saying) {
	for i := range v.Hits {
		h := &v.Hits[i]
		if last := len(all) - 1; last < 0 || all[last].run.RootPlanID != h.Run.RootPlanID {
			all = append(all, saying{run: h.Run})
		}
		all[len(all)-1].hits = append(all[len(all)-1].hits, h)
	}
	return all
}

func (r *saying) name() string {
	return words.Shorten(cmp.Or(optional.Value(r.run.Title), optional.Value(r.run.Name), r.run.RootPlanID), 200)
}

func hitPath(h *store.TextHit) string {
	return runPath(h.Run.RootPlanID) + "?" + url.Values{"at": {lookup.TextAt(h)}}.Encode()
}

func hitName(h *store.TextHit) string {
	name := words.Shorten(h.Name, 80)
	switch h.Key.Kind {
	case record.KindPlan:
		name = "plan"
		if h.PlanID == h.Run.RootPlanID {
			name = "run"
		}
	case record.KindThinkAct:
		name = strings.TrimSpace(name + " cycle " + strconv.FormatInt(h.Key.Seq+1, 10))
	case record.KindThought, record.KindArtifact, record.KindSource, record.KindWait:
		name = string(h.Key.Kind)
	}
	return cmp.Or(name, string(h.Key.Kind))
}

var searchFields = []string{
	"q", "kind", "since", "until", "project", "state", "agent", "tag", "userId", "name", "conversationId", "environment",
}

// textKinds are the kinds of texts among which a reader chooses, with their names.
var textKinds = []choice{
	{string(record.KindPlan), "runs and plans"}, {string(record.KindAgentExecution), "steps"},
	{string(record.KindThinkAct), "prompts and answers"}, {string(record.KindActTool), "tool calls"},
	{"thinkAct,actTool", "prompts, answers and tool calls"}, {string(record.KindThought), "thoughts"},
	{string(record.KindArtifact), "artifacts"}, {string(record.KindSource), "sources"}, {string(record.KindWait), "waits"},
}

// searchTexts returns the address of the search in texts for what the list looks for, in the runs that it shows.
func (v *listView) searchTexts() string {
	query := url.Values{}
	for _, name := range lookup.SearchQuery {
		if value := v.value(name); value != "" && name != "cursor" && name != "limit" {
			query.Set(name, value)
		}
	}
	return searchPath(query)
}
