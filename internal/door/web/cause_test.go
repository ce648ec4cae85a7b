package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// W1, F9: the page of each run has a region that says the cause, and leads to it; the list says the same.
func TestCauses(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	all := storetest.CauseCases(t, "run-")
	for _, run := range all {
		storetest.Write(t, s.store, run.Changes...)
	}
	list := s.get("/?", http.StatusOK)

	leads := func(n *html.Node) map[string]bool {
		to := map[string]bool{}
		for d := range n.Descendants() {
			if href := attr(d, "href"); href != "" {
				to[href] = true
			}
		}
		return to
	}

	listed := leads(list.root)
	for _, run := range all {
		t.Run(run.Name, func(t *testing.T) {
			p := s.get("/runs/"+run.Root, http.StatusOK)
			regions := p.all("aria-label", "Cause")
			link := "/runs/" + run.Root + "?" + url.Values{"at": {run.At}}.Encode()

			if run.At == "" {
				if len(regions) != 0 {
					t.Errorf("a region says %s", text(regions[0]))
				}
				return
			}
			if len(regions) != 1 || !listed[link] || !leads(regions[0])[link] {
				t.Fatalf("%d regions; %t in the list, %v in the region lead to %s", len(regions), listed[link], leads(regions[0]),
					link)
			}

			said := text(regions[0])
			for _, part := range []string{run.Row, run.CauseKind(), run.Text} {
				if !strings.Contains(said, part) {
					t.Errorf("the region lacks %q: %s", part, said)
				}
			}

			if asks := run.CauseKind() == "waiting"; strings.HasPrefix(said, "Waits for an answer") != asks ||
				strings.Contains(said, "✗") == asks {
				t.Errorf("asks %t: %s", asks, said)
			}
			if strings.Contains(said, "recovered") != run.Recovered {
				t.Errorf("recovered %t: %s", run.Recovered, said)
			}
			if name := "cycle 2"; strings.HasPrefix(run.At, "cycle:") && !strings.Contains(said, name) {
				t.Errorf("the region lacks %q: %s", name, said)
			}
		})
	}
}
