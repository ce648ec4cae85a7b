package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// runView is a run, and the row that is open.
type runView struct {
	*outline.Outline
	open   int  // the row whose detail is shown
	chosen bool // the reader chose it
	focus  bool // it has the focus when the page is there
	fold   outline.Fold
	folded map[int]bool
	root   string // under which the plan was asked for; empty: any
	// lost is the address that was asked for, if the run has no such row.
	lost     string
	detail   *detailView
	list     *listing           // that stands in place of the tree; nil: the tree
	events   string             // where what changes is told; empty: the run has ended
	stands   *runstore.Standing // nil: it is no run of the runtime
	mayAsk   bool               // the reader may ask the run for something
	key      string             // what is asked twice with it starts one run
	waitsFor []string           // what it waits for that is no question to a person, such as a model
	dueAt    *time.Time         // when it goes on at the latest; nil: that is not known
	dag      *dagView           // the graph that it carries out; nil: none
	wrong    string             // what is wrong with what was asked of the run
	now      time.Time
	from     time.Time // when the run began, and how long the bars of its rows are
	span     time.Duration
}

// longRun is from how many rows on a run is read for so long that one sees that.
const longRun = 20_000

func (s *Server) run(c echo.Context) error {
	asks, err := askOf(c, pageNames...)
	if err != nil {
		return err
	}
	named, rows, err := s.lookup.Reader(c).PlanSize(c.Request().Context(), asks.root, asks.id, longRun)
	if err != nil {
		return err
	}

	read := func() (*runView, error) {
		v, err := s.view(c, fresh, pageNames...)
		if err != nil {
			return nil, err
		}
		if v, err = s.whole(c, v); err != nil {
			return nil, err
		}
		v.focus = v.chosen && v.list == nil
		return v, nil
	}

	if rows < longRun {
		v, err := read()
		if err != nil {
			return err
		}
		return send(c, http.StatusOK, runPage(v))
	}

	return send(c, http.StatusOK,
		longRunPage(rowName(&outline.Row{Node: tree.Node{Plan: &tree.Plan{Record: named}}}), func() templ.Component {
			v, err := read()
			if err != nil {
				p, known := httpd.ProblemOf(err)
				if !known {
					s.log.Error("request failed when its answer had begun", "path", c.Request().URL.Path, "error", err)
				}
				return problem(p)
			}
			return wholeRun(v)
		}))
}

// reply is what the page of a run says beside what is on record.
type reply struct {
	status int
	wrong  string      // with what was asked of the run
	typed  *answerView // what was typed into the form of the open row; nil: nothing
}

// sendRun answers with the page of a run, as it is after what was read of it.
func (s *Server) sendRun(c echo.Context, v *runView, r reply) error {
	v, err := s.whole(c, v)
	if err != nil {
		return err
	}
	if v.wrong = r.wrong; r.typed != nil {
		v.detail.typed(r.typed)
	}
	return send(c, r.status, runPage(v))
}

// whole reads what the page of a run has beside its rows. Of a run that goes on, these are read again.
func (s *Server) whole(c echo.Context, v *runView) (*runView, error) {
	if !v.ended() {
		switch followed, err := s.follow(c); {
		case err == nil:
			v = followed
		case !errors.Is(err, live.ErrFull): // else the page is as it was a moment ago, until it is loaded again
			return nil, err
		}
	}

	var err error
	if v.list, err = s.listing(c, v); err != nil {
		return nil, err
	}
	if err := s.detail(c, v); err != nil {
		return nil, err
	}
	return v, s.top(c, v)
}

// failures answers with the list of what failed.
func (s *Server) failures(c echo.Context) error {
	v, err := s.view(c, asPageIfEnded, "cursor")
	if err != nil {
		return err
	}
	if v.list, err = v.failed(c); err != nil {
		return err
	}
	return send(c, http.StatusOK, found(v))
}

// found answers with a list of rows in place of the tree.
func (s *Server) found(c echo.Context) error {
	v, err := s.view(c, asPageIfEnded, listingFields...)
	if err != nil {
		return err
	}
	if v.list, err = s.listing(c, v); err != nil {
		return err
	}
	if v.list == nil {
		return httpd.BadField("q", "or show must be given")
	}
	return send(c, http.StatusOK, found(v))
}

// follow reads a run that goes on. What changes after the reading is told from a cursor that was taken before.
func (s *Server) follow(c echo.Context) (*runView, error) {
	cursor, err := s.hub.Cursor(c.Request().Context())
	if err != nil {
		return nil, err
	}
	v, err := s.view(c, fresh, pageNames...)
	if err != nil {
		return nil, err
	}

	q := url.Values{"lean": {"true"}, "after": {cursor}, "root": {v.Plan.Record.RootPlanID}}
	v.events = "/api/v1/plans/" + url.PathEscape(v.Plan.Record.CurrentPlanID) + "/events?" + q.Encode()
	return v, nil
}

// ask is for what of a run a request asks.
type ask struct {
	id   string
	root string // under which the plan is; empty: any
	at   string // the row that is open; empty: the reader chose none
	fold outline.Fold
}

// askOf reads a request for a run, whose query may have more than that of a page.
func askOf(c echo.Context, more ...string) (a ask, err error) {
	if a.id, err = httpd.NativeID(c, "planId"); err != nil {
		return a, err
	}

	q := httpd.QueryOf(c, append([]string{"at", "root", "fold"}, more...)...)
	a.at, a.root = q.Text("at"), q.Text("root")
	a.fold = outline.Fold(q.Text("fold"))
	if q.Err == nil && !slices.Contains(outline.Folds, a.fold) {
		q.Err = httpd.BadField("fold", "must be none, ok or all")
	}
	return a, q.Err
}

// view reads the run for which a request asks, whose query may have more than that of a page.
func (s *Server) view(c echo.Context, most age, more ...string) (*runView, error) {
	asks, err := askOf(c, more...)
	if err != nil {
		return nil, err
	}
	o, err := s.outline(c, asks.root, asks.id, most)
	if err != nil {
		return nil, err
	}

	v := &runView{Outline: o, root: asks.root, fold: asks.fold, now: s.now()}
	v.find(asks.at)
	v.folded = v.Folded(asks.fold, v.open)
	v.from, v.span = v.times()
	return v, nil
}

// outline reads a run, laid out.
func (s *Server) outline(c echo.Context, root, id string, most age) (*outline.Outline, error) {
	if o := s.outlines.get(id, root, s.now(), most); o != nil {
		return o, nil
	}

	o, err := s.lookup.Run(c, root, id)
	if err != nil {
		return nil, err
	}
	s.outlines.add(id, root, o, s.now())
	return o, nil
}

// find opens the row of an address; if there is none, what runs now; else the cause of the failure; else the first row.
func (v *runView) find(at string) {
	open, ok := v.Find(at)
	v.chosen = ok
	if !ok {
		v.lost = at
		if !v.ended() {
			open, ok = v.Newest()
		}
		if !ok {
			open = max(0, v.Cause)
		}
	}
	v.open = open
}

// ended reports whether the run goes on no more.
func (v *runView) ended() bool { return v.Rows[0].State().Terminal() }

// times returns when the rows of the run began, and how long they took in all. What is copied went on in another run.
func (v *runView) times() (from time.Time, span time.Duration) {
	var to time.Time
	for i := range v.Rows {
		if v.Rows[i].ForkedFrom() != nil {
			continue
		}

		start, end := v.Rows[i].TimesAt(v.now)
		if start != nil && (from.IsZero() || start.Before(from)) {
			from = *start
		}
		if end != nil && end.After(to) {
			to = *end
		}
	}
	return from, max(to.Sub(from), time.Millisecond)
}

// failures returns the addresses of the failures, in the order in which they are visited.
func (v *runView) failures() string {
	all := make([]string, len(v.Failures))
	for i, row := range v.Failures {
		all[i] = v.Rows[row].At
	}
	return strings.Join(all, " ")
}

// count says which failure is open, of how many.
func (v *runView) count() string {
	if n := v.Rows[v.open].Number; n > 0 {
		return strconv.Itoa(n) + " of " + strconv.Itoa(len(v.Failures))
	}
	return words.Plural(int64(len(v.Failures)), "failure")
}

// next returns the failure after the one that is open. It comes round again.
func (v *runView) next() *outline.Row {
	return &v.Rows[v.Failures[v.Rows[v.open].Number%len(v.Failures)]]
}

// start says when the run began, for scripts; empty: that is not known.
func (v *runView) start() string {
	if p := &v.Plan.Record; p.StartTime != nil && p.RootPlanID == p.CurrentPlanID {
		return p.StartTime.UTC().Format(time.RFC3339Nano)
	}
	return ""
}

// newest returns the address of the step that began last of those that run; empty: none does.
func (v *runView) newest() string {
	if row, ok := v.Newest(); ok {
		return v.Rows[row].At
	}
	return ""
}

func rowName(r *outline.Row) string {
	name := words.Shorten(r.Name(), 200)
	switch {
	case r.Cycle != nil:
		return "cycle " + strconv.FormatInt(r.Cycle.Record.Seq+1, 10)
	case name != "":
		return name
	case r.Step != nil:
		return "(unnamed agent)"
	case r.Call != nil:
		return "(unnamed tool)"
	case r.Wait != nil:
		return "question"
	}
	return "(unnamed)"
}

func kind(r *outline.Row) string {
	switch {
	case r.Wait != nil:
		return "wait"
	case r.Plan != nil:
		return "plan"
	case r.Step != nil:
		return "step"
	case r.Cycle != nil:
		return "cycle"
	}
	return "call"
}

func (v *runView) lasted(r *outline.Row) string {
	if ran := v.ran(r); ran > 0 {
		return words.Duration(ran.Round(time.Second))
	}
	return words.Took(r.TimesAt(v.now))
}

// ran returns how long a row has been going on; 0: it does not, or that is not known.
func (v *runView) ran(r *outline.Row) time.Duration {
	start, end := r.TimesAt(v.now)
	if r.State().Terminal() || r.Left || start == nil || !v.now.Equal(*end) {
		return 0
	}
	return max(0, v.now.Sub(*start))
}

// amount returns a number as attributes have it.
func amount(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// progressOf returns how far a call at work has come; no text: it has not said.
func progressOf(r *outline.Row) (of record.Progress, text string) {
	if r.Call == nil || optional.Value(r.Call.Record.State) != record.Running {
		return of, ""
	}
	return words.Progress(r.Call.Record.Progress)
}

// inPlaceOf says in whose place the model of a cycle answers, as far as it is short; empty: it is the first.
func inPlaceOf(r *outline.Row) string {
	if r.Cycle == nil {
		return ""
	}
	return words.InPlaceOf(r.Cycle.Record.FallbackFrom)
}

// attempt says which attempt a row is; empty: the first.
func attempt(r *outline.Row) string {
	n := int64(1)
	switch {
	case r.Step != nil:
		n = max(n, optional.Value(r.Step.Record.Attempt))
	case r.Cycle != nil:
		n = max(n, optional.Value(r.Cycle.Record.Attempt))
	case r.Call != nil:
		n = max(n, optional.Value(r.Call.Record.Attempt))
	}

	if n == 1 {
		return ""
	}
	return "attempt " + strconv.FormatInt(n, 10)
}

// barUnits is how wide all bars are together, in the units of their drawing.
const barUnits = 1000

// bar returns where the bar of a row begins and how long it is. ok is false if its times are not known.
func (v *runView) bar(r *outline.Row) (x, width string, ok bool) {
	start, end := r.TimesAt(v.now)
	if start == nil || end == nil || end.Before(*start) || r.ForkedFrom() != nil {
		return "", "", false
	}
	at := float64(start.Sub(v.from)) / float64(v.span) * barUnits
	long := max(float64(end.Sub(*start))/float64(v.span)*barUnits, 4)
	return number(min(at, barUnits-4)), number(long), true
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

func (v *runView) path(r *outline.Row) string { return v.address("", r, v.fold) }

// address returns the address of the page with a row, or of a piece of it. Without a row, it is that of the tree alone.
func (v *runView) address(piece string, r *outline.Row, fold outline.Fold, more ...string) string {
	q := url.Values{}
	if r != nil {
		q.Set("at", r.At)
	}
	if fold != outline.FoldFew {
		q.Set("fold", string(fold))
	}
	if v.root != "" {
		q.Set("root", v.root)
	}

	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return strings.TrimSuffix(runPath(v.Plan.Record.CurrentPlanID)+piece+"?"+q.Encode(), "?")
}

// errorText says what went wrong; empty: that is not on record.
func errorText(kind, message *string) string {
	switch {
	case optional.Value(kind) == "":
		return optional.Value(message)
	case optional.Value(message) == "":
		return optional.Value(kind)
	case strings.HasPrefix(*message, *kind):
		return *message
	}
	return *kind + ": " + *message
}
