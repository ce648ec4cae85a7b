package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// faults returns what is wrong with the fields of a form, by their ids.
func (p *page) faults() map[string]string {
	all := map[string]string{}
	for _, n := range p.all("aria-invalid", "true") {
		said := p.one("id", attr(n, "aria-describedby"))
		all[strings.TrimSuffix(attr(said, "id"), "-wrong")] = text(said)
	}
	return all
}

// chosen returns the values that a form would send.
func (p *page) chosen() url.Values {
	values := url.Values{}
	form := p.one("class", "answer")
	for n := range form.Descendants() {
		name := attr(n, "name")
		checked, selected := has(n, "checked"), has(n, "selected")
		switch {
		case n.Data == "textarea" && n.FirstChild != nil:
			values.Set(name, n.FirstChild.Data)
		case n.Data == "option" && selected:
			for above := range n.Ancestors() {
				if above.Data == "select" {
					values.Set(attr(above, "name"), attr(n, "value"))
				}
			}
		case n.Data == "input" && (attr(n, "type") == "radio" || attr(n, "type") == "checkbox"):
			if checked {
				values.Add(name, attr(n, "value"))
			}
		case n.Data == "input":
			values.Set(name, attr(n, "value"))
		}
	}

	return values
}

// TestAnswerForm: a form has every type of input. A wrong answer is told field by field, with what was typed kept; a
// right one is what the agent gets. A second one is too late.
func TestAnswerForm(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("form")
	at := s.asks(id)
	p := s.get(at, http.StatusOK)
	p.has("question Who are you?", "explanation We need this for the refund.", "Your name required", "Region required",
		"Agreed required")

	form := p.one("class", "answer")
	if attr(form, "method") != "post" || attr(form, "action") != at+"&view=readable" ||
		len(p.all("name", "decision")) != 1 || strings.Contains(text(form), "Message") {
		t.Errorf("the form goes to %s", attr(form, "action"))
	}

	wrong := url.Values{
		"decision": {"submit"}, "value-0": {" "}, "value-1": {"9o"}, "value-2": {"ann"}, "value-3": {"1234"},
		"value-4": {"a\r\nb <b>"}, "value-5": {"MARS"}, "value-6": {"chair", "<b>"},
	}
	answer := s.send("POST", at, wrong.Encode())
	p = parse(t, answer)

	want := map[string]string{
		"value-0": "is required", "value-1": "must be a number", "value-2": "must be an email address",
		"value-5": "must be one of EMEA, APAC", "value-7": "is required", "value-8": "is required",
	}
	if got := p.faults(); answer.StatusCode != http.StatusUnprocessableEntity || !equal(got, want) ||
		text(p.one("role", "alert")) != "6 fields to correct" {
		t.Errorf("%d: %v", answer.StatusCode, got)
	}
	if !has(p.one("id", "value-0"), "autofocus") {
		t.Error("the first fault has no focus")
	}

	kept := p.chosen()
	if kept.Get("value-1") != "9o" || kept.Get("value-3") != "" ||
		strings.TrimPrefix(kept.Get("value-4"), "\n") != "a\nb <b>" ||
		!slices.Equal(kept["value-6"], []string{"chair", "<b>"}) {
		t.Errorf("kept is %v", kept)
	}

	right := url.Values{"decision": {"submit"}, "value-0": {"Ann card-12345"}, "value-1": {"12345678901234567890.10"},
		"value-2": {"a@example.com"}, "value-3": {"1234"}, "value-4": {"a\r\nb"}, "value-5": {"APAC"},
		"value-6": {"lamp", "<b>"}, "value-7": {"cash"}, "value-8": {"true"}}
	if got := s.send("POST", at, right.Encode()); got.StatusCode != http.StatusSeeOther ||
		got.Header.Get("Location") != at {
		t.Fatalf("got.StatusCode = %d to %s: %s", got.StatusCode, got.Header.Get("Location"), text(parse(t, got).root))
	}
	if got, want := s.ends(id, record.Completed),
		`{"agreed":"true","amount":"12345678901234567890.10","how":"cash","items":"lamp,<b>","mail":"a@example.com","name":"Ann [redacted]","news":"false","pin":"[password]","region":"APAC","story":"a\nb"}`; strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(got) != want {
		t.Errorf("the agent got %s, want %s", got, want)
	}

	p = s.get(at, http.StatusOK)
	p.has("answer Region APAC", "answer submit")
	if len(p.all("class", "answer")) != 0 {
		t.Error("there is still a form")
	}

	late := s.send("POST", at, right.Encode())
	if got := text(parse(t, late).one("role", "alert")); late.StatusCode != http.StatusConflict ||
		got != "the wait was decided before, or has expired" {
		t.Errorf("%d: %s", late.StatusCode, got)
	}
}

func equal[K, V comparable](a, b map[K]V) bool {
	if len(a) != len(b) {
		return false
	}

	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// TestAnswerApproval: who approves sees exactly what will run, with what it hides. A rejection may say why.
func TestAnswerApproval(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("refund")
	at := s.asks(id)
	p := s.get(at, http.StatusOK)
	if raw := s.get(at+"&view=raw", http.StatusOK); len(raw.all("name", "decision")) != 0 ||
		!strings.Contains(text(raw.detail()), "Answer it") {
		t.Error("it can be approved where it may be cut")
	}

	p.has("tool shop.refund", "files book <b>.md", "parameter note two lines <b>")
	shown := strings.Join(pre(p.detail()), "\n--\n")
	for _, part := range []string{`"to": "Ann \u202ennA"`, `"amount": 12345678901234567890.10`, `"note": "two\nlines <b>"`,
		"two\nlines <b>", "POST /refunds\n\nto=<i>Ann \\u202ennA"} {
		if !strings.Contains(shown, part) {
			t.Errorf("it lacks %s: %s", part, shown)
		}
	}

	answer := s.send("POST", at, "decision=modify&text=other")
	if got := text(parse(t, answer).one("role", "alert")); answer.StatusCode != http.StatusUnprocessableEntity ||
		got != "decision must be one of approve, reject" {
		t.Errorf("%d: %s", answer.StatusCode, got)
	}
	if kept := parse(t, s.send("POST", at, "text=typed")).chosen(); strings.TrimSpace(kept.Get("text")) != "typed" {
		t.Errorf("kept is %v", kept)
	}

	s.send("POST", at, url.Values{"decision": {"approve"}, "text": {"fine"}}.Encode())
	if got := s.ends(id, record.Completed); got != "sent to Ann \u202ennA" {
		t.Errorf("it answers %q", got)
	}
	s.get(at, http.StatusOK).has("answer approve", "remark fine")

	rejected := s.start("refund")
	s.send("POST", s.asks(rejected), url.Values{"decision": {"reject"}, "text": {"too much"}}.Encode())
	if got := s.ends(rejected, record.Completed); !strings.Contains(got, "too much") {
		t.Errorf("it answers %q", got)
	}
}

// TestAnswerNeedsScope: who may not answer sees why, and so does who looks at a question of an agent that somebody else
// runs. Nobody answers from another site.
func TestAnswerNeedsScope(t *testing.T) {
	t.Parallel()
	all, secret := keys(t, httpd.ScopeRead)
	s := openShop(t, httpd.Config{Keys: all})
	id := s.start("refund")
	at := s.asks(id)
	as := func(method, path, body string, header ...string) *http.Response {
		return s.send(method, path, body, append(header, "Authorization", "Bearer "+secret)...)
	}

	p := parse(t, as("GET", at, ""))
	p.has("Your API key is not for answering: its scopes lack decide.")
	if len(p.all("name", "decision")) != 0 {
		t.Error("there are buttons")
	}
	if got := as("POST", at, "decision=approve"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	all, secret = keys(t, httpd.ScopeDecide)
	s.door.SetKeys(all)
	if got := as("POST", at, "decision=approve"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	all, secret = keys(t, httpd.ScopeRead, httpd.ScopeDecide)
	s.door.SetKeys(all)
	if got := as("POST", at, "decision=approve", "Sec-Fetch-Site", "cross-site"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	if got := as("POST", at, `{}`, "Content-Type", "application/json"); got.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	if got := as("POST", at, "decision=approve&text="+
		strings.Repeat("x", 5<<20)); got.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	if got := as("POST", at, "decision=approve&text=%00"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	if got := as("POST", "/runs/"+id, "decision=approve"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "theirs", CurrentPlanID: "theirs", State: new(record.Waiting)},
		&record.Wait{
			RootPlanID: "theirs", PlanID: "theirs", WaitID: "w", Type: new(record.WaitActionValidation), Title: new("Delete?"),
			StartTime: new(time.Now().Add(-time.Hour)),
		})

	p = parse(t, as("GET", "/runs/theirs?at=wait:w", ""))
	p.has("question Delete?", "Whoever runs this agent has to answer: it is not run by Actlog.", "waited 1h")
	if len(p.all("name", "decision")) != 0 {
		t.Error("there are buttons")
	}
	if got := as("POST", "/runs/theirs?at=wait:w", "decision=approve"); got.StatusCode != http.StatusConflict {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	if got := as("POST", at, "decision=approve", "Sec-Fetch-Site", "same-origin"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	s.ends(id, record.Completed)
	if by := as("GET", at, ""); !strings.Contains(text(parse(t, by).detail()), "answered by reader") {
		t.Error("it does not say who answered")
	}
}

// TestAnswerPlan: a plan that is to be accepted is a list of its steps. It is sent back with what is to change, and
// accepted.
func TestAnswerPlan(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.carry("orchestrator", map[string]string{"request": "How many TODOs are there?"})
	at := s.asks(id)
	p := s.get(at, http.StatusOK)
	p.has("plan Count the TODOs about 1m30s", "Approve its actions, too")

	var steps []string
	for n := range p.one("class", "plan-steps").ChildNodes() {
		steps = append(steps, text(n))
	}

	want := []string{
		"RAG_SEARCH Find TODOs <b> To count them expected: A list", "RAG_SEARCH Count them It was asked for after step 1",
	}
	if !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}

	answer := s.send("POST", at, "decision=modify&value-0=true&text=+")
	p = parse(t, answer)
	if got := p.faults(); answer.StatusCode != http.StatusUnprocessableEntity ||
		!equal(got, map[string]string{"text": "is required: it says what to change"}) {
		t.Errorf("%d: %v", answer.StatusCode, got)
	}
	if kept := p.chosen(); kept.Get("value-0") != "true" {
		t.Errorf("kept is %v", kept)
	}

	if got := s.send("POST", at, "decision=modify&value-0=&text=less"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	again := s.asks(id)
	s.get(again, http.StatusOK).has("Find less")
	if got := s.send("POST", again, "decision=accept&value-0=false"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("%d: %s", got.StatusCode, text(parse(t, got).root))
	}

	if got := s.ends(id, record.Completed); got != "There are 30." {
		t.Errorf("it answers %q", got)
	}
	s.get(again, http.StatusOK).has("plan Count the TODOs", "answer accept", "answer Approve its actions, too false")
}

// TestAnswerHostile: whatever an agent asks is text, also in a form, in what it is answered with, and in what is to be
// approved.
func TestAnswerHostile(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("hostile")
	at := s.asks(id)
	s.get("/waits", http.StatusOK)
	p := s.get(at, http.StatusOK) // it checks the page
	if got := len(p.all("class", "field")); got != len(engine.InputTypes) {
		t.Errorf("%d fields", got)
	}

	_, long := all()
	wrong, right := url.Values{"decision": {"submit"}}, url.Values{"decision": {"submit"}}
	for i, kind := range engine.InputTypes {
		id := "value-" + strconv.Itoa(i)
		wrong.Set(id, strings.NewReplacer("\x00", "", "\xff\xfe", "").Replace(long))
		right.Set(id, map[string]string{
			"number": "1", "email": "a@example.com", "select": payloads[0], "checkbox": payloads[0], "radio": payloads[0],
		}[kind])
	}

	answer := s.send("POST", at, wrong.Encode())
	if p = parse(t, answer); answer.StatusCode != http.StatusUnprocessableEntity || len(p.faults()) != 5 {
		t.Errorf("answer.StatusCode = %d %v", answer.StatusCode, p.faults())
	}
	p.harmless(at)
	if answer = s.send("POST", at, right.Encode()); answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("answer.StatusCode = %d %v", answer.StatusCode, parse(t, answer).faults())
	}

	p = s.get(s.asks(id), http.StatusOK)
	if shown := pre(p.detail()); !slices.ContainsFunc(shown, func(text string) bool {
		return strings.Contains(text, `\u202eevil\u2066\u2069\u200b\ufeff`) && strings.Contains(text, payloads[0])
	}) {
		t.Errorf("what is approved is shown as %q", shown)
	}
}
