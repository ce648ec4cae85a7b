package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

// TestStart: all that the API starts is started by a form. What is wrong stands beside its field, and a form that is
// sent twice starts one run.
func TestStart(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	p := s.get("/start", http.StatusOK)
	paths := map[string]string{}
	for n := range p.one("class", "start").Descendants() {
		if n.Data == "a" {
			paths[text(n)] = attr(n, "href")
		}
	}

	want := map[string]string{
		"clerk": "/start?executor=agent&name=clerk", "nightly": "/start?executor=plan&name=nightly",
		"two":                                   "/start?executor=workflow&name=two&type=simple_workflow",
		"Plan a task and carry it out":          "/start?executor=plan",
		"Plan a request for specialised agents": "/start?executor=orchestrator",
		"Plan a task as a graph":                "/start?executor=dag",
	}
	if !equal(paths, want) {
		t.Errorf("there is %v", paths)
	}
	says(t, p, "clerk agent Answers customers", "nightly plan template", "two workflow Twice")

	start := func(what string, form url.Values) *http.Response {
		t.Helper()
		p := s.get(paths[what], http.StatusOK)
		form.Set("key", attr(p.one("name", "key"), "value"))
		return s.send("POST", attr(p.one("class", "answer"), "action"), form.Encode())
	}

	for _, tt := range []struct {
		what   string
		form   url.Values
		answer string
	}{
		{
			"clerk", url.Values{"input.request": {"Hello."}, "project": {"shop"}, "tags": {"a, b"}, "limits.tokens": {"90000"}},
			"done",
		},
		{"nightly", url.Values{"input.what": {"chairs"}}, ""},
		{"two", url.Values{"input.input": {`{"deep": [1]}`}}, ""},
		{"Plan a task as a graph", url.Values{"input.prompt": {"Tea?"}, "input.scheduling": {"eager"}}, ""},
		{"Plan a request for specialised agents", url.Values{"input.request": {"Hello."}}, ""},
		{
			"Plan a task and carry it out",
			url.Values{"input.task": {"Do it."}, "input.role": {"CASHIER"}, "input.enableWrite": {"true"}}, "",
		},
	} {
		got := start(tt.what, tt.form)
		id, ok := strings.CutPrefix(got.Header.Get("Location"), "/runs/")
		if got.StatusCode != http.StatusSeeOther || !ok {
			t.Errorf("%s: %d %s", tt.what, got.StatusCode, text(parse(t, got).root))
			continue
		}

		d := s.run(id)
		if tt.answer == "" {
			continue
		}
		if answer := s.ends(id, record.Completed); answer != tt.answer || *d.Plan.Project != "shop" ||
			!slices.Equal(d.Plan.Tags, []string{"a", "b"}) {
			t.Errorf("%s: %q %+v", tt.what, answer, d.Plan)
		}
	}

	for _, tt := range []struct {
		what   string
		form   url.Values
		faults map[string]string
	}{
		{"clerk", url.Values{"input.request": {" "}, "project": {"kept"}}, map[string]string{"input.request": "is required"}},
		{
			"clerk", url.Values{"input.request": {"Hello."}, "limits.tokens": {"many"}},
			map[string]string{"limits.tokens": "must be a whole number"},
		},
		{"nightly", url.Values{}, map[string]string{"input.what": "is required"}},
		{"Plan a task and carry it out", url.Values{"input.task": {"Do it."}}, map[string]string{
			"input.role": "is DEVELOPER, which has no tools: there are none that match files.*, files-*, git.*, git-*, " +
				"tests.*, tests-*",
		}},
		{
			"Plan a task and carry it out", url.Values{"input.task": {"Do it."}, "input.role": {"a b"}},
			map[string]string{"input.role": "must have at most 50 letters, digits, '_' and '-'"},
		},
	} {
		answer := start(tt.what, tt.form)
		p := parse(t, answer)
		if got := p.faults(); answer.StatusCode != http.StatusUnprocessableEntity || !equal(got, tt.faults) ||
			text(p.one("role", "alert")) != "1 field to correct" {
			t.Errorf("%s: %d %v", tt.what, answer.StatusCode, got)
		}

		for name, values := range tt.form {
			if kept := p.chosen().Get(name); name != "key" && kept != values[0] {
				t.Errorf("%s: of %s, %q is kept", tt.what, name, kept)
			}
		}
	}

	form := url.Values{"input.request": {"Twice."}, "key": {"once"}}
	first, second := s.send("POST", paths["clerk"], form.Encode()), s.send("POST", paths["clerk"], form.Encode())
	if a, b := first.Header.Get("Location"), second.Header.Get("Location"); a == "" || a != b {
		t.Errorf("sent twice, it leads to %q and %q", a, b)
	}

	form.Set("input.request", "Another.")
	if third := s.send("POST", paths["clerk"], form.Encode()).Header.Get("Location"); third == "" ||
		third == first.Header.Get("Location") {
		t.Errorf("changed, it leads to %q", third)
	}

	s.get("/start?executor=agent&name=nobody", http.StatusBadRequest)
	if got := s.send("POST", "/start", "key=x"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
}

// TestStartNeedsScope: pages lead to the start only where there is something to start, and for who may.
func TestStartNeedsScope(t *testing.T) {
	t.Parallel()
	none := open(t, httpd.Config{})
	if len(none.get("/", http.StatusOK).all("href", "/start")) != 0 {
		t.Error("there is nothing to start")
	}
	says(t, none.get("/start", http.StatusOK), "This server has no configuration of agents")

	s := openShop(t, httpd.Config{})
	if len(s.get("/waits", http.StatusOK).all("href", "/start")) != 1 {
		t.Error("no way to the start")
	}

	all, secret := keys(t, httpd.ScopeRead)
	s.door.SetKeys(all)
	as := func(method, path, form string) *http.Response {
		return s.send(method, path, form, "Authorization", "Bearer "+secret)
	}
	if len(parse(t, as("GET", "/", "")).all("href", "/start")) != 0 {
		t.Error("a way to what the key may not do")
	}

	p := parse(t, as("GET", "/start?executor=agent&name=clerk", ""))
	says(t, p, "Your API key is not for starting runs: its scopes lack run.")
	if len(p.all("class", "answer")) != 0 {
		t.Error("there is a form")
	}
	if got := as("POST", "/start?executor=agent&name=clerk", "input.request=x"); got.StatusCode != http.StatusForbidden {
		t.Errorf("got.StatusCode = %d", got.StatusCode)
	}
}

// says checks that a page on which runs are started says something.
func says(t *testing.T, p *page, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if got := text(p.one("class", "start")); !strings.Contains(got, part) {
			t.Errorf("the page lacks %q: %s", part, got)
		}
	}
}
