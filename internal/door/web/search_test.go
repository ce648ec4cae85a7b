package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestSearchPage: the texts of all runs that have what is looked for, by run; each leads to its place.
func TestSearchPage(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	at := storetest.At

	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "old", CurrentPlanID: "old", Title: new("The needle"), StartTime: at(0), State: new(record.Completed),
		},
		&record.Plan{
			RootPlanID: "a/new", CurrentPlanID: "a/new", Title: new("Ticket <b>"), Project: new("shop"), StartTime: at(60),
			State: new(record.Failed),
		},
		&record.AgentExecution{RootPlanID: "a/new", PlanID: "a/new", StepID: "s", AgentName: new("triage")},
		&record.ThinkAct{
			RootPlanID: "a/new", StepID: "s", Seq: 0, ThinkInput: new("find the <i>needle</i>"), ThinkOutput: new("none"),
		},
		&record.ActTool{
			RootPlanID: "a/new", StepID: "s", Seq: 0, ToolCallID: "c", Name: new("look"), Result: new("a Needle & more"),
		},
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
	if len(lines) != 6 || strings.Join(lines[1:4], "|") != want || !strings.HasPrefix(lines[0], "Ticket <b> ✗ failed") ||
		lines[5] != "run title The needle" {
		t.Errorf("it says %q, want %q", lines, want)
	}
	if got := text(p.one("role", "status")); got != "4 texts with “NEEDLE”" {
		t.Errorf("its title is %q", got)
	}

	for i, want := range []string{"cycle:s/0", "call:s/0/c", "step:s", "plan:old"} {
		if got := attr(s.get(attr(p.all("class", "hit")[i], "href"), http.StatusOK).one("aria-selected", "true"),
			"id"); got != want {
			t.Errorf("hit %d leads to %s, want %s", i, got, want)
		}
	}

	first := s.get("/search?q=needle&limit=3", http.StatusOK)
	rest := s.get(attr(first.one("rel", "next"), "href"), http.StatusOK)
	if got := text(first.one("role", "status")) + " " + text(rest.one("role", "status")); len(said(first)) != 4 ||
		len(said(rest)) != 2 || got != "The first 3 texts with “needle” 1 text with “needle”, further back" {
		t.Errorf("%q, then %q: %s", said(first), said(rest), got)
	}

	for query, want := range map[string]string{
		"q=absent": "No run says “absent”", "q=needle&project=shop&kind=plan": "No run says “needle”",
		"q=needle&state=FAILED&kind=thinkAct,actTool": "2 texts with “needle”",
	} {
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
	s := openWith(t, apitest.Config{Lookup: lookup.Config{SearchTime: time.Nanosecond}})
	for _, root := range []string{"a", "b", "c"} {
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("The needle"), StartTime: storetest.At(0),
		})
	}

	p := s.get("/search?q=absent", http.StatusOK)
	if got := text(p.one("class", "note")); text(p.one("role", "status")) != "No text with “absent” so far" ||
		!strings.HasPrefix(got, "Searched back to ") {
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

// TestSearchByRun: W10: of each run three texts are shown and the number of more, so that one run does not fill the
// page. Policies, and the envelopes of answers, are not searched.
func TestSearchByRun(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	var changes []record.Change
	for run := range 12 {
		root := fmt.Sprintf("run-%02d", run)
		changes = append(changes, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed),
			StartTime: storetest.At(run),
			Summary: new(
				`{"agent_name":"a","status":"success","final_response":{"content":"Well done."},"conversation_history":[{"content":"needle in the envelope"}]}`,
			)},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root})
		for i := range []int{60, 2, 3, 4}[run%4] {
			changes = append(changes, &record.ActTool{
				RootPlanID: root, StepID: root, Seq: int64(i), ToolCallID: "c", Result: new(fmt.Sprint("needle ", i)),
				Policy: []byte(`{"note":"needle everywhere"}`),
			})
		}
	}
	storetest.Write(t, s.store, changes...)

	found := map[string]int{}
	more := map[string]string{}
	pages := 0
	for path := "/search?q=needle&limit=10"; path != ""; pages++ {
		p := s.get(path, http.StatusOK)
		for _, a := range p.all("class", "hit") {
			to, _ := url.Parse(attr(a, "href"))
			found[to.Path]++
			if strings.Contains(text(a), "everywhere") || strings.Contains(text(a), "envelope") {
				t.Errorf("it finds %s", text(a))
			}
		}

		for _, a := range p.all("class", "others") {
			to, _ := url.Parse(attr(a, "href"))
			more[to.Path] = text(a)
			if to.Query().Get("q") != "needle" {
				t.Errorf("the others are at %s", to)
			}
		}

		path = ""
		if next := p.all("rel", "next"); len(next) == 1 {
			path = attr(next[0], "href")
		}
	}

	for run := range 12 {
		path := fmt.Sprintf("/runs/run-%02d", run)
		want := []string{"3", "2", "3", "3"}[run%4] + []string{"57 more in this run", "", "", "1 more in this run"}[run%4]
		if run%4 == 0 && strings.HasPrefix(more[path], "more than ") { // a run with many is not searched to its end
			want = "3" + more[path]
		}
		if got := fmt.Sprint(found[path], more[path]); got != want {
			t.Errorf("%s has %s, want %s", path, got, want)
		}
	}

	if pages != 4 {
		t.Errorf("%d pages", pages)
	}
	if got := s.get("/runs/run-00?q=everywhere", http.StatusOK); len(got.all("class", "says")) > 0 {
		t.Error("the search in a run finds policies")
	}
}
