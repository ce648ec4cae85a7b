package otlp

import "slices"

// Some frameworks only report the parts of a pipeline, and no agent, model or tool call. Such a trace is
// a run whose steps are the parts.

// addParts makes steps of the parts of a pipeline: of what is below the root, else of the root. The root
// is a span of such an instrumentation that is at the top, or one below others that runs parts.
func (f *forest) addParts() {
	var roots []*node
	var look func(n *node, atTop bool)
	look = func(n *node, atTop bool) {
		if n.isPart() && n.facts.ofGenAI && (atTop || isChain(n.Span)) {
			roots = append(roots, n)
			return
		}
		for _, c := range n.children {
			look(c, n.Span == nil && (n.remote || n.settled || n.id == f.trace))
		}
	}
	for _, top := range f.tops {
		look(top, top.Span != nil)
	}
	for _, root := range roots {
		parts := partsBelow(root)
		if len(parts) == 0 {
			parts = []*node{root}
		}
		for _, n := range parts {
			n.isPipelines = true
			f.owners = append(f.owners, n)
		}
	}
	slices.SortFunc(f.owners, compareNodes)
}

// isPart reports whether a node may be a part of a pipeline.
func (n *node) isPart() bool {
	return n.Span != nil && (n.facts.Class == Transparent || n.facts.ofGenAI && n.facts.Class <= Agent)
}

func partsBelow(root *node) (parts []*node) {
	stack := slices.Clone(root.children)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = append(stack[:len(stack)-1], n.children...)
		if n.isPart() {
			parts = append(parts, n)
		}
	}
	return parts
}

// partAbove returns the part of the pipeline that a part is in, nil if there is none.
func (n *node) partAbove() *node {
	for p := n.parent; p != nil; p = p.parent {
		if p.isPipelines {
			return p
		}
	}
	return nil
}
