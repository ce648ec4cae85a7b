package dag

import (
	"strings"
	"testing"
)

// E2: what a planner says is parsed, in a fence or not, and checked: ids, dependencies, cycles.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ answer, want string }{
		"plain":    {`{"nodes":[{"id":"a"}]}`, ""},
		"fenced":   {"```json\n{\"nodes\":[{\"id\":\"a\"}]}\n```", ""},
		"no JSON":  {"Sure!", "Failed to parse planner response as JSON: "},
		"empty":    {`{"nodes":[]}`, "has 0"},
		"no id":    {`{"nodes":[{}]}`, "nodes[0].id"},
		"double":   {`{"nodes":[{"id":"a"},{"id":"a"}]}`, "nodes[1].id"},
		"unknown":  {`{"nodes":[{"id":"a","dependencies":["b"]}]}`, "nodes[0].dependencies"},
		"bad edge": {`{"nodes":[{"id":"a"}],"edges":[{"from":"a","to":"b"}]}`, "edges[0].to"},
		"itself":   {`{"nodes":[{"id":"a","dependencies":["a"]}]}`, "cycle"},
		"cycle":    {`{"nodes":[{"id":"a"},{"id":"b"}],"edges":[{"from":"a","to":"b"},{"from":"b","to":"a"}]}`, "cycle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(row.answer)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
