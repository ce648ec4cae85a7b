package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/outline"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

const (
	// sectionRows is how many rows of a tree stand in one section, which browsers lay out only when it is near.
	sectionRows = 100
	// maxIndent bounds how far to the right a row is drawn.
	maxIndent = 32
)

// runView is a run, and the row that is open.
type runView struct {
	*outline.Outline
	root   *tree.Plan
	open   int // the row whose detail is shown
	folded map[int]bool
	// lost is the address that was asked for, if the run has no such row.
	lost   string
	detail *detailView
	now    time.Time
	from   time.Time // when the run began, and how long the bars of its rows are
	span   time.Duration
}

func (s *Server) run(c echo.Context) error {
	v, err := s.view(c)
	if err != nil {
		return err
	}
	if v.detail, err = s.detail(c, &v.Rows[v.open]); err != nil {
		return err
	}
	return send(c, http.StatusOK, runPage(v))
}

// rows answers with the rows under one.
func (s *Server) rows(c echo.Context) error {
	v, err := s.found(c)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, rows(v, v.under(v.open)))
}

// rowDetail answers with the detail of a row.
func (s *Server) rowDetail(c echo.Context) error {
	v, err := s.found(c)
	if err != nil {
		return err
	}
	if v.detail, err = s.detail(c, &v.Rows[v.open]); err != nil {
		return err
	}
	return send(c, http.StatusOK, detail(v))
}

// view reads the run for which a request asks.
func (s *Server) view(c echo.Context) (*runView, error) {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return nil, err
	}
	q := httpd.QueryOf(c, "at", "root")
	at, root := q.Text("at"), q.Text("root")
	if q.Err != nil {
		return nil, q.Err
	}
	plan, err := s.store.Within(httpd.AnswerTo(c).Take).Skeleton(c.Request().Context(), root, id)
	if err != nil {
		return nil, err
	}
	return newRunView(plan, at, s.now()), nil
}

// found is view for a request that has to name a row of the run.
func (s *Server) found(c echo.Context) (*runView, error) {
	v, err := s.view(c)
	if err == nil && (v.lost != "" || c.QueryParam("at") == "") {
		return nil, httpd.BadField("at", "must be the address of a row of the run")
	}
	return v, err
}

// newRunView opens the row of an address; if there is none, the cause of the failure; else what runs now; else the first row.
func newRunView(p *tree.Plan, at string, now time.Time) *runView {
	v := &runView{Outline: outline.Of(p), root: p, now: now}
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
	v.open, v.folded = open, v.Folded(open)
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

// sections returns the visible rows in sections.
func (v *runView) sections() (sections [][]int) {
	rows := v.Visible(v.folded)
	for len(rows) > 0 {
		n := min(len(rows), sectionRows)
		sections, rows = append(sections, rows[:n]), rows[n:]
	}
	return sections
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
	return runPath(v.root.Record.CurrentPlanID) + "?" + q.Encode()
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

// detailView is the detail of a row: facts, and texts.
type detailView struct {
	facts []fact
	texts []passage
}

// fact is a short value with its name.
type fact struct{ name, value string }

// passage is a long text with its name.
type passage struct {
	name, text string
	bad        bool // it says what went wrong
}

// detail reads what is on record of a row.
func (s *Server) detail(c echo.Context, r *outline.Row) (*detailView, error) {
	row, err := s.store.Row(c.Request().Context(), keyOf(r))
	if err != nil {
		return nil, err
	}
	d := new(detailView)
	switch row := row.(type) {
	case *record.Plan:
		d.fact("executor", row.Executor).fact("name", row.Name).fact("project", row.Project).fact("user", row.UserID).fact("model", row.ModelName).fact("conversation", row.ConversationID)
		d.failure(row.ErrorMessage).passage("request", row.UserRequest).passage("summary", row.Summary).json("metadata", row.Metadata)
	case *record.AgentExecution:
		d.fact("agent", row.AgentName).fact("version", row.AgentVersion).fact("model", row.ModelName)
		d.failure(row.ErrorMessage).passage("request", row.AgentRequest).passage("result", row.Result).json("metadata", row.Metadata)
	case *record.ThinkAct:
		d.fact("provider", row.Provider).fact("model", row.ModelName).fact("finish reason", row.FinishReason)
		d.count("input tokens", row.InputTokens).count("output tokens", row.OutputTokens).count("cached tokens", row.CacheReadInputTokens).count("reasoning tokens", row.ReasoningTokens)
		d.failure(row.ErrorMessage).passage("answer", row.ThinkOutput).passage("input", row.ThinkInput).passage("action", row.ActionDescription).passage("action result", row.ActionResult).json("metadata", row.Metadata)
	case *record.ActTool:
		d.fact("server", row.ServerName).fact("tool", row.Name)
		d.failure(row.ErrorMessage).passage("parameters", row.Parameters).passage("result", row.Result).json("metadata", row.Metadata)
	case *record.Wait:
		d.fact("type", (*string)(row.Type)).fact("decided by", row.DecidedBy).fact("decision", row.Decision)
		d.passage("question", row.FormDescription).passage("answer", row.DecisionText).json("form", row.FormInputs).json("subject", row.Subject)
	}
	return d, nil
}

// keyOf returns the key of what a row shows.
func keyOf(r *outline.Row) record.Key {
	switch {
	case r.Wait != nil:
		return r.Wait.Key()
	case r.Plan != nil:
		return r.Plan.Record.Key()
	case r.Step != nil:
		return r.Step.Record.Key()
	case r.Cycle != nil:
		return r.Cycle.Record.Key()
	}
	return r.Call.Record.Key()
}

func (d *detailView) fact(name string, value *string) *detailView {
	if value := orZero(value); value != "" {
		d.facts = append(d.facts, fact{name, value})
	}
	return d
}

func (d *detailView) count(name string, n *int64) *detailView {
	if n != nil {
		d.facts = append(d.facts, fact{name, words.Grouped(*n)})
	}
	return d
}

func (d *detailView) passage(name string, text *string) *detailView {
	if text := orZero(text); text != "" {
		d.texts = append(d.texts, passage{name: name, text: readable(text)})
	}
	return d
}

func (d *detailView) failure(message *string) *detailView {
	if message := orZero(message); message != "" {
		d.texts = append(d.texts, passage{"error", message, true})
	}
	return d
}

func (d *detailView) json(name string, value json.RawMessage) *detailView {
	return d.passage(name, new(string(value)))
}

// readable indents a text that is JSON. Its numbers stay as they are.
func readable(text string) string {
	var b bytes.Buffer
	if first := text[0]; first != '{' && first != '[' || json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}
