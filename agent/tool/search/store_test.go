package search_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool/search"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// What one process had embedded, no other has embedded again. What is used stays known to be used, also if it is
// used from memory; what the store lost and memory has is written again. A model that changes under its name is
// asked again for everything.
func TestStore(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	dir := t.TempDir()
	write(t, dir, files{"a.go": "package one\n", "b.go": "package two\n", "c.go": "package three\n"})
	asked := 0

	of := func(elements ...float32) fake {
		return func(texts []string) (all [][]float32, err error) {
			asked += len(texts)
			for range texts {
				all = append(all, elements)
			}
			return all, nil
		}
	}
	process := func(e fake) *search.Vectors {
		v := search.NewVectors(e)
		v.StoreIn(s)
		return v
	}
	find := func(what string, v *search.Vectors, want int) {
		t.Helper()
		asked = 0
		if result := call(t, open(t, dir, v), "search.search_code", object{"query": "which package"}); result.Failed ||
			len(result.Sources) != 3 || asked != want {
			t.Errorf("%s: %d texts, want %d: %+v", what, asked, want, result)
		}
	}

	const sqlKept = "SELECT concat_ws(' ', count(*), min(length(elements)), max(length(elements)), min(used_at) > " +
		"now() - interval '1 hour') FROM actlog.text_vector WHERE model = 'fake'"
	kept := func(what, want string) {
		t.Helper()
		if got := strings.Join(storetest.Lines(t, s.DB(), sqlKept), ""); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}

	find("the first", process(of(3, 4)), 4) // three texts and the query
	kept("the first", "4 8 8 t")
	other := process(of(3, 4))
	find("another process", other, 0)

	storetest.Exec(t, s, "UPDATE actlog.text_vector SET used_at = now() - interval '2 days'")
	find("from memory", other, 0)
	kept("from memory", "4 8 8 f")
	other.Age()
	find("a day later", other, 0)
	kept("a day later", "4 8 8 t")

	storetest.Exec(t, s, "DELETE FROM actlog.text_vector")
	other.Age()
	find("the store lost it", other, 0)
	kept("the store lost it", "4 8 8 t")

	write(t, dir, files{"c.go": "package four\n"})
	find("another model of that name", process(of(1, 2, 2)), 1+4)
	kept("another model of that name", "5 8 12 t")
	find("it is kept", process(of(1, 2, 2)), 0)
}
