package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestWaits: open questions are listed, oldest first, a page at a time, and lead to their places in the runs.
func TestWaits(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	if got := text(s.get("/waits", http.StatusOK).one("class", "empty")); got != "No run waits for a human." {
		t.Errorf("without questions it says %q", got)
	}

	ago := func(d time.Duration) *time.Time { return new(time.Now().Add(-d)) }
	changes := []record.Change{
		&record.Plan{
			RootPlanID: "a/1", CurrentPlanID: "a/1", Title: new("Ticket <b>"), Project: new("shop"), State: new(record.Running),
		},
		&record.AgentExecution{RootPlanID: "a/1", PlanID: "a/1", StepID: "s", AgentName: new("triage")},
		&record.Wait{
			RootPlanID: "a/1", PlanID: "a/1", WaitID: "w/1", StepID: new("s"), Title: new("Refund <i>?"),
			StartTime: ago(200 * time.Second), ExpiresAt: new(time.Now().Add(90 * time.Minute)),
		},
		&record.Plan{RootPlanID: "b", CurrentPlanID: "b", State: new(record.Waiting)},
	}
	for i := range 60 {
		changes = append(changes, &record.Wait{
			RootPlanID: "b", PlanID: "b", WaitID: fmt.Sprintf("w%02d", i), StartTime: ago(time.Duration(60-i) * time.Second),
		})
	}
	storetest.Write(t, s.store, changes...)

	p := s.get("/waits", http.StatusOK)
	rows := p.all("class", "question")
	if len(rows) != 50 || text(rows[0]) != "Refund <i>?" || text(rows[1]) != "w00" {
		t.Fatalf("%d questions", len(rows))
	}

	if got, want := text(rows[0].Parent), "3m Refund <i>? Ticket <b> triage 1h"; got != want {
		t.Errorf("a line is %q, want %q", got, want)
	}
	if got, want := text(rows[1].Parent), "1m w00 b no deadline"; got != want { // W11
		t.Errorf("a line without a deadline is %q, want %q", got, want)
	}

	// on a phone, they begin with "expires in"
	if expires := p.all("class", "when expires"); len(expires) != 1 || text(expires[0]) != "1h" {
		t.Errorf("%d questions will expire", len(expires))
	}
	if got := attr(s.get(attr(rows[0].FirstChild, "href"), http.StatusOK).one("aria-selected", "true"),
		"id"); got != "wait:w%2F1" {
		t.Errorf("it leads to %s", got)
	}

	next := s.get(attr(p.one("rel", "next"), "href"), http.StatusOK)
	if rows := next.all("class", "question"); len(rows) != 11 || text(rows[10]) != "w59" ||
		len(next.all("rel", "next")) != 0 {
		t.Errorf("the next page has %d", len(rows))
	}

	if rows := s.get("/waits?project=shop", http.StatusOK).all("class", "question"); len(rows) != 1 {
		t.Errorf("%d of a project", len(rows))
	}
	if got := text(s.get("/waits?project=none", http.StatusOK).one("class", "empty")); got != "No question is open "+
		"here. All open questions" {
		t.Errorf("of an unknown project it says %q", got)
	}

	here := p.all("aria-current", "page")
	if !slices.ContainsFunc(p.all("href", "/waits"), func(n *html.Node) bool { return len(here) == 1 && n == here[0] }) {
		t.Error("the top does not say where we are")
	}
	for _, path := range []string{"/waits?cursor=x", "/waits?state=x"} {
		s.get(path, http.StatusBadRequest)
	}
}
