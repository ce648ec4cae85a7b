package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/outline"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

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

// maxShown bounds how much of a text the detail shows. The rest is behind a link.
const maxShown = 64 << 10

// shown returns the beginning of a text, indented if it is JSON.
func (p *passage) shown() string { return cut(readable(p.text), maxShown) }

// cut returns the first bytes of a text, to the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// size says how long a text is.
func size(text string) string {
	if n := len(text); n >= 1<<20 {
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
	return strconv.Itoa((len(text)+1023)>>10) + " KiB"
}

// textPath returns the address of a whole text of a row.
func (v *runView) textPath(p *passage) string {
	q := url.Values{"at": {v.Rows[v.open].At}, "name": {p.name}}
	return runPath(v.Plan.Record.CurrentPlanID) + "/text?" + q.Encode()
}

// text answers with a whole text of a row, as it is on record.
func (s *Server) text(c echo.Context) error {
	v, err := s.row(c)
	if err != nil {
		return err
	}
	name := c.QueryParam("name")
	i := slices.IndexFunc(v.detail.texts, func(p passage) bool { return p.name == name })
	if i < 0 {
		return httpd.BadField("name", "must be the name of a text of the row")
	}
	setHeaders(c)
	return c.Blob(http.StatusOK, echo.MIMETextPlainCharsetUTF8, []byte(v.detail.texts[i].text))
}

// row reads a row, and what is on record of it.
func (s *Server) row(c echo.Context) (*runView, error) {
	v, err := s.view(c, settled, "name")
	if err != nil {
		return nil, err
	}
	if v.lost != "" || c.QueryParam("at") == "" {
		return nil, httpd.BadField("at", "must be the address of a row of the run")
	}
	v.detail, err = s.detail(c, &v.Rows[v.open])
	return v, err
}

// rowDetail answers with the detail of a row.
func (s *Server) rowDetail(c echo.Context) error {
	v, err := s.row(c)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, detail(v))
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
		d.texts = append(d.texts, passage{name: name, text: text})
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
