package otlp

import "slices"

// newForest puts the nodes of spans, which are in their order, into their places. If it is closed, the
// spans of nodes without one are not waited for.
func newForest(trace string, all []*node, byID map[string]*node, closed bool) *forest {
	f := &forest{trace: trace, closed: closed, spans: byID, others: map[string]*node{}, calls: map[response]*node{}}
	for _, n := range all {
		n.reset()
	}

	var logged []*node
	for _, n := range all { // in their order, so every list of children is in order
		switch {
		case namesSpan(n.Span):
			logged = append(logged, n)
		case n.above != nil && n.above.id == n.ParentID && !namesSpan(n.above.Span):
			n.addTo(n.above)
		case n.ParentID != n.id && validID(n.ParentID, 16):
			n.above = f.spans[n.ParentID]
			f.addBelow(n.ParentID, n)
		default:
			f.addTop(n)
		}
	}

	slices.SortFunc(f.tops, compareNodes)
	prompts := promptsOf(all)
	f.endPrompts(prompts)
	moveToPrompts(f.others[runOf(trace)], prompts)
	orphans := f.takeOrphans()

	f.nodes = make([]*node, 0, len(all)+len(f.others))
	f.place(f.tops...)
	f.adopt(orphans)
	for _, n := range all {
		if !n.placed() && !namesSpan(n.Span) {
			f.breakRing(n)
		}
	}

	f.useRecords(logged)
	for _, n := range slices.Backward(f.nodes) { // what is below first
		makesRow := n.outer == nil && n.facts.Class.makesRow()
		if p := n.parent; p != nil {
			p.rowsBelow = p.rowsBelow || n.rowsBelow || makesRow && !n.facts.likely
		}
		if makesRow && n.facts.Class == Tool && n.rowsBelow {
			f.plans = append(f.plans, n)
		}
		if n.isStep() {
			f.owners = append(f.owners, n)
		}
	}

	slices.Reverse(f.plans)
	slices.SortFunc(f.owners, compareNodes)
	if len(f.owners) == 0 {
		f.addStages()
	}
	f.chargeAsides()
	f.useLogs()
	return f
}
