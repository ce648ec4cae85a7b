package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestRetryAll: the runs of a list that failed are retried at once, after a look at them, and a job says how far it
// has come. A list that is narrowed in a way in which jobs are not offers that not.
func TestRetryAll(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	ids := map[string]bool{}
	for range 3 {
		started, err := s.engine.Start(t.Context(), engine.Request{
			Executor: "agent", Input: []byte(`{"agent":"clerk","request":"<b>refund"}`), Project: "shop",
			Limits: &engine.Limits{Rounds: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		ids[started.PlanID] = true
		s.send("POST", "/runs/"+started.PlanID+"/control", "action=stop")
		storetest.Until(t, "it is stopped", func() bool { return s.run(started.PlanID).State == record.Cancelled })
	}

	link := func(query string) string {
		for n := range s.get("/?"+query, http.StatusOK).root.Descendants() {
			if n.Data == "a" && text(n) == "Retry all" {
				return attr(n, "href")
			}
		}
		return ""
	}
	for _, query := range []string{
		"project=shop", "state=COMPLETED", "state=CANCELLED&userId=u", "state=CANCELLED&q=x", "state=CANCELLED&minCost=1",
	} {
		if got := link(query); got != "" {
			t.Errorf("%s offers %s", query, got)
		}
	}

	to := link("state=CANCELLED&project=shop&since=24h")
	p := s.get(to, http.StatusOK)
	if got := text(p.one("class", "start")); !strings.Contains(got, "Retry 3 runs?") ||
		strings.Count(got, "<b>refund") != 3 {
		t.Errorf("it asks %q", got)
	}

	form := p.one("class", "control")
	sent := "key=" + attr(p.one("name", "key"), "value")
	first := s.send("POST", attr(form, "action"), sent)
	second := s.send("POST", attr(form, "action"), sent)
	job := first.Header.Get("Location")
	if first.StatusCode != http.StatusSeeOther || !strings.HasPrefix(job, "/bulk/bulk-") ||
		job != second.Header.Get("Location") {
		t.Fatalf("%d to %s, then %s", first.StatusCode, job, second.Header.Get("Location"))
	}

	storetest.Until(t, "the job has ended", func() bool {
		return strings.Contains(text(s.get(job, http.StatusOK).one("class", "start")), "3 asked, 0 refused, 0 left")
	})
	for id := range ids {
		if d := s.run(id); d.Plan.Attempt == nil || *d.Plan.Attempt != 2 {
			t.Errorf("run %s is not retried", id)
		}
	}
	if got := s.send("POST", job+"/stop", ""); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a job that has ended is stopped: %d", got.StatusCode)
	}
	s.get("/bulk/none", http.StatusNotFound)
	s.get("/bulk?state=COMPLETED", http.StatusBadRequest)
}
