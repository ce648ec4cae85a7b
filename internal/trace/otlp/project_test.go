package otlp_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// copied returns a deep copy of spans. Every slice has one element behind its end, so that an append
// to it would write into the array that the caller holds.
func copied(spans []otlp.Span) []otlp.Span {
	spans = withSpare(spans)
	for i := range spans {
		s := &spans[i]
		s.Attributes, s.Resource = withSpare(s.Attributes), withSpare(s.Resource)
		s.Truncated = withSpare(s.Truncated)
		s.Events, s.Links = withSpare(s.Events), withSpare(s.Links)

		for j := range s.Events {
			s.Events[j].Attributes = withSpare(s.Events[j].Attributes)
		}
		for j := range s.Links {
			s.Links[j].Attributes = withSpare(s.Links[j].Attributes)
		}
	}
	return spans
}

func withSpare[S ~[]E, E any](s S) S {
	var zero E
	return append(slices.Clone(s), zero)[: len(s) : len(s)+1]
}

// spares reports whether the element behind the end of every slice is still zero.
func spares(spans []otlp.Span) bool {
	zero := func(s any) bool {
		v := reflect.ValueOf(s)
		return v.Slice(0, v.Len()+1).Index(v.Len()).IsZero()
	}

	for i := range spans {
		s := &spans[i]
		if !zero(s.Attributes) || !zero(s.Resource) || !zero(s.Truncated) || !zero(s.Events) || !zero(s.Links) {
			return false
		}

		for _, e := range s.Events {
			if !zero(e.Attributes) {
				return false
			}
		}
		for _, l := range s.Links {
			if !zero(l.Attributes) {
				return false
			}
		}
	}
	return zero(spans)
}

// TestProjectDoesNotChangeSpans: callers keep decoded spans and project them again, also at the same
// time. The race detector reports any write.
func TestProjectDoesNotChangeSpans(t *testing.T) {
	t.Parallel()
	traces := map[string][]otlp.Span{"every field": {everything()}}
	for name, files := range fixtures {
		traces[name] = decode(t, files...)
	}
	for _, path := range scripts(t) {
		traces[path] = readScript(t, path)
	}

	for name, shape := range shapes {
		traces[name] = shaped(200, shape)
	}
	for seed := range uint64(200) {
		traces[fmt.Sprint("random, seed ", seed)] = randomTrace(t, rand.New(rand.NewPCG(seed, 2)))
	}

	for name, before := range traces {
		spans := copied(before)
		want := lines(t, otlp.Project(copied(before)))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if got := lines(t, otlp.Project(spans)); got != want {
					t.Errorf("%s: other rows:\n%s\nnot\n%s", name, got, want)
				}
			})
		}
		wg.Wait()

		if !reflect.DeepEqual(spans, copied(before)) || !spares(spans) {
			t.Errorf("%s: the spans have changed", name)
		}
		if got := lines(t, otlp.Project(spans)); got != want {
			t.Errorf("%s: other rows the second time:\n%s\nnot\n%s", name, got, want)
		}
	}
}
