package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// answerView is how the open question is answered.
type answerView struct {
	refused   string // why it cannot be answered here; empty: it can
	fields    []fieldView
	decisions []string
	remark    string // as it was typed
	remarkBad string // what is wrong with the remark
	wrong     string // what is wrong with all of it
}

// answering says how the open row is answered; nil: it is no question, or was answered.
func (s *Server) answering(c echo.Context, v *runView) (*answerView, error) {
	w, ok := v.detail.row.Record.(*record.Wait)
	if !ok || w.State == nil || *w.State != record.Waiting {
		return nil, nil //nolint:nilnil // there is nothing to answer
	}

	key, err := runstore.NewReader(s.lookup.Reader(c)).RunWait(c.Request().Context(), w.PlanID, w.WaitID)
	switch {
	case errors.Is(err, record.ErrNotFound) || err == nil && key != w.Key():
		return &answerView{refused: "Whoever runs this agent has to answer: it is not run by Actlog."}, nil
	case errors.Is(err, runstore.ErrDecided):
		return &answerView{refused: "The run that asked has ended."}, nil
	case err != nil:
		return nil, err
	case w.ExpiresAt != nil && !w.ExpiresAt.After(s.now()):
		return &answerView{refused: "It has expired: the run goes on without an answer."}, nil
	case !httpd.May(c, httpd.ScopeDecide):
		return &answerView{refused: "Your API key is not for answering: its scopes lack " + string(httpd.ScopeDecide) + "."},
			nil
	}

	a := &answerView{decisions: decision.Decisions(w)}
	if !slices.ContainsFunc(a.decisions, func(d string) bool { return takesValues(w, d) }) {
		return a, nil
	}

	form, err := decision.ReadForm(w.FormInputs)
	if err != nil {
		return &answerView{refused: "Its form is not whole on record."}, nil //nolint:nilerr // that is what it means
	}
	a.fields = make([]fieldView, len(form))
	for i, field := range form {
		a.fields[i] = fieldOf(i, field)
	}
	return a, nil
}

// takesValues reports whether a decision comes with the values of a form.
func takesValues(w *record.Wait, name string) bool { return decision.Decision{Decision: name}.Fills(w) }

// answer decides the open question as a form says.
func (s *Server) answer(c echo.Context) error {
	sent, err := s.form(c)
	if err != nil {
		return err
	}
	v, err := s.view(c, fresh, pageNames...)
	if err != nil {
		return err
	}

	if v.lost != "" || v.Rows[v.open].Wait == nil {
		return httpd.BadField("at", "must be the address of a question of the run")
	}
	if err := s.detail(c, v); err != nil {
		return err
	}

	refuse := func(status int, typed *answerView) error { return s.sendRun(c, v, reply{status: status, typed: typed}) }
	decided := &answerView{wrong: runstore.ErrDecided.Error()}
	a := v.detail.answer
	switch {
	case a == nil:
		return refuse(http.StatusConflict, decided)
	case a.refused != "":
		return refuse(http.StatusConflict, &answerView{wrong: a.refused})
	}

	switch err := s.decide(c, v.detail.row.Record.(*record.Wait), a, sent); {
	case errors.Is(err, runstore.ErrDecided):
		return refuse(http.StatusConflict, decided)
	case errors.Is(err, runstore.ErrSelfApproval):
		a.wrong = runstore.ErrSelfApproval.Error()
		return refuse(http.StatusForbidden, a)
	case err != nil:
		return err
	case a.wrong != "":
		return refuse(http.StatusUnprocessableEntity, a)
	}
	return c.Redirect(http.StatusSeeOther, v.path(&v.Rows[v.open]))
}

// decide writes what a human decided about a question, unless something is wrong with that: then it says what, field by
// field.
func (s *Server) decide(c echo.Context, w *record.Wait, a *answerView, sent url.Values) error {
	a.remark = sent.Get("text")
	d := decision.Decision{Decision: sent.Get("decision"), Text: a.remark, By: httpd.KeyOf(c), Redact: s.runtime.Redact}

	form, _ := decision.ReadForm(w.FormInputs)
	values := make(map[string]json.RawMessage, len(a.fields))
	for i := range a.fields {
		f := &a.fields[i]
		text := f.read(sent)
		values[decision.Key(form[i])], _ = json.Marshal(text) // a text: it cannot fail
		if d.Fills(w) {
			f.wrong, d.Values = decision.Check(form[i], text), values
		}
	}

	err := runs.Decide(c.Request().Context(), s.store, w.Key(), func(*record.Wait) (decision.Decision, error) {
		return d, nil
	})
	bad, ok := errors.AsType[*record.InvalidError](err)
	if !ok {
		return err
	}

	a.wrong = strings.TrimSpace(bad.Field + " " + bad.Reason)
	switch faults := firstWrong(a.fields); {
	case faults > 0:
		a.wrong = words.Plural(faults, "field") + " to correct"
	case bad.Field == "text":
		a.remarkBad, a.wrong = bad.Reason, "1 field to correct"
	}
	return nil
}

// typed puts what was typed, and what is wrong with it, into the form of the detail. If there is none any more, it says
// why.
func (d *detailView) typed(a *answerView) {
	if now := d.answer; now != nil && now.refused == "" && len(now.fields) == len(a.fields) {
		now.fields, now.wrong = a.fields, a.wrong
		now.remark, now.remarkBad = a.remark, a.remarkBad
		return
	}
	d.wrong = a.wrong
}

// remarked reports whether a decision may come with a remark.
func remarked(decisions []string) bool {
	return slices.ContainsFunc(decisions, func(d string) bool { return d != decision.Submit })
}

func remarkLabel(decisions []string) string {
	if slices.Contains(decisions, decision.Modify) {
		return "What is to change, or a remark"
	}
	return "Remark"
}

func decisionWord(d string) string {
	return cmp.Or(map[string]string{
		decision.Submit: "Submit", decision.Approve: "Approve", decision.Accept: "Accept", decision.Reject: "Reject",
		decision.Modify: "Send back", decision.Done: "It was done", decision.Retry: "Do it again",
		decision.Skip: "Go on without it",
	}[d], d)
}

// decisionClass tells what goes on from what does not.
func decisionClass(d string) string {
	switch d {
	case decision.Submit, decision.Approve, decision.Accept:
		return "yes"
	case decision.Reject:
		return "no"
	}
	return ""
}

// planTime says how long a plan may take; empty: it does not say.
func planTime(p *decision.Plan) string {
	if p.EstimatedDuration <= 0 {
		return ""
	}
	return "about " + words.Duration(time.Duration(min(p.EstimatedDuration, 1e9))*time.Second)
}

func stepNumbers(all []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}
