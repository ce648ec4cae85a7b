package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// buttons returns what a page asks of its run, by the words on the buttons.
func (p *page) buttons() (words string) {
	for _, n := range p.all("name", "action") {
		if attr(n, "value") != "fork" { // which is of a row
			words += text(n) + ", "
		}
	}
	return strings.TrimSuffix(words, ", ")
}

// TestControl: a run of the runtime is paused, goes on and is stopped, as long as it has not ended.
func TestControl(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("refund")
	at := s.asks(id)

	do := func(p *page, action string) *http.Response {
		t.Helper()
		return s.send("POST", attr(p.one("class", "control"), "action"), "action="+action)
	}
	becomes := func(state record.State, buttons string) *page {
		t.Helper()
		storetest.Until(t, string(state), func() bool { return s.run(id).State == state })
		p := s.get(at, http.StatusOK)
		if got := p.buttons(); got != buttons {
			t.Errorf("a run that is %s may %q, want %q", state, got, buttons)
		}
		return p
	}

	p := becomes(record.Waiting, "Pause, Stop for good, Send")
	if got := do(p, "pause"); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != at {
		t.Fatalf("got.StatusCode = %d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	p = becomes(record.Paused, "Resume, Stop for good, Send")
	patch := s.get("/runs/"+id+"/patch?rows=plan:"+id, http.StatusOK)
	if patch.buttons() != "Resume, Stop for good, Send" {
		t.Errorf("a patch may %q", patch.buttons())
	}

	do(p, "resume")
	p = becomes(record.Waiting, "Pause, Stop for good, Send")
	if got := do(p, "jump"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	do(p, "stop")
	becomes(record.Cancelled, "Retry, Run again")
	late := do(p, "stop")
	if got := text(parse(t, late).one("role", "alert")); late.StatusCode != http.StatusConflict ||
		got != "The run had ended before." {
		t.Errorf("%d: %s", late.StatusCode, got)
	}

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "theirs", CurrentPlanID: "theirs", State: new(record.Running)})
	if got := s.get("/runs/theirs", http.StatusOK).buttons(); got != "" {
		t.Errorf("a run of somebody else may %q", got)
	}

	theirs := s.send("POST", "/runs/theirs/control", "action=stop")
	if got := text(parse(t, theirs).one("role", "alert")); theirs.StatusCode != http.StatusConflict ||
		!strings.Contains(got, "not run by Actlog") {
		t.Errorf("%d: %s", theirs.StatusCode, got)
	}
	if got := s.send("POST", "/runs/none/control", "action=stop"); got.StatusCode != http.StatusNotFound {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
}

// TestParked: a run whose model is away says so, and asks it at once if somebody wants that.
func TestParked(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("away")
	storetest.Until(t, "the run waits for its model", func() bool {
		d := s.run(id)
		return d.State == record.Paused && len(d.WaitingFor) > 0
	})

	p := s.get("/runs/"+id, http.StatusOK)
	if got := p.buttons(); got != "Try now, Pause, Stop for good, Send" {
		t.Errorf("it may %q", got)
	}
	if got := text(p.one("class", "parked")); !strings.Contains(got, "model:default is away since 2") ||
		!strings.Contains(got, "busy <b>") || !strings.Contains(got, "Tries again at ") {
		t.Errorf("it says %q", got)
	}

	s.send("POST", attr(p.one("class", "control"), "action"), "action=resume")
	s.ends(id, record.Completed)
}

// TestWaitsForItsTime: a run that begins later says when, and nothing can be tried before.
func TestWaitsForItsTime(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	started, err := s.engine.Start(t.Context(), engine.Request{
		Executor: "agent", Input: json.RawMessage(`{"agent":"clerk","request":"later"}`),
		StartAt: time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}

	p := s.get("/runs/"+started.PlanID, http.StatusOK)
	if got := text(p.one("class", "parked")); got != "Waits: time:2199-01-02T03:04:05Z" {
		t.Errorf("it says %q", got)
	}
	if got := p.buttons(); got != "Pause, Stop for good, Send" {
		t.Errorf("it may %q", got)
	}
}

// TestControlNeedsScope: who may not control runs sees no buttons. No other site presses them.
func TestControlNeedsScope(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("slow")
	all, secret := keys(t, httpd.ScopeRead, httpd.ScopeDecide)
	s.door.SetKeys(all)
	as := func(method, path, form string, header ...string) *http.Response {
		return s.send(method, path, form, append(header, "Authorization", "Bearer "+secret)...)
	}

	if got := parse(t, as("GET", "/runs/"+id, "")).buttons(); got != "" {
		t.Errorf("without the scope: %q", got)
	}
	if got := as("POST", "/runs/"+id+"/control", "action=stop"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	all, secret = keys(t, httpd.ScopeRead, httpd.ScopeRun)
	s.door.SetKeys(all)
	if got := parse(t, as("GET", "/runs/"+id, "")).buttons(); got != "Pause, Stop for good, Send" {
		t.Errorf("with the scope: %q", got)
	}
	if got := as("POST", "/runs/"+id+"/control", "action=stop", "Sec-Fetch-Site",
		"cross-site"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	session := s.send("POST", "/login", "key="+secret).Cookies()[0]
	cookie := func(header ...string) *http.Response {
		return s.send("POST", "/runs/"+id+"/control", "action=stop",
			append(header, "Cookie", session.Name+"="+session.Value)...)
	}

	if got := cookie(); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	if got := cookie("Sec-Fetch-Site", "same-origin"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	s.ends(id, record.Cancelled)
	if by := storetest.Query[string](t, s.store, "SELECT requested_by FROM actlog.control_request"); by != "reader" {
		t.Errorf("%s asked for it", by)
	}
}

// TestAgain: a run that has ended goes on, or is run again, once for a form that is sent twice. Who may only read is
// offered neither.
func TestAgain(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("refund")
	at := s.asks(id)
	do := func(p *page, action string) *http.Response {
		t.Helper()
		f := p.one("class", "control")
		return s.send("POST", attr(f, "action"), "action="+action+"&key="+attr(p.all("name", "key")[0], "value"))
	}

	s.send("POST", attr(s.get(at, http.StatusOK).one("class", "control"), "action"), "action=stop")
	storetest.Until(t, "it is stopped", func() bool { return s.run(id).State == record.Cancelled })

	p := s.get("/runs/"+id, http.StatusOK)
	if got := do(p, "retry"); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/runs/"+id {
		t.Fatalf("a retry: %d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	storetest.Until(t, "it asks again", func() bool { return s.run(id).State == record.Waiting })
	if late := do(p, "retry"); late.StatusCode != http.StatusConflict ||
		text(parse(t, late).one("role", "alert")) != "the run has not ended" {
		t.Errorf("late: %d", late.StatusCode)
	}

	first, second := do(p, "again").Header.Get("Location"), do(p, "again").Header.Get("Location")
	if first == "/runs/"+id || !strings.HasPrefix(first, "/runs/plan-") || first != second {
		t.Fatalf("run again: %s, then %s", first, second)
	}
	if head := text(s.get(first, http.StatusOK).one("class", "head")); !strings.Contains(head, "again of "+id[:10]) ||
		!strings.Contains(head, "compare") {
		t.Errorf("its head: %s", head)
	}
	if got := s.get("/compare?a="+id+"&b="+strings.TrimPrefix(first, "/runs/"), http.StatusOK); got == nil {
		t.Error("they cannot be compared")
	}
}

// TestRetryWithALimit: a run that a limit ended is retried with another one, and says why it is not if that is too low.
func TestRetryWithALimit(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	started, err := s.engine.Start(t.Context(), engine.Request{
		Executor: "agent", Input: []byte(`{"agent":"clerk","request":"refund"}`), Limits: &engine.Limits{Tokens: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := started.PlanID
	storetest.Until(t, "it has failed", func() bool { return s.run(id).State == record.Failed })

	p := s.get("/runs/"+id, http.StatusOK)
	if got := p.buttons(); got != "Retry with this limit, Run again" {
		t.Errorf("it may %q", got)
	}

	to := attr(p.one("class", "control"), "action")
	for limit, want := range map[string]string{
		"1": "limits.tokens ended the run: it must be more than ", "x": "Limit of tokens must be a number.",
	} {
		got := s.send("POST", to, "action=retry&limit="+limit)
		if said := text(parse(t, got).one("role", "alert")); got.StatusCode != http.StatusUnprocessableEntity ||
			!strings.HasPrefix(said, want) {
			t.Errorf("limit %s: %d %s", limit, got.StatusCode, said)
		}
	}
	if got := s.send("POST", to, "action=retry&limit=1000000"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	storetest.Until(t, "it goes on", func() bool { return s.run(id).State == record.Waiting })
}

// TestSay: something is said to a run at work, as often as the form is sent, and is shown as a text where it was read.
func TestSay(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("refund")
	at := s.asks(id)
	form := s.get(at, http.StatusOK).one("class", "say")

	say := func(body string) *http.Response {
		t.Helper()
		return s.send("POST", attr(form, "action"), "action=say&"+body)
	}

	hostile := "<script>alert(1)</script>"
	for range 2 {
		if got := say("key=k&text=" + url.QueryEscape(hostile)); got.StatusCode != http.StatusSeeOther {
			t.Fatalf("it is answered %d", got.StatusCode)
		}
	}

	if got := say("text=+"); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("nothing was said, and it is answered %d", got.StatusCode)
	}
	if n := storetest.Query[int](t, s.store, "SELECT count(*) FROM actlog.run_message"); n != 1 {
		t.Errorf("%d messages are on record, want 1", n)
	}

	said := `[{"messageId":"m","text":"` + hostile + `","by":"<b>Eve</b>","createdAt":7},{"text":{"a":1}},{}]`
	storetest.Write(t, s.store,
		&record.Plan{RootPlanID: "theirs", CurrentPlanID: "theirs", State: new(record.Running)},
		&record.AgentExecution{RootPlanID: "theirs", PlanID: "theirs", StepID: "s"},
		&record.ThinkAct{RootPlanID: "theirs", StepID: "s", ThinkInput: new("hello"), Messages: json.RawMessage(said)})
	p := s.get("/runs/theirs?at="+url.QueryEscape("cycle:s/0"), http.StatusOK)
	if got := text(p.one("class", "saidto")); !strings.Contains(got, hostile) || !strings.Contains(got, "<b>Eve</b>") {
		t.Errorf("the cycle shows %q", got)
	}
}
