package define

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
)

// Two patterns overlap exactly if some name matches both.
func TestOverlap(t *testing.T) {
	t.Parallel()
	words := func(letters string, longest int) []string {
		all := []string{""}
		for last := all; longest > 0; longest-- {
			var next []string
			for _, w := range last {
				for _, l := range strings.Split(letters, "") {
					next = append(next, w+l)
				}
			}
			all, last = append(all, next...), next
		}
		return all
	}

	patterns, names := words("ab*", 4), words("ab", 6)
	matches := make([][]bool, len(patterns))
	for i, p := range patterns {
		for _, name := range names {
			matches[i] = append(matches[i], tool.Match(p, name))
		}
	}

	for i, a := range patterns {
		for j, b := range patterns {
			want := false
			for k := range names {
				want = want || matches[i][k] && matches[j][k]
			}
			if Overlap(a, b) != want {
				t.Errorf("a = %q and %q: %v", a, b, !want)
			}
		}
	}
}
