package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestCompareLarge: W3: runs whose pages a server can make, it can compare, also when both together are more than one
// answer may hold, and the answer is the same each time.
func TestCompareLarge(t *testing.T) {
	t.Parallel()
	const steps, calls = 40, 100
	s := open(t, httpd.Config{AnswerBytes: 10 << 20})
	for _, root := range []string{"one", "two"} {
		changes := []record.Change{
			&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("Large"), State: new(record.Completed)},
		}
		for i := range steps {
			step := fmt.Sprint(root, "-", i)
			changes = append(changes, &record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: step, StepIndex: new(int64(i)), AgentName: new(fmt.Sprint("agent", i)),
				State: new(record.Completed),
			})
			for j := range calls {
				result := fmt.Sprint("result ", j)
				if root == "two" && i == steps-1 && j == calls-1 {
					result = "another"
				}
				changes = append(changes, &record.ActTool{
					RootPlanID: root, StepID: step, Seq: 0, ToolCallID: fmt.Sprint(j), CallIndex: new(int64(j)),
					Name: new(fmt.Sprint("tool", j)), Result: &result, State: new(record.Completed),
				})
			}
		}

		storetest.Write(t, s.store, changes...)
		s.get("/runs/"+root, http.StatusOK) // its page can be made
	}

	var first string
	for _, path := range []string{
		"/compare?a=one&b=two", "/compare?a=one&b=two", "/compare?a=two&b=one", "/compare?a=one&b=two",
	} {
		p := s.get(path, http.StatusOK)
		said := text(p.one("class", "compared"))
		if got := text(p.one("aria-label", "Differences")); !strings.HasPrefix(got, "1 of 1 difference") ||
			!strings.Contains(said, "another") || len(p.all("role", "status")) != 1 {
			t.Errorf("%s says %q: %.300s", path, got, said)
		}

		if path == "/compare?a=one&b=two" {
			if first == "" {
				first = said
			} else if said != first {
				t.Errorf("%s says %.300s, then %.300s", path, first, said)
			}
		}
	}
}
