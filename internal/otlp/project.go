package otlp

import (
	"fmt"
	"slices"

	"github.com/actlog/actlog/record"
)

// ProjectKept returns the rows of all spans of a trace together, see [Project]: of those in
// chunks that are kept, and of fresh ones, which are of type []Span. It is what the store calls.
func ProjectKept(traceID string, kept [][]byte, fresh []any) ([]record.Change, error) {
	var all []Span
	for _, chunk := range kept {
		spans, err := DecodeChunk(chunk)
		if err != nil {
			return nil, err
		}
		all = append(all, spans...)
	}
	for _, f := range fresh {
		spans, ok := f.([]Span)
		if !ok {
			return nil, fmt.Errorf("fresh spans are of type %T", f)
		}
		all = append(all, spans...)
	}
	return Project(slices.DeleteFunc(all, func(s Span) bool { return s.TraceID != traceID })), nil
}

// Project returns the rows of the spans of one trace, parents first, or none if there is no agent in
// it. The rows depend only on the set of spans, not on their order or how often one occurs. Every
// row's id is derived from that of the trace or a span, so the rows of a larger set replace those of
// a smaller one. Project does not change the spans, and may run on the same ones several times at once.
func Project(spans []Span) []record.Change {
	p := projection{forest: newForest(merge(spans))}
	for _, n := range p.nodes {
		if n.isStep() {
			p.steps = append(p.steps, newStep(n))
		}
	}
	if len(p.steps) == 0 {
		return nil
	}
	p.useSkipped()
	slices.SortStableFunc(p.steps, func(a, b *step) int { return compareNodes(a.node, b.node) })
	return p.rows()
}
