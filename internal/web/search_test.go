package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/apitest"
	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/record"
)

// TestSearchPage: the texts of all runs that have what is looked for, by run; each leads to its place.
func TestSearchPage(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	at := storetest.At
	storetest.Write(t, s.store,
		&record.Plan{RootPlanID: "old", CurrentPlanID: "old", Title: new("The needle"), StartTime: at(0), State: new(record.Completed)},
		&record.Plan{RootPlanID: "a/new", CurrentPlanID: "a/new", Title: new("Ticket <b>"), Project: new("shop"), StartTime: at(60), State: new(record.Failed)},
		&record.AgentExecution{RootPlanID: "a/new", PlanID: "a/new", StepID: "s", AgentName: new("triage")},
		&record.ThinkAct{RootPlanID: "a/new", StepID: "s", Seq: 0, ThinkInput: new("find the <i>needle</i>"), ThinkOutput: new("none")},
		&record.ActTool{RootPlanID: "a/new", StepID: "s", Seq: 0, ToolCallID: "c", Name: new("look"), Result: new("a Needle & more")},
		&record.Thought{RootPlanID: "a/new", PlanID: "a/new", ThoughtID: "t", StepID: new("s"), Content: new("needle?")})
	said := func(p *page) (lines []string) {
		for n := range p.root.Descendants() {
			if n.Type == html.ElementNode && (n.Data == "h2" || attr(n, "class") == "says") {
				lines = append(lines, text(n))
			}
		}
		return lines
	}
	if p := s.get("/search", http.StatusOK); text(p.one("class", "empty")) == "" || len(said(p)) != 0 {
		t.Error("without a text it does not say what it does")
	}
	p := s.get("/search?q=NEEDLE", http.StatusOK)
	const want = "triage cycle 1 input find the <i> needle </i>|look result a Needle & more|thought content needle ?"
	lines := said(p)
	if len(lines) != 6 || strings.Join(lines[1:4], "|") != want || !strings.HasPrefix(lines[0], "Ticket <b> ✗ failed") || lines[5] != "run title The needle" {
		t.Errorf("it says %q, want %q", lines, want)
	}
	if got := text(p.one("role", "status")); got != "4 texts with “NEEDLE”" {
		t.Errorf("its title is %q", got)
	}
	for i, want := range []string{"cycle:s/0", "call:s/0/c", "step:s", "plan:old"} {
		if got := attr(s.get(attr(p.all("class", "hit")[i], "href"), http.StatusOK).one("aria-selected", "true"), "id"); got != want {
			t.Errorf("hit %d leads to %s, want %s", i, got, want)
		}
	}
	first := s.get("/search?q=needle&limit=3", http.StatusOK)
	rest := s.get(attr(first.one("rel", "next"), "href"), http.StatusOK)
	if got := text(first.one("role", "status")) + " " + text(rest.one("role", "status")); len(said(first)) != 4 || len(said(rest)) != 2 || got != "The first 3 texts with “needle” 1 text with “needle”, further back" {
		t.Errorf("%q, then %q: %s", said(first), said(rest), got)
	}
	for query, want := range map[string]string{"q=absent": "No run says “absent”", "q=needle&project=shop&kind=plan": "No run says “needle”", "q=needle&state=FAILED&kind=thinkAct,actTool": "2 texts with “needle”"} {
		if got := text(s.get("/search?"+query, http.StatusOK).one("role", "status")); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := s.send("GET", "/search?q=a&project=&kind=", "").Header.Get("Location"); got != "/search?q=a" {
		t.Errorf("empty fields lead to %q", got)
	}
	for _, query := range []string{"q=%20", "q=a&kind=x", "q=a&failed=true", "q=a&cursor=x"} {
		s.get("/search?"+query, http.StatusBadRequest)
	}
	list := s.get("/?q=needle&project=shop&failed=true", http.StatusOK)
	if link := list.all("href", "/search?"+url.Values{"q": {"needle"}, "project": {"shop"}}.Encode()); len(link) != 1 {
		t.Error("the list does not lead to the search in texts")
	}
}

// TestSearchPageGoesOn: if there is no time for all runs, the page says how far it came, and offers to go on.
func TestSearchPageGoesOn(t *testing.T) {
	t.Parallel()
	s := openWith(t, apitest.Config{API: api.Config{SearchTime: time.Nanosecond}})
	for _, root := range []string{"a", "b", "c"} {
		storetest.Write(t, s.store, &record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("The needle"), StartTime: storetest.At(0)})
	}
	p := s.get("/search?q=absent", http.StatusOK)
	if got := text(p.one("class", "note")); text(p.one("role", "status")) != "No text with “absent” so far" || !strings.HasPrefix(got, "Searched back to ") {
		t.Errorf("it says %q", got)
	}
	for range 20 {
		next := p.all("rel", "next")
		if len(next) == 0 {
			break
		}
		p = s.get(attr(next[0], "href"), http.StatusOK)
	}
	if got := text(p.one("role", "status")); got != "No more texts with “absent”" {
		t.Errorf("in the end it says %q", got)
	}
}
