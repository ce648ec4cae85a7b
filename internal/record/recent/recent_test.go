package recent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/recent"
)

// TestMap checks that a map remembers a bounded number of keys, and that it keeps one that is
// asked for.
func TestMap(t *testing.T) {
	t.Parallel()
	var m recent.Map[int, int]
	const n = 100_000
	for i := range n {
		m.Set(i, -i)
		if v, ok := m.Get(0); !ok || v != 0 {
			t.Fatalf("the key in use was forgotten after %d others", i)
		}
	}
	if v, ok := m.Get(n - 1); !ok || v != 1-n {
		t.Errorf("the last key is %d, %t", v, ok)
	}

	known := 0
	for i := n - 1; i >= 0; i-- {
		if _, ok := m.Get(i); ok {
			known++
		}
	}
	if known < 4000 || known > 10_000 {
		t.Errorf("%d keys are known", known)
	}
}

// TestAll checks that a map with a bound of its own lists what it knows, with the newest values.
func TestAll(t *testing.T) {
	t.Parallel()
	m := recent.Map[int, int]{Half: 2}
	for i := range 5 {
		m.Set(i, i)
	}
	m.Set(3, 30)
	if diff := cmp.Diff(map[int]int{2: 2, 3: 30, 4: 4}, m.All()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
