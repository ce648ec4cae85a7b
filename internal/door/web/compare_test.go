package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// writeSteps writes a run of one agent, which calls tools, one a cycle. A tool is its name and what it finds.
func (s *site) writeSteps(root string, state record.State, tools ...string) {
	s.t.Helper()
	changes := []record.Change{
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("Look <b>around</b>"), State: &state, StartTime: storetest.At(0),
			EndTime: storetest.At(9),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-s", AgentName: new("scout"), State: new(record.Completed),
			AgentRequest: new("look"),
		},
	}
	for i, tool := range tools {
		name, found, _ := strings.Cut(tool, " ")
		changes = append(changes,
			&record.ThinkAct{
				RootPlanID: root, StepID: root + "-s", Seq: int64(i), ThinkInput: new(root), ThinkOutput: new("I use " + name),
				State: new(record.Completed), InputTokens: new(int64(10)),
			},
			&record.ActTool{
				RootPlanID: root, StepID: root + "-s", Seq: int64(i), ToolCallID: fmt.Sprint(root, i), Name: &name,
				Parameters: new(`{"at":1}`), Result: &found, State: new(record.Completed),
			})
	}

	storetest.Write(s.t, s.store, changes...)
}

// TestCompare: what differs is shown with what it is under, and equal rows are counted; the first difference is open,
// with its texts.
func TestCompare(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeSteps("one", record.Completed, "list a", "read same\nold words\nend", "stop z")
	s.writeSteps("two", record.Failed, "list a", "look b", "read same\nnew words\nend", "stop z")
	p := s.get("/compare?a=one&b=two", http.StatusOK)

	lines := func(p *page) (all []string) {
		for n := range p.one("class", "pairs").Descendants() {
			if n.Type == html.ElementNode && n.Data == "tr" {
				all = append(all, text(n))
			}
		}
		return all[1:]
	}

	want := []string{
		"Look <b>around</b> ≠3 ✓ completed 9s ✗ failed 9s state",
		"scout ≠3 ✓ completed ✓ completed",
		"cycle 1 ✓ completed ✓ completed input",
		"1 equal row",
		"cycle 2 2 rows – none ✓ completed only in B",
		"cycle 2 → cycle 3 ≠1 ✓ completed ✓ completed",
		"read ✓ completed ✓ completed result",
		"2 equal rows",
	}
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := text(p.one("aria-label", "Differences")); got != "2 of 4 differences previous next all rows" {
		t.Errorf("it is %q", got)
	}

	next := attr(p.one("data-key", "e"), "href")
	p = s.get(next, http.StatusOK)
	if got := text(p.one("aria-label", "Detail")); !strings.Contains(got, "only in B") {
		t.Errorf("%s shows %q", next, got)
	}

	p = s.get(attr(p.one("data-key", "e"), "href"), http.StatusOK)
	if got := text(p.one("aria-label", "result")); got != "same old words new words end" {
		t.Errorf("the texts are %q", got)
	}
	if got := text(p.one("aria-label", "Detail")); !strings.Contains(got, "parameters The same in both, 1 KiB.") {
		t.Errorf("the detail is %q", got)
	}

	p = s.get(attr(p.one("data-key", "e"), "href"), http.StatusOK) // comes round
	if got := text(p.one("aria-label", "Differences")); !strings.HasPrefix(got, "1 of 4") {
		t.Errorf("it is %q", got)
	}

	if got := len(lines(s.get("/compare?a=one&b=two&equal=true", http.StatusOK))); got != 9 {
		t.Errorf("all rows are %d", got)
	}
	if got := lines(s.get("/compare?a=one&b=two&equal=true&from=8", http.StatusOK)); len(got) != 1 {
		t.Errorf("from the ninth: %q", got)
	}
	if got := text(
		s.get("/compare?a=one&b=two&at=a:step:none", http.StatusOK).all("class", "note")[0],
	); got != "These runs have no row a:step:none ." {
		t.Errorf("it says %q", got)
	}
}

// TestCompareWhat: who asks for no runs gets a form, and who asks for wrong ones is told.
func TestCompareWhat(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeSteps("one", record.Completed)

	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"/compare":                      {http.StatusOK, ""},
		"/compare?a=one":                {http.StatusOK, ""},
		"/compare?a=one&b=one":          {http.StatusBadRequest, "Both are the same run."},
		"/compare?a=one&b=none":         {http.StatusNotFound, "There is no run none."},
		"/compare?a=one&b=none&from=-1": {http.StatusBadRequest, "There is no run none.from must be a number of lines"},
	} {
		p := s.get(path, want.status)
		said := ""
		for _, n := range p.all("role", "alert") {
			said += text(n)
		}
		if said != want.says {
			t.Errorf("%s says %q, want %q", path, said, want.says)
		}
	}
}
