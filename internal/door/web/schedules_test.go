package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// schedule defines a schedule of the clerk.
func (s *shop) schedule(name string, set ...func(*define.Schedule)) {
	s.t.Helper()
	d := define.NewSchedule()
	d.Cron, d.Timezone = "30 4 * * *", "Europe/Berlin"
	d.Start = define.Start{Executor: "agent", Input: json.RawMessage(`{"agent":"clerk","request":"Count."}`)}
	for _, f := range set {
		f(&d)
	}
	if _, err := s.engine.PutSchedule(s.t.Context(), name, d, ""); err != nil {
		s.t.Fatal(err)
	}
}

// TestSchedules: the page lists schedules, pauses and resumes them, and runs them now.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	if got := text(s.get("/schedules", http.StatusOK).one("class", "empty")); !strings.HasPrefix(got,
		"There is no schedule.") {
		t.Errorf("without schedules it says %q", got)
	}

	s.schedule("nightly")
	s.schedule("yearly", func(d *define.Schedule) { d.Cron, d.Paused = "0 0 1 1 *", true })
	p := s.get("/schedules", http.StatusOK)
	rows := p.all("class", "schedule")
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}

	line := text(rows[0].Parent)
	if !strings.HasPrefix(line, "nightly 30 4 * * * Europe/Berlin 20") || !strings.Contains(line, " 04:30:00 CE") ||
		!strings.HasSuffix(line, " none Pause Run now") {
		t.Errorf("a line is %q", line)
	}
	if got, want := text(rows[1].Parent), "yearly 0 0 1 1 * Europe/Berlin paused none Resume Run now"; got != want {
		t.Errorf("a line is %q, want %q", got, want)
	}

	ask := func(row int, action string) *http.Response {
		t.Helper()
		return s.send("POST", attr(s.get("/schedules", http.StatusOK).all("class", "control")[row], "action"),
			"action="+action)
	}

	if r := ask(0, "pause"); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/schedules" {
		t.Errorf("pause: %d %s", r.StatusCode, r.Header.Get("Location"))
	}
	if got := s.get("/schedules", http.StatusOK).buttons(); got != "Resume, Run now, Resume, Run now" {
		t.Errorf("both are paused, and may %q", got)
	}

	ask(1, "resume")
	if got := s.get("/schedules", http.StatusOK).buttons(); got != "Resume, Run now, Pause, Run now" {
		t.Errorf("one is paused, and they may %q", got)
	}

	id := strings.TrimPrefix(ask(0, "run").Header.Get("Location"), "/runs/")
	if d := s.run(id); *d.Schedule != "nightly" || d.TickAt != nil {
		t.Errorf("it ran %+v", d)
	}
	if r := ask(0, "explode"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("r.StatusCode = %d", r.StatusCode)
	}
	if r := s.send("POST", "/schedules/none", "action=run"); r.StatusCode != http.StatusNotFound {
		t.Errorf("r.StatusCode = %d", r.StatusCode)
	}
	s.get("/schedules?x=1", http.StatusBadRequest)
}

// TestSchedulesAreHostile: whatever they are called and say, they are texts, and lead where they should.
func TestSchedulesAreHostile(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	for i, payload := range payloads {
		name := fmt.Sprint(i, " ", strings.ToValidUTF8(strings.ReplaceAll(payload, "\x00", ""), "?"))
		if len(name) > 255 {
			continue
		}
		s.schedule(name, func(d *define.Schedule) {
			d.Input, _ = json.Marshal(map[string]string{"agent": "clerk", "request": payload}) // a text
		})
	}
	const because = "UPDATE actlog.schedule SET error = '<script>alert(1)</script>'"
	if _, err := s.store.DB().Exec(t.Context(), because); err != nil {
		t.Fatal(err)
	}

	p := s.get("/schedules", http.StatusOK)
	for _, form := range p.all("class", "control") {
		at := attr(form, "action")
		if r := s.send("POST", at, "action=pause"); r.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d", at, r.StatusCode)
		}
	}
	if got := len(p.all("class", "control")); got == 0 || got != storetest.Query[int](t, s.store,
		"SELECT count(*) FROM actlog.schedule WHERE paused") {
		t.Errorf("%d forms", got)
	}
	for _, n := range p.all("class", "bad") {
		if text(n) != "Cannot start: <script>alert(1)</script>" {
			t.Errorf("it says %q", text(n))
		}
	}
}

// TestSchedulesNeedScope: who may not start runs sees no buttons. No other site presses them.
func TestSchedulesNeedScope(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	for i := range 60 {
		s.schedule(fmt.Sprintf("s%02d", i))
	}
	p := s.get("/schedules", http.StatusOK)
	next := s.get(attr(p.one("rel", "next"), "href"), http.StatusOK)
	if a, b := len(p.all("class", "schedule")), len(next.all("class", "schedule")); a != 50 || b != 10 {
		t.Errorf("%d and %d schedules on two pages", a, b)
	}

	all, secret := keys(t, httpd.ScopeRead)
	s.door.SetKeys(all)
	as := func(method, path, form string, header ...string) *http.Response {
		return s.send(method, path, form, append(header, "Authorization", "Bearer "+secret)...)
	}
	if got := parse(t, as("GET", "/schedules", "")).buttons(); got != "" {
		t.Errorf("without the scope: %q", got)
	}
	if got := as("POST", "/schedules/s00", "action=run"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}

	all, secret = keys(t, httpd.ScopeRead, httpd.ScopeRun)
	s.door.SetKeys(all)
	got := as("POST", "/schedules/s00", "action=run", "Sec-Fetch-Site", "cross-site")
	if got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
	if n := storetest.Query[int](t, s.store, "SELECT count(*) FROM actlog.run"); n != 0 {
		t.Errorf("%d runs were started", n)
	}
}
