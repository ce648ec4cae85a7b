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
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// classed returns the elements of a class.
func (p *page) classed(class string) (found []*html.Node) {
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && strings.Contains(" "+attr(n, "class")+" ", " "+class+" ") {
			found = append(found, n)
		}
	}
	return found
}

// texts returns the texts of elements.
func texts(all []*html.Node) (out []string) {
	for _, n := range all {
		out = append(out, text(n))
	}
	return out
}

func differs(t *testing.T, what string, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s:\n%s\nwant\n%s", what, g, w)
	}
}

// TestFoundTexts: a search lists the rows whose texts match, with what is around the match, in place of the tree. Links
// keep the search.
func TestFoundTexts(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run/1")
	storetest.Write(t, s.store, &record.Thought{
		RootPlanID: "run/1", PlanID: "run/1", ThoughtID: "t", StepID: new("run/1-triage"),
		Content: new("We <b>search</b> first."),
	})

	p := s.get("/runs/run%2F1?q=SEARCH", http.StatusOK)
	differs(t, "found", texts(p.classed("hit")), []string{
		"triage ✓ completed 2s Find stale pages thought content We <b> search </b> first.",
		"researcher ✗ failed 48s Find stale pages agent re search er",
		"cycle 1 ✓ completed Find stale pages › researcher answer I search .",
		"search ✗ failed 37s Find stale pages › researcher › cycle 1 name search",
		"search ✗ failed 37s Find stale pages › researcher › cycle 1 › search title search",
	})

	if tree := p.one("role", "tree"); !has(tree, "hidden") {
		t.Error("the tree is beside the list")
	}
	if got := text(p.one("role", "status")); got != "5 texts with “SEARCH”" {
		t.Errorf("it says %q", got)
	}
	if got := attr(p.one("name", "q"), "value"); got != "SEARCH" {
		t.Errorf("the field has %q", got)
	}

	for _, h := range p.classed("hit") {
		next := s.get(attr(h, "href"), http.StatusOK)
		var open []string
		for _, hit := range next.classed("hit") {
			if attr(hit, "aria-current") == "true" {
				open = append(open, attr(hit, "data-at"))
			}
		}
		if len(open) != 1 || open[0] != attr(h, "data-at") || len(next.classed("hit")) != 5 {
			t.Errorf("%s opens %s", attr(h, "href"), open)
		}
	}

	back := s.get(attr(p.classed("to-tree")[0], "href"), http.StatusOK)
	if has(back.one("role", "tree"), "hidden") || len(back.classed("found")) != 0 {
		t.Error("back to the tree is not the tree")
	}

	none := s.get("/runs/run%2F1?q=zyzzyva", http.StatusOK)
	if got := text(none.one("role", "status")); got != "No text of this run has “zyzzyva”" {
		t.Errorf("it says %q", got)
	}
	piece := s.get("/runs/run%2F1/found?q=search", http.StatusOK)
	if len(piece.classed("hit")) != 5 || len(piece.all("role", "tree")) != 0 {
		t.Error("a piece is not the list alone")
	}

	s.get("/runs/run%2F1/found", http.StatusBadRequest)
	s.get("/runs/run%2F1?show=x", http.StatusBadRequest)
	s.get("/runs/run%2F1?q=a&cursor=x", http.StatusBadRequest)
	s.get("/runs/run%2F1?q="+strings.Repeat("a", 2000), http.StatusBadRequest)
}

func has(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

// TestFoundRows: failures come with their reasons, the cause first; slow rows by their own time; and long lists in
// pages.
func TestFoundRows(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	storetest.Write(t, s.store, &record.ActTool{
		RootPlanID: "run", StepID: "run-triage", Seq: 0, ToolCallID: "early", Name: new("look"), State: new(record.Failed),
		ErrorMessage: new("first\nsecond"),
	})

	p := s.get("/runs/run?show=failures", http.StatusOK)
	differs(t, "failures", texts(p.classed("hit")), []string{
		"run_sql ✗ failed cause attempt 2 10s Find stale pages › researcher › cycle 1 › search › search › counter › " +
			"cycle 3 timeout: no answer within 10 s",
		"look ✗ failed Find stale pages › triage › cycle 1 first second",
	})

	p = s.get("/runs/run?show=slow", http.StatusOK)
	differs(t, "slow", texts(p.classed("hit"))[:3], []string{
		"counter ✗ failed 25s of 35s Find stale pages › researcher › cycle 1 › search › search",
		"researcher ✗ failed 11s of 48s Find stale pages",
		"run_sql ✗ failed 10s of 10s attempt 2 Find stale pages › researcher › cycle 1 › search › search › counter › cycle 3",
	})

	changes := []record.Change{
		&record.Plan{RootPlanID: "many", CurrentPlanID: "many", State: new(record.Failed)},
		&record.AgentExecution{RootPlanID: "many", PlanID: "many", StepID: "m", State: new(record.Failed)},
	}
	for i := range 250 {
		changes = append(changes, &record.ActTool{
			RootPlanID: "many", StepID: "m", Seq: 0, ToolCallID: fmt.Sprint("c", i), CallIndex: new(int64(i)),
			Name: new(fmt.Sprint("tool", i)), State: new(record.Failed), ErrorMessage: new("needle"),
		})
	}
	storetest.Write(t, s.store, changes...)

	for _, list := range []string{"show=failures", "q=needle"} {
		seen := map[string]bool{}
		next := "/runs/many?" + list
		for pages := 0; next != ""; pages++ {
			p := s.get(next, http.StatusOK)
			for _, h := range p.classed("hit") {
				if at := attr(h, "data-at"); seen[at] || pages > 2 {
					t.Fatalf("%s comes twice, on page %d", at, pages)
				}
				seen[attr(h, "data-at")] = true
			}
			next = ""
			if more := p.all("rel", "next"); len(more) == 1 {
				next = attr(more[0], "href")
			}
		}

		if len(seen) != 250 {
			t.Errorf("%s has %d rows", list, len(seen))
		}
	}
}

// TestSearchWithoutTime: a search that has too little time says how far it came, and goes on from there.
func TestSearchWithoutTime(t *testing.T) {
	t.Parallel()
	s := openWith(t, apitest.Config{Lookup: lookup.Config{FindTime: time.Nanosecond}}) // one row is always read
	s.writeFailure("run")

	next, said := "/runs/run?q=run_sql", []string(nil)
	for next != "" && len(said) < 20 {
		p := s.get(next, http.StatusOK)
		said = append(said, strings.Join(texts(append(p.all("role", "status"), p.classed("note")...)), " "))
		next = ""
		if more := p.all("rel", "next"); len(more) == 1 {
			next = attr(more[0], "href")
		}
	}

	if want := "No text with “run_sql” so far Searched 1 of 9 rows. There was no time for more."; said[0] != want {
		t.Errorf("at first it says %q, want %q", said[0], want)
	}
	if last := said[len(said)-1]; len(said) != 9 || last != "1 text with “run_sql”, further down" {
		t.Errorf("after %d pages it says %q", len(said), last)
	}
}

// TestWhy: a cause without a text says what is known of it: its kind and what is below it, else what is above it. Of
// long errors it shows a line.
func TestWhy(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	failed := new(record.Failed)

	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "below", CurrentPlanID: "below", Title: new("Below"), State: failed, ErrorKind: new("stopped"),
			ErrorMessage: new(" "),
		},
		&record.AgentExecution{
			RootPlanID: "below", PlanID: "below", StepID: "b", AgentName: new("writer"), State: new(record.Cancelled),
			ErrorMessage: new("nobody asked"),
		},
		&record.Plan{
			RootPlanID: "above", CurrentPlanID: "above", Title: new("Above"), State: failed, ErrorMessage: new("it broke"),
		},
		&record.AgentExecution{RootPlanID: "above", PlanID: "above", StepID: "a", AgentName: new("writer"), State: failed},
		&record.Plan{RootPlanID: "none", CurrentPlanID: "none", Title: new("None"), State: failed},
		&record.Plan{RootPlanID: "kind", CurrentPlanID: "kind", Title: new("Kind"), State: failed, ErrorKind: new("timeout")},
		&record.Plan{
			RootPlanID: "long", CurrentPlanID: "long", Title: new("Long"), State: failed,
			ErrorMessage: new("one\n\n two\r\nthree\nfour\nfive\n" + strings.Repeat("x", 4<<20-100)),
		},
		&record.Plan{RootPlanID: "well", CurrentPlanID: "well", Title: new("Well"), State: new(record.Completed)},
		&record.AgentExecution{
			RootPlanID: "well", PlanID: "well", StepID: "w", AgentName: new("writer"), State: failed,
			ErrorMessage: new("try again"),
		},
	)

	for run, want := range map[string]string{
		"below": "✗ Below stopped: writer: nobody asked", "above": "✗ writer failed: it broke",
		"none": "✗ None failed: no error was recorded", "kind": "✗ Kind timeout",
		"long": "✗ Long failed: one", "well": "✗ writer failed: try again",
	} {
		p := s.get("/runs/"+run, http.StatusOK)
		box := p.one("aria-label", "Cause")
		if got := text(p.classed("why")[0]); got != want {
			t.Errorf("of %s it says %q, want %q", run, got, want)
		}
		if got := strings.HasPrefix(text(box), "First failure, recovered"); got != (run == "well") {
			t.Errorf("of %s the box is %q", run, text(box))
		}
	}
	s.get("/runs/well", http.StatusOK).one("data-copy", "recovered from writer: failed: try again\nWell › writer")
}

// TestRunHead: the head leads to what is done with a run, and says what it is known by.
func TestRunHead(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "p/1", CurrentPlanID: "p/1", Title: new("Talk"), ConversationID: new("c 1"), Project: new("docs"),
			TraceID: new("0af7651916cd43dd8448eb211c80319c"), State: new(record.Completed),
		},
		&record.ActTool{RootPlanID: "p/1", StepID: "s", Seq: 0, ToolCallID: "t", State: new(record.Completed)},
		&record.Plan{RootPlanID: "p/1", CurrentPlanID: "p/2", ParentPlanID: new("p/1"), ToolCallID: new("t")})

	p := s.get("/runs/p%2F1", http.StatusOK)
	menu := p.classed("menu")[0]
	var leads []string
	for n := range menu.Descendants() {
		if to := attr(n, "href"); to != "" {
			leads = append(leads, to)
		}
	}

	differs(t, "the menu leads to", leads, []string{"/api/v1/plans/p%2F1/records?root=p%2F1", "/conversations/c%201"})
	for _, part := range []string{
		"plan p/1", "trace 0af7651916cd43dd8448eb211c80319c", "conversation c 1", "project docs",
	} {
		if !strings.Contains(text(menu), part) {
			t.Errorf("the menu lacks %q: %s", part, text(menu))
		}
	}

	if got := text(p.one("id", "head")); !strings.Contains(got, "2 plans") || !strings.Contains(got, "1 tool call") {
		t.Errorf("the head is %q", got)
	}

	w := s.send(http.MethodGet, leads[0], "")
	if w.StatusCode != http.StatusOK {
		t.Errorf("the export is %d", w.StatusCode)
	}
	_ = w.Body.Close()
	if got := p.query("/compare").Get("a"); got != "p/1" {
		t.Errorf("it is compared with %q", got)
	}
}

// query returns what the hidden fields of a form send.
func (p *page) query(action string) url.Values {
	q := url.Values{}
	for n := range p.one("action", action).Descendants() {
		if attr(n, "type") == "hidden" {
			q.Set(attr(n, "name"), attr(n, "value"))
		}
	}
	return q
}
