package otlp

import "slices"

// Some frameworks only report the parts of a pipeline, and no agent, model or tool call. Such a trace is
// a run whose steps are the parts.

// addParts makes steps of the parts of a pipeline: of what is below the root, else of the root. The root
// is a span of such an instrumentation that is at the top, or one below others that runs parts.
func (f *forest) addParts() {
	roots := f.roots()
	for _, root := range roots {
		parts := partsBelow(root)
		if len(parts) == 0 {
			parts = []*node{root}
		}
		for _, n := range parts {
			n.isPipelines = true
		}
		f.owners = append(f.owners, parts...)
	}
	slices.SortFunc(f.owners, compareNodes)
}

// roots returns the roots of pipelines.
func (f *forest) roots() (roots []*node) {
	type place struct {
		*node
		atTop bool
	}
	var stack []place
	for _, top := range f.tops {
		stack = append(stack, place{top, top.Span != nil})
	}

	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.isPart() && n.facts.ofGenAI && (n.atTop || isChain(n.Span)) {
			roots = append(roots, n.node)
			continue
		}

		isTop := n.Span == nil && (n.remote || n.notAwaited || n.id == f.trace)
		for _, c := range n.children {
			stack = append(stack, place{c, isTop})
		}
	}
	return roots
}

// isPart reports whether a node may be a part of a pipeline.
func (n *node) isPart() bool {
	return n.Span != nil && (n.facts.Class == Transparent || n.facts.ofGenAI && n.facts.Class <= Agent)
}

// partsBelow returns the parts below a root, and records which part each is in.
func partsBelow(root *node) (parts []*node) {
	stack := slices.Clone(root.children)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]

		above := n.inPart
		if n.isPart() {
			parts, above = append(parts, n), n
		}
		for _, c := range n.children {
			c.inPart = above
			stack = append(stack, c)
		}
	}
	return parts
}
