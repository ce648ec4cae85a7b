package web_test

import (
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestGraph: the run of a graph has it as a drawing, whose nodes have their states and lead to their rows.
func TestGraph(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.carry("dag", map[string]string{"prompt": "Tea or coffee?"})
	s.ends(id, record.Failed)
	p := s.get("/runs/"+id, http.StatusOK)

	var said, xs []string
	drawing := p.one("aria-label", "Graph")
	edges := 0
	for n := range drawing.Descendants() {
		switch n.Data {
		case "path":
			edges++
		case "a":
			row := s.get(attr(n, "href"), http.StatusOK).one("aria-selected", "true")
			said = append(said, attr(row, "id")[:5]+attr(n, "aria-label"))
		case "rect":
			xs = append(xs, attr(n, "x"))
		}
	}

	took := regexp.MustCompile(`(completed|failed) [0-9.ms]+`)
	for i := range said {
		said[i] = took.ReplaceAllString(said[i], "$1")
	}

	want := []string{
		"step:Context: completed, needs nothing", "step:Rate tea: failed, needs Context",
		"step:Rate <b>coffee</b>: completed, needs Context", "step:Compare: completed, needs Rate <b>coffee</b>",
		"step:Choice: blocked, needs Context, Rate tea, Compare",
	}
	if !slices.Equal(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}

	// From the context to both ratings, from coffee to the comparison, to the choice from there and from tea, which passes
	// a layer.
	if want := []string{"1", "221", "221", "441", "661"}; !slices.Equal(xs, want) || edges != 6+1 {
		t.Errorf("%d edges, nodes at %v", edges, xs)
	}
	if patch := s.get("/runs/"+id+"/patch?rows=plan:"+id, http.StatusOK); len(patch.all("class", "dag")) != 1 {
		t.Error("a patch lacks the graph")
	}

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "begins", CurrentPlanID: "begins", Executor: new("dag")},
		&record.Artifact{
			RootPlanID: "begins", PlanID: "begins", Name: "graph", Value: []byte(`{"nodes":[{"id":"a","name":"First"}]}`),
		})
	if got := s.get("/runs/begins", http.StatusOK).one("role", "img"); attr(got,
		"aria-label") != "First: pending, needs nothing" || text(got) != "First ○ pending" {
		t.Errorf("a node that has not begun is %q", attr(got, "aria-label"))
	}

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "theirs", CurrentPlanID: "theirs", Executor: new("dag")},
		&record.Artifact{
			RootPlanID: "theirs", PlanID: "theirs", Name: "graph", Value: []byte(`{"nodes":[{"id":"a","dependencies":["a"]}]}`),
		})
	if theirs := s.get("/runs/theirs", http.StatusOK); len(theirs.all("class", "dag")) != 0 {
		t.Error("what is no graph is drawn")
	}
}
