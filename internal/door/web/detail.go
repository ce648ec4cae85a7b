package web

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// The views of a row: for reading, with its texts as they are, and as the API has it.
const (
	viewReadable = "readable"
	viewRaw      = "raw"
	viewJSON     = "json"
)

var views = []string{viewReadable, viewRaw, viewJSON}

// look says how a reader looks at a row.
type look struct {
	view     string
	whole    string // the text that is shown whole; empty: none
	markdown string // the text that is shown as Markdown; empty: none
	earlier  bool   // messages that the cycle before had are shown, too
}

// lookNames are the members of a query that say it.
var lookNames = []string{"view", "whole", "markdown", "earlier"}

// viewCookie remembers the view.
const viewCookie = "actlog-view"

// lookOf reads how a row is looked at. The view is the one that was chosen last.
func lookOf(c echo.Context) (l look, err error) {
	q := httpd.KnownQueryOf(c, lookNames...)
	l = look{view: q.Text("view"), whole: q.Text("whole"), markdown: q.Text("markdown"), earlier: q.Flag("earlier")}
	switch {
	case q.Err != nil:
		return l, q.Err
	case l.view == "":
		l.view = viewReadable
		if kept, err := c.Cookie(viewCookie); err == nil && slices.Contains(views, kept.Value) {
			l.view = kept.Value
		}
	case !slices.Contains(views, l.view):
		return l, httpd.BadField("view", "must be one of "+strings.Join(views, ", "))
	default:
		c.SetCookie(&http.Cookie{ //nolint:gosec // it is no secret
			Name: viewCookie, Value: l.view, Path: "/runs/", MaxAge: 365 * 24 * 3600, HttpOnly: true,
			SameSite: http.SameSiteLaxMode,
		})
	}
	return l, nil
}

type detailView struct {
	look
	row   *store.Detail
	facts facts
	// started are the runs that say that the open plan or tool call started them.
	started []store.StartedPlan
	notes   []string
	texts   []*passage
	cycle   *cycleView // nil: the row is no cycle, or is not shown for reading

	all    map[string]*passage // all texts, by their ids
	left   int                 // how much of them may still be shown
	called map[string]string   // the names of tool calls, by their ids

	outcome *outcomeView // of a run; nil: its answer is all

	plan   *decision.Plan // that is to be accepted; nil: none is
	answer *answerView    // how the row is answered; nil: it is no open question
	fork   *forkView      // how a new run continues from the row; nil: none can
	wrong  string         // what is wrong with an answer for which there is no form any more
}

// detail reads what is on record of the open row.
func (s *Server) detail(c echo.Context, v *runView) error {
	l, err := lookOf(c)
	if err != nil {
		return err
	}

	r := &v.Rows[v.open]
	row, err := s.lookup.Reader(c).Detail(c.Request().Context(), r.Key())
	if err != nil {
		return err
	}

	v.detail = &detailView{look: l, row: row, all: map[string]*passage{}, left: maxAtOnce}
	if v.detail.answer, err = s.answering(c, v); err != nil {
		return err
	}
	if v.detail.started, err = s.started(c, v); err != nil {
		return err
	}

	if v.detail.fork, err = s.forking(c, v); err != nil {
		return err
	}

	v.detail.facts = v.factsOf(row.Record)
	v.detail.notes = v.notesOf()
	switch l.view {
	case viewJSON:
		v.detail.text(&passage{id: "record", label: "record", text: string(s.rowJSON(row.Row))})
	case viewRaw:
		v.detail.rawTexts()
	default:
		return s.readable(c, v, row)
	}
	return nil
}

// started reads which runs say that the open row started them.
func (s *Server) started(c echo.Context, v *runView) ([]store.StartedPlan, error) {
	switch open := &v.Rows[v.open]; {
	case open.Plan != nil:
		return s.lookup.Reader(c).StartedBy(c.Request().Context(), open.Plan.Record.CurrentPlanID, "")
	case open.Call != nil:
		above := open
		for above.Plan == nil {
			above = &v.Rows[above.Parent]
		}
		plan, call := above.Plan.Record.CurrentPlanID, open.Call.Record.ToolCallID
		return s.lookup.Reader(c).StartedBy(c.Request().Context(), plan, call)
	}
	return nil, nil
}

// text adds a text, unless it is empty.
func (d *detailView) text(p *passage) {
	if p.text == "" {
		return
	}
	d.lay(p)
	d.texts = append(d.texts, p)
}

// lay decides what is shown of a text, which can be asked for from now on.
func (d *detailView) lay(p *passage) *passage {
	name, _, _ := strings.Cut(p.id, "/")
	p.lost = slices.Contains(d.row.Truncated, name)
	p.lay(&d.look, &d.left)
	d.all[p.id] = p
	return p
}

// rawTexts adds all texts of the row as they are, each with the name that it has in the API.
func (d *detailView) rawTexts() {
	for _, f := range field.Fields(d.row.Record.Kind()) {
		if !f.Long() || !f.Readable() {
			continue
		}

		text, ok := f.Text(d.row.Record)
		if value := f.In(d.row.Record); !ok && f.Type == field.JSON {
			text = string(value.Bytes())
		}
		d.text(&passage{id: f.Name, label: f.Name, text: tree.Readable(f.Name, text), raw: true})
	}
}

// readable adds the texts of a row for reading: what went wrong first.
func (s *Server) readable(c echo.Context, v *runView, row *store.Detail) error {
	d := v.detail
	add := func(id, label string, text *string) {
		d.text(&passage{id: id, label: label, text: optional.Value(text), bad: id == "errorMessage"})
	}
	aside := func(id, label string, value []byte) {
		d.text(&passage{id: id, label: label, text: string(value), aside: true})
	}

	switch r := row.Record.(type) {
	case *record.Plan:
		add("errorMessage", "error", r.ErrorMessage)
		add("userRequest", "goal", r.UserRequest)
		came, err := outcomesOf(c.Request().Context(), s.lookup.Reader(c), r)
		if err != nil {
			return err
		}
		d.outcome = came[r.RootPlanID]
		add("summary", "result", answerOf(r.Summary, r.ErrorMessage))
		aside("metadata", "metadata", r.Metadata)
	case *record.AgentExecution:
		add("errorMessage", "error", r.ErrorMessage)
		add("agentRequest", "goal", r.AgentRequest)
		add("result", "answer", answerOf(r.Result, r.ErrorMessage))
		add("agentDescription", "agent", r.AgentDescription)
		aside("metadata", "metadata", r.Metadata)
	case *record.ThinkAct:
		add("errorMessage", "error", r.ErrorMessage)
		if err := s.readCycle(c, v, r); err != nil {
			return err
		}
		add("actionDescription", "action", r.ActionDescription)
		add("actionResult", "action result", r.ActionResult)
		aside("metadata", "metadata", r.Metadata)
	case *record.ActTool:
		add("errorMessage", "error", r.ErrorMessage)
		add("parameters", "parameters", r.Parameters)
		add("result", "result", answerOf(r.Result, r.ErrorMessage))
		aside("policy", "policy", r.Policy)
		aside("metadata", "metadata", r.Metadata)
	case *record.Wait:
		v.readWait(r)
	}
	return nil
}

// answerOf returns the answer in a result; nil: there is none, or it is what is said of the failure, too.
func answerOf(result, failure *string) *string {
	if result == nil {
		return nil
	}
	answer := tree.Answer(*result)
	if answer != *result && answer == optional.Value(failure) {
		return nil
	}
	return &answer
}

// row reads a row, and what is on record of it.
func (s *Server) row(c echo.Context) (*runView, error) {
	v, err := s.view(c, asPageIfEnded, append([]string{"name"}, lookNames...)...)
	if err != nil {
		return nil, err
	}
	if v.lost != "" || !v.chosen {
		return nil, httpd.BadField("at", "must be the address of a row of the run")
	}
	return v, s.detail(c, v)
}

func (s *Server) rowDetail(c echo.Context) error {
	v, err := s.row(c)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, detail(v))
}

// text answers with a whole text of a row as it is on record, as a file.
func (s *Server) text(c echo.Context) error {
	v, err := s.row(c)
	if err != nil {
		return err
	}

	p := v.detail.all[c.QueryParam("name")]
	if p == nil {
		return httpd.BadField("name", "must be the name of a text of the row")
	}

	setHeaders(c)
	c.Response().Header().Set(echo.HeaderContentDisposition,
		mime.FormatMediaType("attachment", map[string]string{"filename": fileName(&v.Rows[v.open], p)}))
	return c.Blob(http.StatusOK, echo.MIMETextPlainCharsetUTF8, []byte(p.text))
}

func fileName(r *outline.Row, p *passage) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, r.At+"-"+p.id)

	if len(name) > 100 {
		name = name[:60] + name[len(name)-40:]
	}
	if p.isJSON() {
		return name + ".json"
	}
	return name + ".txt"
}

func (v *runView) textPath(p *passage) string {
	return v.address("/text", &v.Rows[v.open], v.fold, v.looking("name", p.id)...)
}

// lookPath returns the address of the open row, looked at as now, but for one thing. It leads to a text, if that is
// named.
func (v *runView) lookPath(name, value, text string) string {
	path := v.address("", &v.Rows[v.open], v.fold, v.looking(name, value)...)
	if text != "" {
		path += "#" + url.PathEscape(textID(text))
	}
	return path
}

// looking returns the members of a query that say how the open row is looked at, but for one of them.
func (v *runView) looking(name, value string) (query []string) {
	now := map[string]string{"view": v.detail.view}
	if v.detail.earlier {
		now["earlier"] = "true"
	}
	now[name] = value
	for name, value := range now {
		if value != "" {
			query = append(query, name, value)
		}
	}
	return query
}

func textID(id string) string { return "text:" + id }

func viewWord(view string) string {
	return map[string]string{viewReadable: "Readable", viewRaw: "Raw", viewJSON: "JSON"}[view]
}
