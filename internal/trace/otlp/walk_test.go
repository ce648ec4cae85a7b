package otlp

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlacesAreCarriedDown checks that where a node belongs follows from its parent alone. To look at all that is above
// each of many spans in each other takes time that grows with the square of their number.
func TestPlacesAreCarriedDown(t *testing.T) {
	t.Parallel()
	const n = 10
	planted := func(attributes func(i int) Attributes) *forest {
		p := NewProjection(strings.Repeat("c", 32))
		var spans []Span
		for i := range n {
			s := Span{TraceID: p.spans.trace, SpanID: fmt.Sprintf("%016x", i+1), Name: "x", Start: int64(i + 1), End: 100}
			if i > 0 {
				s.ParentID = fmt.Sprintf("%016x", i)
			}
			s.Attributes = attributes(i)
			spans = append(spans, s)
		}

		p.add(spans)
		p.insert(p.spans.changed())
		return newForest(p.spans.trace, p.order, p.spans.nodes, false)
	}

	parts := planted(func(int) Attributes {
		return Attributes{{Key: "openinference.span.kind", Value: Value{Text: "CHAIN"}}}
	})
	for _, node := range parts.nodes {
		node.parent = nil
	}

	p := projection{forest: parts}
	for i, owner := range parts.owners {
		want := ""
		if i > 0 {
			want = parts.owners[i-1].id
		}
		if got := p.parentStep(owner); got != want {
			t.Errorf("part %s is in %q, want %q", owner.id, got, want)
		}
	}
	if len(parts.owners) != n-1 {
		t.Errorf("%d parts", len(parts.owners))
	}

	asides := planted(func(i int) Attributes {
		if i == 0 {
			return Attributes{{Key: "gen_ai.operation.name", Value: Value{Text: "invoke_agent"}}}
		}
		return Attributes{
			{Key: "gen_ai.operation.name", Value: Value{Text: "embeddings"}},
			{Key: "gen_ai.usage.cost", Value: Value{Text: "0.1"}},
		}
	})
	if len(asides.asides) != 1 {
		t.Errorf("%d of the asides in each other count", len(asides.asides))
	}
	for i, node := range asides.nodes[2:] {
		node.parent.parent = nil
		node.paid = false
		node.inheritPlace()
		if !node.paid {
			t.Errorf("aside %d is not part of one that counts", i+2)
		}
	}
}
