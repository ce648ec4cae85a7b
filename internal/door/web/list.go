package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type listView struct {
	lookup.PlanPage
	query  url.Values
	wrong  faults // with members of the query, which are left out
	events string // where what changes is told; empty: nobody can follow it now
	origin string // the address of this server
	keys   bool   // whether it needs a key
	mayRun bool   // whether the reader may ask runs for something
	now    time.Time
}

func (s *Server) list(c echo.Context) error {
	if clean := withValues(c.QueryParams()); len(clean) < len(c.QueryParams()) { // a form sends its empty fields, too
		return c.Redirect(http.StatusSeeOther, listPath(clean))
	}

	v := &listView{
		query: c.QueryParams(), origin: httpd.Origin(c.Request()), keys: s.door.NeedsKey(), now: s.now(),
		mayRun: httpd.May(c, httpd.ScopeRun),
	}
	var err error
	// what changes after the reading is told from a cursor that is taken before
	if v.events, err = s.events(c); err != nil {
		return err
	}

	v.wrong, err = readWithout(c, func() (err error) {
		v.PlanPage, err = s.lookup.PlanPage(c, httpd.QueryOf(c, lookup.PlanQuery...))
		return err
	})
	if err != nil {
		return err
	}
	return send(c, v.wrong.status(), listPage(v))
}

// listed answers with rows of the list as they are now.
func (s *Server) listed(c echo.Context) error {
	q := httpd.QueryOf(c, "runs")
	asked := strings.Fields(q.Text("runs"))
	if q.Err == nil && (len(asked) == 0 || len(asked) > maxPatch) {
		q.Err = httpd.BadField("runs",
			fmt.Sprintf("must be 1 to %d ids, each percent-encoded, with spaces between them", maxPatch))
	}

	for i, id := range asked {
		plain, err := url.PathUnescape(id)
		if q.Err == nil && (err != nil || !httpd.Storable(plain)) {
			q.Err = httpd.BadField("runs", "must be percent-encoded ids")
		}
		asked[i] = plain
	}
	if q.Err != nil {
		return q.Err
	}

	plans, err := s.lookup.Reader(c).PlansAt(c.Request().Context(), asked)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, listPiece(&listView{PlanPage: lookup.PlanPage{Plans: plans}, now: s.now()}))
}

// newer answers with the rows that have come since, those that the filters let through.
func (s *Server) newer(c echo.Context) error {
	if err := s.latest(c); err != nil { // an event says that there is something
		return err
	}
	page, err := s.lookup.NewerPlans(c)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, listPiece(&listView{PlanPage: page, now: s.now()}))
}

// events returns the address of a stream of what changes in all runs from now on. It is empty if the server has as many
// streams as it may. The lists of the request show everything before.
func (s *Server) events(c echo.Context) (string, error) {
	switch cursor, err := s.hub.Cursor(c.Request().Context()); {
	case err == nil:
		return "/api/v1/events?" + url.Values{"after": {cursor}}.Encode(), s.latest(c)
	case !errors.Is(err, live.ErrFull):
		return "", err
	}
	return "", nil
}

// pair leads from the two runs that were picked in the list to their comparison.
func (s *Server) pair(c echo.Context) error {
	picked := c.QueryParams()["run"]
	if len(picked) != 2 {
		return httpd.BadField("run", "must be two: pick two runs of the list")
	}
	// the older one first
	return c.Redirect(http.StatusSeeOther, "/compare?"+url.Values{"a": {picked[1]}, "b": {picked[0]}}.Encode())
}

// withValues returns a query without the members that have no value.
func withValues(query url.Values) url.Values {
	clean := url.Values{}
	for name, values := range query {
		if kept := slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" }); len(kept) > 0 {
			clean[name] = kept
		}
	}
	return clean
}

func listPath(query url.Values) string { return strings.TrimSuffix("/?"+query.Encode(), "?") }

func (v *listView) value(name string) string { return v.query.Get(name) }

// given reports whether one of some filters was given.
func (v *listView) given(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return v.value(name) != "" })
}

func (v *listView) filtered() bool { return v.Filter.Narrows() }

// older returns the address of the next page; empty: there is none.
func (v *listView) older() string {
	if v.Next == nil {
		return ""
	}
	return v.with("cursor", cursorOf(*v.Next))
}

// newest returns the address of the first page.
func (v *listView) newest() string { return v.with("cursor", "") }

// with returns the address of the list with another value of a member.
func (v *listView) with(name, value string) string {
	query := v.wrong.without(v.query)
	query.Del(name)
	if value != "" {
		query.Set(name, value)
	}
	return listPath(query)
}

// newerPath returns where newer runs come from; empty: this is not the first page.
func (v *listView) newerPath() string {
	if v.value("cursor") != "" {
		return ""
	}
	return "/list/newer?" + v.wrong.without(v.query).Encode()
}

// place returns where a run stands in the list of all, as the API names it.
func place(p *store.PlanSummary) string {
	return cursorOf(store.Position{Time: p.Cursor.BeganAt, ID: p.Cursor.RootPlanID})
}

func cursorOf(at store.Position) string { return httpd.Cursor(at).Format(lookup.PlanCursors) }

func planStates() (all []choice) {
	for _, s := range record.States(record.KindPlan) {
		all = append(all, choice{string(s), stateWord(s)})
	}
	return all
}

var failing = []choice{{"true", "with failures"}, {"false", "without failures"}}

var listFields = []string{
	"q", "project", "state", "agent", "tag", "userId", "since", "failed", "model", "tool", "minCost", "maxCost",
	"minDuration", "maxDuration", "name", "conversationId", "until",
}

func runPath(planID string) string { return "/runs/" + url.PathEscape(planID) }

func runName(p *store.PlanSummary) string {
	return cmp.Or(optional.Value(p.Record.Title), optional.Value(p.Record.Name), p.Record.RootPlanID)
}

// lasted says how long a run took, or for how long it has been running.
func (v *listView) lasted(p *store.PlanSummary) string {
	switch {
	case p.Total.DurationMs != nil:
		return words.Duration(time.Duration(*p.Total.DurationMs) * time.Millisecond)
	case p.Record.State.Terminal() || p.Record.StartTime == nil:
		return ""
	}
	return words.Duration(v.ran(p).Round(time.Second))
}

// ran returns how long a run has been going on; 0: it does not, or that is not known.
func (v *listView) ran(p *store.PlanSummary) time.Duration {
	if p.Total.DurationMs != nil || p.Record.State.Terminal() || p.Record.StartTime == nil {
		return 0
	}
	return max(0, v.now.Sub(*p.Record.StartTime))
}

// reasonView says in a line why a run is in its state.
type reasonView struct {
	at    string // the row that explains it
	class string
	name  string
	text  string
}

// reason returns what a run asks, or the cause of its failure; nil: there is neither.
func (v *listView) reason(p *store.PlanSummary) *reasonView {
	const most = 160
	if w := p.Asks; w != nil {
		at, _ := outline.AtOf(w)
		r := &reasonView{
			at: at, class: "open", name: "asks: " + words.Shorten(
				cmp.Or(strings.TrimSpace(optional.Value(w.Title)), optional.Value(w.FormDescription), "a human"), most),
		}
		if w.StartTime != nil {
			r.text = words.Age(v.now.Sub(*w.StartTime))
		}
		return r
	}

	if p.Failure == nil {
		return nil
	}

	row := outline.Row{Node: p.Failure.Node()}
	text := p.Failure.Text()
	r := &reasonView{
		class: "bad", name: words.Shorten(rowName(&row), most), text: words.Shorten(errorText(p.Failure.Kind, &text), most),
	}
	r.at, _ = outline.AtOf(row.Record())
	switch {
	case p.Recovered:
		r.class, r.name = "more", "recovered: "+r.name
	case row.Plan != nil && row.Plan.Record.IsRoot():
		r.name = "" // it stands beside it
	}
	return r
}

// tokens says how many tokens a run took, in few characters.
func tokens(p *store.PlanSummary) string {
	if n := p.Total.InputTokens + p.Total.OutputTokens; n > 0 {
		return words.Short(n)
	}
	return ""
}

// curl is a command that writes a run.
func (v *listView) curl() string {
	key := ""
	if v.keys {
		key = " -H 'Authorization: Bearer KEY'"
	}
	return "curl " + words.Argument(v.origin+"/api/v1/records") + " -H 'Content-Type: application/json'" + key +
		` -d '{"records": [
  {"kind": "plan", "rootPlanId": "hello", "currentPlanId": "hello", "title": "Hello", "state": "COMPLETED"}]}'`
}

// exporter is what an OpenTelemetry exporter needs to send its spans here.
func (v *listView) exporter() string {
	text := "OTEL_EXPORTER_OTLP_ENDPOINT=" + words.Argument(v.origin) + "\nOTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	if v.keys {
		text += "\nOTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20KEY"
	}
	return text
}
