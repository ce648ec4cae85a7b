package otlp

import (
	"cmp"
	"slices"
)

// orphans are spans whose parent has not arrived although the root of their trace has ended: what is
// between them is not exported. Spans are exported when they end, so the parent will hardly come. If it
// comes after all, its children are no orphans any more.
type orphans struct {
	// roots are those of the trace. They have ended, unless nothing more is expected.
	roots []*node
	// remote says that the parents of the roots are in other processes. Then orphans may belong to those.
	remote  bool
	parents []*node // nodes without a span, which is not waited for
}

// takeOrphans takes the parents of orphans out of the tops.
func (f *forest) takeOrphans() (o orphans) {
	o.findRoots(f)
	hasEnded := !slices.ContainsFunc(o.roots, func(n *node) bool { return n.End == 0 })
	if !f.closed && (len(o.roots) == 0 || !hasEnded) {
		return orphans{}
	}

	f.tops = slices.DeleteFunc(f.tops, func(top *node) bool {
		if top.Span != nil || top.id == f.trace || top.remote {
			return false
		}
		top.notAwaited = f.closed || !o.remote
		if len(o.roots) == 0 && slices.ContainsFunc(top.children, (*node).isAgent) {
			return false // what it knows of an agent stands for a root
		}
		o.parents = append(o.parents, top)
		return true
	})
	return o
}

// findRoots finds the roots of a trace: the spans without a parent. If there are none, the spans whose parent is in
// another process.
func (o *orphans) findRoots(f *forest) {
	var entries []*node
	for _, top := range f.tops {
		switch {
		case top.Span != nil: // a span without a parent
			o.roots = append(o.roots, top)
		case top.id == f.trace: // stands for the trace itself: its children are roots
			o.roots = append(o.roots, top.children...)
		case top.remote: // a parent in another process, known only from its children
			entries = append(entries, top.children...)
		}
	}

	if len(o.roots) == 0 {
		o.roots, o.remote = entries, true
	}
}

// adopt puts orphans into the step that was around them in time. If there is none, the first root takes
// the place of their parent.
func (f *forest) adopt(o orphans) {
	if len(o.parents) == 0 {
		return
	}

	var root *node
	if i := slices.IndexFunc(o.roots, (*node).mayAdopt); i >= 0 && !o.remote {
		root = o.roots[i]
	}

	var all, steps, running []*node
	for _, parent := range o.parents {
		all = append(all, parent.children...)
	}
	slices.SortFunc(all, func(a, b *node) int { // an agent before what it does
		if a.start() != b.start() || a.isAgent() == b.isAgent() {
			return compareNodes(a, b)
		}
		if a.isAgent() {
			return -1
		}
		return 1
	})

	for _, n := range f.nodes {
		isRoot := len(o.roots) > 0 && (n.parent == nil || n.parent.Span == nil)
		if n.mayAdopt() && (isRoot || n.isAgent() || n.isStep()) {
			steps = append(steps, n)
		}
	}
	slices.SortStableFunc(steps, func(a, b *node) int { return cmp.Compare(a.start(), b.start()) }) // outer ones first

	for _, n := range all {
		for len(steps) > 0 && steps[0].start() <= n.start()+slack {
			running, steps = append(running, steps[0]), steps[1:]
		}
		for len(running) > 0 && running[len(running)-1].end() < n.start() {
			running = running[:len(running)-1]
		}

		place := root
		if len(running) > 0 {
			place = running[len(running)-1]
		}
		if place == nil {
			continue
		}

		n.addTo(place)
		f.place(n)
		if n.isAgent() {
			running = append(running, n)
		}
	}

	for _, parent := range o.parents {
		parent.children = slices.DeleteFunc(parent.children, func(n *node) bool { return n.parent != parent })
		if len(parent.children) == 0 {
			delete(f.others, parent.id)
		} else {
			f.tops = append(f.tops, parent)
			f.place(parent)
		}
	}
	slices.SortFunc(f.tops, compareNodes)
}

// mayAdopt reports whether a node may be the parent of any other: what is below a model call is the
// same call.
func (n *node) mayAdopt() bool {
	return n.Span != nil && n.outer == nil && n.facts.Class != Model && n.facts.Class != Skip
}
