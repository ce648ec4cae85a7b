package search_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/search"
)

// uris returns the files of the sources of a search, in their order.
func uris(r tool.Result) (all []string) {
	for _, s := range r.Sources {
		all = append(all, s.URI)
	}
	return all
}

// A file that is asked for by a text is found once, by its best part. What is like a piece of code may be in several
// parts of a file.
func TestFilesAreFoundOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var long strings.Builder
	for range 4 {
		long.WriteString("func lease() {\n" + strings.Repeat("\trelease()\n", 12) + "}\n\n")
	}
	long.WriteString("func drop() { drop(lease) }\n")
	write(t, dir, files{"long.go": long.String(), "short.go": "package short // a lease\n"})
	e, _ := scripted(t)

	for by, vectors := range map[string]*search.Vectors{"words": nil, "both": search.NewVectors(e)} {
		set := open(t, dir, vectors)
		found := call(t, set, "search.search_code", object{"query": "drop lease"})
		if got := uris(found); !slices.Equal(got, []string{"long.go", "short.go"}) {
			t.Errorf("by %s: %q", by, got)
		} else if !strings.Contains(found.Sources[0].Snippet, "drop(lease)") {
			t.Errorf("by %s: the part is %q", by, found.Sources[0].Snippet)
		}

		alike := call(t, set, "search.search_similar_code", object{"code": "func lease() { release() }"})
		if got := uris(alike); len(got) < 4 {
			t.Errorf("by %s: what is similar: %q", by, got)
		}
	}
}

// The parts of a file by which words and vectors find it count together, although they are not the same.
func TestRankingsMeetInFiles(t *testing.T) {
	t.Parallel()
	words := map[string][]float64{"both.go": {1, 0}, "words.go": {0.9}, "vectors.go": {0}}
	near := map[string][]float64{"both.go": {0, 0.9}, "words.go": {0}, "vectors.go": {1}}

	for _, r := range []struct {
		whole bool
		want  []string
	}{
		{true, []string{"both.go", "vectors.go", "words.go"}},
		{false, []string{"both.go", "vectors.go", "both.go", "words.go"}},
	} {
		got, scores := search.Rank([]string{"both.go", "words.go", "vectors.go"}, words, near, r.whole)
		if !slices.Equal(got, r.want) {
			t.Errorf("whole files: %t: %q %v", r.whole, got, scores)
		}
	}
}

// Files of tests come later, by vectors too, unless the query asks for tests. By words, the name of a file says more
// than its folder, and a declaration more than a use.
func TestWhatCountsMore(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		query, first string
		with         files
		byWords      bool // only
	}{
		{"drop the lease", "lease.go", files{
			"lease.go": "package a // drop the lease here\n", "lease_test.go": "package a // drop the lease\n",
		}, false},
		{"test that drops the lease", "lease_test.go", files{
			"lease.go": "package a\n", "lease_test.go": "package a // test: drop the lease\n",
		}, false},
		{"lease", "x/lease.go", files{"x/lease.go": "package a\n", "lease/x.go": "package a\n"}, true},
		{"lease", "b.go", files{"a.go": "\tlease()\n", "b.go": "func lease()\n"}, true},
	} {
		dir := t.TempDir()
		write(t, dir, row.with)
		e, _ := scripted(t)
		for by, vectors := range map[string]*search.Vectors{"words": nil, "both": search.NewVectors(e)} {
			if row.byWords && vectors != nil {
				continue
			}

			got := uris(call(t, open(t, dir, vectors), "search.search_code", object{"query": row.query}))
			if len(got) == 0 || got[0] != row.first {
				t.Errorf("%q by %s: %q, want %s", row.query, by, got, row.first)
			}
		}
	}
}
