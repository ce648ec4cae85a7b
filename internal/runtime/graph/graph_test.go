package graph_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/graph"
)

// many returns a graph of so many nodes, each of which depends on the one before.
func many(n int) string {
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(`{"id":"n%d","dependencies":["n%d"]}`, i, max(i-1, 0))
	}
	nodes[0] = `{"id":"n0"}`
	return `{"nodes":[` + strings.Join(nodes, ",") + `]}`
}

// E3: what a planner wrote is checked: ids, dependencies, cycles, sizes. The error names what is at fault.
func TestRead(t *testing.T) {
	t.Parallel()

	for name, row := range map[string]struct{ text, want string }{
		"plain":           {`{"nodes":[{"id":"a"}]}`, ""},
		"as many as may":  {many(200), ""},
		"no JSON":         {"Sure!", "invalid character"},
		"no object":       {`[]`, "cannot unmarshal"},
		"of another type": {`{"nodes":[{"id":7}]}`, "cannot unmarshal"},
		"empty":           {`{"nodes":[]}`, "there are 0"},
		"too many":        {many(10_000), "there are 10000, and must be 1 to 200"},
		"no id":           {`{"nodes":[{}]}`, "nodes[0].id"},
		"double":          {`{"nodes":[{"id":"a"},{"id":"a"}]}`, "nodes[1].id"},
		"long id":         {`{"nodes":[{"id":"` + strings.Repeat("a", 101) + `"}]}`, "nodes[0].id"},
		"id with NUL":     {`{"nodes":[{"id":"a\u0000"}]}`, "nodes[0].id"},
		"unknown":         {`{"nodes":[{"id":"a","dependencies":["b"]}]}`, "nodes[0].dependencies"},
		"unknown and long": {
			`{"nodes":[{"id":"a","dependencies":["` + strings.Repeat("b", 1<<20) + `"]}]}`, "nodes[0].dependencies",
		},
		"bad edge": {`{"nodes":[{"id":"a"}],"edges":[{"from":"a","to":"b"}]}`, "edges[0].to"},
		"itself":   {`{"nodes":[{"id":"a","dependencies":["a"]}]}`, "cycle"},
		"cycle":    {`{"nodes":[{"id":"a"},{"id":"b"}],"edges":[{"from":"a","to":"b"},{"from":"b","to":"a"}]}`, "cycle"},
		"deep":     {strings.Repeat(`{"nodes":[`, 20_000), "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := graph.Read([]byte(row.text))
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) ||
				err != nil && len(err.Error()) > 1000 {
				t.Errorf("graph.Read([]byte(row.text)) = %.500v, want %q", err, row.want)
			}
		})
	}
}

// E1: edges and dependencies say the same, and a graph that is read again stays as it is. Long texts are cut.
func TestLinks(t *testing.T) {
	t.Parallel()
	g, err := graph.Read([]byte(`{"title":"T\u0000","nodes":[{"id":"a"},{"id":"b","dependencies":["a","a"]},{"id":"c","name":"C","description":"` + strings.Repeat("x", 30_000) + `"}],
		"edges":[{"from":"a","to":"c"},{"from":"b","to":"c"},{"from":"a","to":"b"}]}`))
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff([]graph.Edge{{From: "a", To: "b"}, {From: "a", To: "c"}, {From: "b", To: "c"}},
		g.Edges); diff != "" {
		t.Errorf("g.Edges (-want +got):\n%s", diff)
	}
	if g.Title != "T" || g.Nodes[0].Name != "a" || len(g.Nodes[2].Description) > 20_000 ||
		!slices.Equal(g.Find("c").Dependencies, []string{"a", "b"}) {
		t.Errorf("g.Title = %q %q %d %q", g.Title, g.Nodes[0].Name, len(g.Nodes[2].Description), g.Find("c").Dependencies)
	}
	if a, b := g.Below("a"), g.Below("c"); a != 2 || b != 0 {
		t.Errorf("%d below a, %d below c", a, b)
	}

	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}

	again, err := graph.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(must(json.Marshal(again)))); diff != "" {
		t.Errorf("must(json.Marshal(again)) (-want +got):\n%s", diff)
	}
}

// E9: nodes may stand in any order.
func TestBackwards(t *testing.T) {
	t.Parallel()
	g, err := graph.Read([]byte(`{"nodes":[{"id":"c","dependencies":["b"]},{"id":"b","dependencies":["a"]},{"id":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if below := []int{g.Below("a"), g.Below("b"), g.Below("c")}; !slices.Equal(below, []int{2, 1, 0}) {
		t.Errorf("%v below a, b and c", below)
	}
}

// E3: whatever a planner wrote, what is read is read again as it is, and comes to its end wave by wave.
func FuzzRead(f *testing.F) {
	f.Add(`{"title":"T","nodes":[{"id":"a"},{"id":"b","dependencies":["a"]}],"edges":[{"from":"a","to":"b"}]}`)
	f.Add(`{"nodes":[{"id":"a","dependencies":["a"]}]}`)
	f.Add(`{"nodes":[{"id":"\u0000"}]}`)
	f.Add(many(3))
	f.Fuzz(func(t *testing.T, text string) {
		g, err := graph.Read([]byte(text))
		if err != nil {
			return
		}
		again, err := graph.Read(must(json.Marshal(g)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(must(json.Marshal(g))), string(must(json.Marshal(again)))); diff != "" {
			t.Errorf("must(json.Marshal(again)) (-want +got):\n%s", diff)
		}

		done := map[string]bool{}
		for range g.Nodes {
			for _, i := range g.Ready(done, done) {
				done[g.Nodes[i].ID] = true
			}
		}
		if len(done) != len(g.Nodes) {
			t.Errorf("%d of %d nodes are ever ready", len(done), len(g.Nodes))
		}
	})
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// E9: nodes are ready when all that they depend on are completed: 1, 3 and 1.
func TestReady(t *testing.T) {
	t.Parallel()
	g, err := graph.Read([]byte(`{"nodes":[{"id":"node_0"},{"id":"node_1","dependencies":["node_0"]},{"id":"node_2","dependencies":["node_0"]},
		{"id":"node_3","dependencies":["node_0"]},{"id":"node_4","dependencies":["node_1","node_2","node_3"]}]}`))
	if err != nil {
		t.Fatal(err)
	}

	done := map[string]bool{}
	if n := g.Below("node_0"); n != 4 {
		t.Errorf("%d below the first", n)
	}
	for _, want := range [][]int{{0}, {1, 2, 3}, {4}, nil} {
		wave := g.Ready(done, done)
		if !slices.Equal(wave, want) {
			t.Errorf("wave = %v, want %v", wave, want)
		}
		for _, i := range wave {
			done[g.Nodes[i].ID] = true
		}
	}
}
