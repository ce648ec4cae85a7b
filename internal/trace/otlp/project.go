package otlp

import (
	"slices"

	"github.com/actlog/actlog/record"
)

// Projection makes the rows of one trace while its spans arrive. Its rows depend only on the set of
// spans so far, not on their order or how often one occurs. Every row's id is derived from that of the
// trace or a span, so the rows of a larger set replace those of a smaller one.
//
// Each span is read once. The places of all spans are found anew each time, because any span may change
// the place of others. That is cheap beside making rows, which is only done where something changed.
type Projection struct {
	spans gathered
	order []*node // those with a span, in the order of compareNodes
	made  made
	size  int
	// closed says that nothing more is expected. fresh says that this has not been taken into account.
	closed, fresh bool
}

// NewProjection returns the projection of a trace without spans.
func NewProjection(traceID string) *Projection {
	return &Projection{
		spans: gathered{
			trace: traceID, versions: map[string]*version{}, nodes: map[string]*node{}, fresh: map[string]*version{},
		},
	}
}

// Add adds spans: of chunks that are kept, and fresh ones, each of one chunk. It does not change the spans, and
// keeps them. If it fails, the projection is of no more use.
func (p *Projection) Add(kept [][]byte, fresh [][]Span) error {
	for _, chunk := range kept {
		spans, err := DecodeChunk(chunk)
		if err != nil {
			return err
		}
		p.add(spans)
	}

	for _, spans := range fresh {
		p.add(spans)
	}
	return nil
}

func (p *Projection) add(spans []Span) {
	const node = 2 << 10 // bytes that a span takes in its place
	p.size += Memory(spans, map[*Attribute]bool{}) + node*len(spans)
	for i := range spans {
		p.spans.add(&spans[i])
	}
}

// Size estimates how many bytes of memory the projection takes.
func (p *Projection) Size() int { return p.size }

// Close says that nothing more is expected. Spans that are known only from their children are not waited
// for any longer: what they did is what arrived of it. What has not ended has not.
func (p *Projection) Close() { p.closed, p.fresh = true, !p.closed }

// Live reports whether some row of the trace has not ended.
func (p *Projection) Live() bool { return p.made.live }

// Changes returns the rows that differ from those that it returned before, parents first, and the keys
// of those that are gone. The first time, all rows differ. There are none if there is no agent in the
// trace.
func (p *Projection) Changes() (changed []record.Change, gone []record.Key) {
	fresh := p.spans.changed()
	if len(fresh) == 0 && !p.fresh {
		return nil, nil
	}

	p.fresh = false
	p.insert(fresh)
	r := projection{forest: newForest(p.spans.trace, p.order, p.spans.nodes, p.closed), before: p.made}
	for _, n := range r.owners {
		r.addStep(n)
	}
	if len(r.steps) > 0 {
		r.useSkipped()
		changed = r.rows()
	}

	gone = p.made.gone(&r.now, p.spans.trace)
	p.made = r.now
	return changed, gone
}

// insert puts fresh nodes into the order.
func (p *Projection) insert(fresh []*node) {
	if len(fresh) == 0 {
		return
	}

	again := slices.ContainsFunc(fresh, func(n *node) bool { return n.ordered }) // may stand elsewhere now
	for _, n := range fresh {
		if !n.ordered {
			n.ordered = true
			p.order = append(p.order, n)
		}
	}

	from := 0
	if !again { // only what is behind the first of them moves
		first := slices.MinFunc(fresh, compareNodes)
		from, _ = slices.BinarySearchFunc(p.order[:len(p.order)-len(fresh)], first, compareNodes)
	}
	slices.SortFunc(p.order[from:], compareNodes)
}

// Project returns the rows of the spans of one trace, parents first, or none if there is no agent in
// it. Of several traces it takes the one with the least id. It does not change the spans, and may run on
// the same ones several times at once.
func Project(spans []Span) []record.Change {
	trace := ""
	for i := range spans {
		if s := &spans[i]; validID(s.TraceID, 32) && validID(s.SpanID, 16) && (trace == "" || s.TraceID < trace) {
			trace = s.TraceID
		}
	}

	p := NewProjection(trace)
	p.add(spans)
	rows, _ := p.Changes()
	return rows
}
