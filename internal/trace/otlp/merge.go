package otlp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
)

// version is what came of one span of a trace.
type version struct {
	*node
	best *Span      // of the versions that came, see supersedes
	more []Event    // that came as log records
	cut  []string   // the names of what was cut in those; a name may occur several times
	logs Attributes // the resource of those; if they have several, the least in any order of them
}

// gathered is the spans of one trace, one for each id. It is the same in any order in which they come,
// and however often one comes. Of several versions of a span it keeps one. Events that came as log
// records are added to a copy of their span.
type gathered struct {
	trace    string
	versions map[string]*version // by id of the span; some only have events yet
	nodes    map[string]*node    // of those with a span
	fresh    map[string]*version // changed since they were last read
	read     uint64              // how many spans were read
	context  *context            // of the last one
}

// add adds a span. Spans of other traces, and those without valid ids, are left out.
func (g *gathered) add(s *Span) {
	if s.TraceID != g.trace || !validID(s.SpanID, 16) {
		return
	}

	if s.Stub {
		v := g.version(s.SpanID)
		v.more = append(v.more, s.Events...)
		v.cut = append(v.cut, s.Truncated...)
		if v.logs == nil || !slices.Equal(s.Resource, v.logs) && bytes.Compare(encoded(s.Resource), encoded(v.logs)) < 0 {
			v.logs = s.Resource
		}
		return
	}

	if pending, ok := pendingSpan(s); ok {
		if !validID(pending.SpanID, 16) {
			return
		}
		s = &pending
	}
	if v := g.versions[s.SpanID]; v != nil && v.best != nil && !supersedes(s, v.best) {
		return
	}
	g.version(s.SpanID).best = s
}

// version returns what is known of a span that changes now.
func (g *gathered) version(id string) *version {
	v := g.versions[id]
	if v == nil {
		v = &version{node: &node{id: id}}
		g.versions[id] = v
	}
	g.fresh[id] = v
	return v
}

// changed reads the spans that changed, and returns their nodes.
func (g *gathered) changed() (nodes []*node) {
	for id, v := range g.fresh {
		if v.best == nil { // its span may still arrive
			continue
		}

		s := v.best
		if len(v.more) > 0 {
			s = new(*v.best)
			s.Events, s.Truncated = addEvents(s.Events, v.more), sortedUnique(s.Truncated, v.cut)
		}

		g.read++
		v.Span, v.spanFacts = s, new(classify(s))
		v.node.version = g.read
		v.context = contextOf(s, v.logs, v.spanFacts, g.context)
		g.context = v.context
		g.nodes[id] = v.node
		nodes = append(nodes, v.node)
	}
	clear(g.fresh)
	return nodes
}

// supersedes reports whether a is kept of two versions of one span: one that has ended, else the one
// that ended later, else the one with more attributes or events. The order is total, so it does not
// matter which came first.
func supersedes(a, b *Span) bool {
	order := cmp.Or(
		cmp.Compare(a.End, b.End), // 0: not ended
		cmp.Compare(len(a.Attributes), len(b.Attributes)),
		cmp.Compare(len(a.Events), len(b.Events)),
	)
	if order == 0 && !reflect.DeepEqual(a, b) {
		order = bytes.Compare(encoded(a), encoded(b))
	}
	return order > 0
}

// encoded returns the JSON of a span, an event or attributes, nil if an attribute is not valid JSON.
func encoded(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// addEvents returns events with those of more that they lack, in the order of their times. It does
// not change the array behind events.
func addEvents(events, more []Event) []Event {
	type keyed struct {
		Event
		key string
	}

	seen := make(map[string]bool, len(events)+len(more))
	for _, e := range events {
		seen[string(encoded(e))] = true
	}
	added := make([]keyed, 0, len(more))
	for _, e := range more {
		if key := string(encoded(e)); !seen[key] {
			seen[key] = true
			added = append(added, keyed{e, key})
		}
	}
	slices.SortFunc(added, func(a, b keyed) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.key, b.key)) })

	out := slices.Clip(events)
	for _, k := range added {
		out = append(out, k.Event)
	}
	return out
}

// sortedUnique returns the texts of some lists, each once and in order.
func sortedUnique(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}
