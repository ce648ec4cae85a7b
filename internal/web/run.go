package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/live"
	"github.com/actlog/actlog/internal/outline"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

const (
	// sectionRows is how many rows of a tree stand in one section, which browsers lay out only when it is near.
	sectionRows = 100
	// maxFilled is how many rows a tree may have whose sections are all filled from the beginning.
	maxFilled = 2_000
	// maxIndent bounds how far to the right a row is drawn.
	maxIndent = 32
)

// runView is a run, and the row that is open.
type runView struct {
	*outline.Outline
	open   int  // the row whose detail is shown
	chosen bool // the reader chose it
	folded map[int]bool
	// lost is the address that was asked for, if the run has no such row.
	lost   string
	detail *detailView
	events string // where what changes is told; empty: the run has ended
	now    time.Time
	from   time.Time // when the run began, and how long the bars of its rows are
	span   time.Duration
}

func (s *Server) run(c echo.Context) error {
	v, err := s.view(c, false, lookNames...)
	if err != nil {
		return err
	}
	if !v.Rows[0].State().Terminal() {
		switch followed, err := s.follow(c); {
		case err == nil:
			v = followed
		case !errors.Is(err, live.ErrFull): // else the page is as it was a moment ago, until it is loaded again
			return err
		}
	}
	if err := s.detail(c, v); err != nil {
		return err
	}
	return send(c, http.StatusOK, runPage(v))
}

// follow reads a run that goes on. What changes after the reading is told from a cursor that was taken before.
func (s *Server) follow(c echo.Context) (*runView, error) {
	cursor, err := s.hub.Cursor(c.Request().Context())
	if err != nil {
		return nil, err
	}
	v, err := s.view(c, false, lookNames...)
	if err != nil {
		return nil, err
	}
	q := url.Values{"lean": {"true"}, "after": {cursor}, "root": {v.Plan.Record.RootPlanID}}
	v.events = "/api/v1/plans/" + url.PathEscape(v.Plan.Record.CurrentPlanID) + "/events?" + q.Encode()
	return v, nil
}

// maxPatch is how many rows may be asked for at once.
const maxPatch = 200

// patch answers with rows as they are now, and those above them.
func (s *Server) patch(c echo.Context) error {
	asked := strings.Fields(c.QueryParam("rows"))
	if len(asked) > maxPatch {
		return httpd.BadField("rows", "must be at most "+strconv.Itoa(maxPatch)+" addresses")
	}
	v, err := s.view(c, false, "rows")
	if err != nil {
		return err
	}
	var which []int
	for _, at := range asked {
		if row, ok := v.Find(at); ok {
			which = append(which, v.Path(row)...)
		}
	}
	slices.Sort(which)
	return send(c, http.StatusOK, patch(v, slices.Compact(which)))
}

// before returns the addresses after which a row may stand, the nearest first: the row before it, and what that is under, as
// far as this row is not under it, too.
func (v *runView) before(row int) string {
	var all []string
	for at := row - 1; at >= 0; at = v.Rows[at].Parent {
		all = append(all, v.Rows[at].At)
		if at == v.Rows[row].Parent {
			break
		}
	}
	return strings.Join(all, " ")
}

// rows answers with rows of a run: those under one, or a number of those after one.
func (s *Server) rows(c echo.Context) error {
	v, err := s.view(c, true, "under", "after")
	if err != nil {
		return err
	}
	under, after := c.QueryParam("under"), c.QueryParam("after")
	if (under == "") == (after == "") {
		return httpd.BadField("under", "or after must be given: the address of a row of the run")
	}
	if under != "" {
		row, ok := v.Find(under)
		if !ok {
			return httpd.BadField("under", "must be the address of a row of the run")
		}
		return send(c, http.StatusOK, rows(v, v.under(row)))
	}
	visible := v.Visible(v.folded)
	at := slices.IndexFunc(visible, func(i int) bool { return v.Rows[i].At == after })
	if at < 0 {
		return httpd.BadField("after", "must be the address of a row of the run that is not folded away")
	}
	rest := visible[at+1:]
	return send(c, http.StatusOK, rows(v, rest[:min(len(rest), sectionRows)]))
}

// view reads the run for which a request asks, whose query may have more than the address of a row. Of a piece of a page, it may be as it was when the page was made.
func (s *Server) view(c echo.Context, piece bool, more ...string) (*runView, error) {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return nil, err
	}
	q := httpd.QueryOf(c, append([]string{"at", "root"}, more...)...)
	at, root := q.Text("at"), q.Text("root")
	if q.Err != nil {
		return nil, q.Err
	}
	if piece {
		if o := s.kept.get(id, root, s.now()); o != nil {
			return newRunView(o, at, s.now()), nil
		}
	}
	plan, err := s.store.Within(httpd.AnswerTo(c).Take).Skeleton(c.Request().Context(), root, id)
	if err != nil {
		return nil, err
	}
	o := outline.Of(plan)
	s.kept.add(id, root, o, s.now())
	return newRunView(o, at, s.now()), nil
}

// newRunView opens the row of an address; if there is none, the cause of the failure; else what runs now; else the first row.
func newRunView(o *outline.Outline, at string, now time.Time) *runView {
	v := &runView{Outline: o, now: now}
	open, ok := v.Find(at)
	if !ok {
		v.lost = at
		switch {
		case len(v.Failures) > 0:
			open = v.Failures[0]
		default:
			open, _ = v.Newest()
		}
	}
	v.open, v.chosen, v.folded = open, ok, v.Folded(open)
	v.from, v.span = v.times()
	return v
}

// times returns when the rows of the run began, and how long they took in all.
func (v *runView) times() (from time.Time, span time.Duration) {
	var to time.Time
	for i := range v.Rows {
		start, end := v.rowTimes(&v.Rows[i])
		if start != nil && (from.IsZero() || start.Before(from)) {
			from = *start
		}
		if end != nil && end.After(to) {
			to = *end
		}
	}
	return from, max(to.Sub(from), time.Millisecond)
}

// rowTimes returns when a row began and ended; what has not ended goes on until now.
func (v *runView) rowTimes(r *outline.Row) (start, end *time.Time) {
	if r.Wait != nil {
		start, end = r.Wait.StartTime, r.Wait.EndTime
	} else {
		start, end = r.Times()
	}
	if start != nil && end == nil && !v.state(r).Terminal() {
		end = &v.now
	}
	return start, end
}

// section is a part of the tree. One of a long tree may be empty: it is filled when it comes near.
type section struct {
	rows []int
	from string // where its rows come from; empty: they are there
}

// sections returns the visible rows in sections. Of a long tree, only the first one is filled, and that of the open row.
func (v *runView) sections() (all []section) {
	visible := v.Visible(v.folded)
	long := len(visible) > maxFilled
	for i := 0; i < len(visible); i += sectionRows {
		s := section{rows: visible[i:min(i+sectionRows, len(visible))]}
		if long && i > 0 && !slices.Contains(s.rows, v.open) {
			q := url.Values{"after": {v.Rows[visible[i-1]].At}, "at": {v.Rows[v.open].At}}
			s = section{from: runPath(v.Plan.Record.CurrentPlanID) + "/rows?" + q.Encode()}
		}
		all = append(all, s)
	}
	return all
}

// under returns the rows under one, but for those under a folded one.
func (v *runView) under(row int) (rows []int) {
	for i := row + 1; i <= row+v.Rows[row].Below; i++ {
		rows = append(rows, i)
		if v.folded[i] {
			i += v.Rows[i].Below
		}
	}
	return rows
}

// failures returns the addresses of the failures, in the order in which they are visited.
func (v *runView) failures() string {
	all := make([]string, len(v.Failures))
	for i, row := range v.Failures {
		all[i] = v.Rows[row].At
	}
	return strings.Join(all, " ")
}

// state returns the state of a row.
func (v *runView) state(r *outline.Row) record.State {
	if r.Wait != nil {
		return cmp.Or(orZero(r.Wait.State), record.Waiting)
	}
	return r.State()
}

// name returns what a row is called.
func (v *runView) name(r *outline.Row) string {
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

// kind is the word for what a row is.
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

// lasted says how long a row took.
func (v *runView) lasted(r *outline.Row) string { return words.Took(v.rowTimes(r)) }

// attempt says which attempt a row is; empty: the first.
func attempt(r *outline.Row) string {
	n := int64(1)
	switch {
	case r.Step != nil:
		n = max(n, orZero(r.Step.Record.Attempt))
	case r.Cycle != nil:
		n = max(n, orZero(r.Cycle.Record.Attempt))
	case r.Call != nil:
		n = max(n, orZero(r.Call.Record.Attempt))
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
	start, end := v.rowTimes(r)
	if start == nil || end == nil || end.Before(*start) {
		return "", "", false
	}
	at := float64(start.Sub(v.from)) / float64(v.span) * barUnits
	long := max(float64(end.Sub(*start))/float64(v.span)*barUnits, 4)
	return number(min(at, barUnits-4)), number(long), true
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// path returns the address of a row.
func (v *runView) path(r *outline.Row) string {
	q := url.Values{"at": {r.At}}
	return runPath(v.Plan.Record.CurrentPlanID) + "?" + q.Encode()
}

// reason says why a row failed.
func reason(r *outline.Row) string {
	if r.Wait != nil {
		return ""
	}
	kind, message := r.Error()
	switch {
	case orZero(kind) == "":
		return orZero(message)
	case orZero(message) == "":
		return orZero(kind)
	case strings.HasPrefix(*message, *kind):
		return *message
	}
	return *kind + ": " + *message
}

// why says what the cause of the failure is, in one line. If the row has no text, the rows above may.
func (v *runView) why() string {
	for at := v.Failures[0]; at >= 0; at = v.Rows[at].Parent {
		if text := reason(&v.Rows[at]); text != "" {
			return words.Shorten(text, 300)
		}
	}
	return "no error was recorded"
}
