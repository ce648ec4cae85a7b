package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/view/words"
)

type startView struct {
	all     []engine.Startable
	what    *engine.Startable // that was chosen; nil: nothing was
	fields  []member
	more    []member // that are rarely given
	key     string   // what is sent twice starts one run
	wrong   string
	refused string // why nothing can be started; empty: it can
}

// member is a field of the form that is a member of the body of POST /api/v1/runs.
type member struct {
	fieldView
	path []string
	as   func(text string) any // its value in JSON
}

// offered is how handlers know that the page offers to start runs.
const offered = "offered"

// offering lets a page lead to where runs are started, if there is something to start, and the reader may.
func (s *Server) offering(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set(offered, func() bool { return httpd.May(c, httpd.ScopeRun) && len(s.startables()) > 0 })
		return h(c)
	}
}

func (s *Server) startables() []engine.Startable {
	if s.runtime.Catalog == nil {
		return nil
	}
	return s.runtime.Catalog.Startables()
}

// startPage shows of what runs can be started, and the form of what was chosen.
func (s *Server) startPage(c echo.Context) error {
	v, err := s.starting(c)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, startPage(v))
}

func (s *Server) start(c echo.Context) error {
	sent, err := s.form(c)
	if err != nil {
		return err
	}
	v, err := s.starting(c)
	if err != nil {
		return err
	}
	if v.what == nil {
		return httpd.BadField("executor", "must be given, with the name of what is to run")
	}

	body, err := json.Marshal(v.body(sent))
	if err != nil {
		return err
	}

	content := sha256.Sum256(body)
	id, err := s.runtime.Starter.StartRun(c.Request().Context(), httpd.KeyOf(c), body,
		sent.Get("key")+hex.EncodeToString(content[:16]))
	p := new(httpd.Problem)
	switch {
	case err == nil:
		return c.Redirect(http.StatusSeeOther, runPath(id))
	case !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity:
		return err
	}

	v.fault(p)
	return send(c, p.Status, startPage(v))
}

func (s *Server) starting(c echo.Context) (*startView, error) {
	q := httpd.QueryOf(c, "executor", "name", "type")
	if q.Err != nil {
		return nil, q.Err
	}

	v := &startView{all: s.startables(), key: rand.Text()}
	switch {
	case len(v.all) == 0:
		v.refused = "This server has no configuration of agents: actlog serve --config FILE."
	case !httpd.May(c, httpd.ScopeRun):
		v.refused = "Your API key is not for starting runs: its scopes lack " + string(httpd.ScopeRun) + "."
	}
	if q.Text("executor") == "" || v.refused != "" {
		return v, nil
	}

	i := slices.IndexFunc(v.all, func(a engine.Startable) bool {
		return a.Executor == q.Text("executor") && a.Name == q.Text("name") &&
			(q.Text("type") == "" || a.Type == q.Text("type"))
	})
	if i < 0 {
		return nil, httpd.BadField("name", "is not that of anything that can be started here")
	}

	v.what = &v.all[i]
	v.fields, v.more = fieldsOf(v.what), common()
	return v, nil
}

func fieldsOf(a *engine.Startable) []member {
	all := make([]member, len(a.Fields))
	for i, f := range a.Fields {
		all[i] = member{
			fieldView{kind: f.Kind, label: f.Label, hint: f.Hint, required: f.Required, options: f.Options},
			append([]string{"input"}, f.Member...), asText,
		}
		switch {
		case f.Kind == "flag":
			all[i].as = func(string) any { return f.Value }
		case f.JSON:
			all[i].as = asJSON
		}
	}
	return named(all)
}

func common() []member {
	text := func(label, name string) member {
		return member{fieldView{kind: "text", label: label}, []string{name}, asText}
	}

	tags := text("Tags", "tags")
	tags.hint, tags.as = "one, two", func(text string) any {
		var list []string
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list
	}

	all := []member{text("Project", "project"), text("User", "userId"), text("Conversation", "conversationId"), tags}
	for _, limit := range [][2]string{
		{"rounds", "Rounds at most"}, {"toolCalls", "Tool calls at most"}, {"tokens", "Tokens at most"},
		{"costUsd", "Cost at most, $"}, {"seconds", "Seconds at most"},
	} {
		all = append(all, member{fieldView{kind: "number", label: limit[1]}, []string{"limits", limit[0]}, asJSON})
	}
	return named(all)
}

func named(all []member) []member {
	for i := range all {
		all[i].id = strings.Join(all[i].path, ".")
	}
	return all
}

func asText(text string) any { return text }

// asJSON is a value as JSON, or else as a text.
func asJSON(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// body reads a form, and returns the body of a request.
func (v *startView) body(sent url.Values) map[string]any {
	input := map[string]any{}
	maps.Copy(input, v.what.Input)

	body := map[string]any{"executor": v.what.Executor, "input": input}
	if v.what.Input == nil && v.what.Name != "" {
		body["name"] = v.what.Name
	}

	for _, fields := range [][]member{v.fields, v.more} {
		for i := range fields {
			m := &fields[i]
			m.given = sent[m.id]
			text := strings.Join(m.given, ",")
			if strings.TrimSpace(text) == "" {
				continue // as if it were not there
			}

			in := body
			for _, name := range m.path[:len(m.path)-1] {
				next, ok := in[name].(map[string]any)
				if !ok {
					next = map[string]any{}
					in[name] = next
				}
				in = next
			}
			in[m.path[len(m.path)-1]] = m.as(text)
		}
	}
	return body
}

// fault says what is wrong, beside the field that it names.
func (v *startView) fault(p *httpd.Problem) {
	v.wrong = p.Detail
	for _, fields := range [][]member{v.fields, v.more} {
		for i := range fields {
			if fields[i].id == p.Field {
				fields[i].wrong, fields[i].first = strings.TrimSpace(strings.TrimPrefix(p.Detail, p.Field)), true
				v.wrong = words.Plural(1, "field") + " to correct"
			}
		}
	}
}

// given reports whether one of the rarer fields was filled in, or is wrong.
func given(fields []member) bool {
	return slices.ContainsFunc(fields, func(m member) bool { return m.wrong != "" || m.value() != "" })
}

func startPath(a *engine.Startable) string {
	return "/start?" + withValues(url.Values{"executor": {a.Executor}, "name": {a.Name}, "type": {a.Type}}).Encode()
}
