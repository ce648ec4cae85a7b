package otlp

import "slices"

// Some frameworks only report the stages of a pipeline, and no agent, model or tool call. Such a trace is
// a run whose steps are the stages.

// addStages makes steps of the stages of a pipeline: of what is below the root, else of the root. The root
// is a span of such an instrumentation that is at the top, or one below others that runs stages.
func (f *forest) addStages() {
	roots := f.roots()
	for _, root := range roots {
		stages := stagesBelow(root)
		if len(stages) == 0 {
			stages = []*node{root}
		}
		for _, n := range stages {
			n.isPipelines = true
		}
		f.owners = append(f.owners, stages...)
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
		if n.isStage() && n.facts.ofGenAI && (n.atTop || isChain(n.Span)) {
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

// isStage reports whether a node may be a stage of a pipeline.
func (n *node) isStage() bool {
	return n.Span != nil && (n.facts.Class == Transparent || n.facts.ofGenAI && n.facts.Class <= Agent)
}

// stagesBelow returns the stages below a root, and records which stage each is in.
func stagesBelow(root *node) (stages []*node) {
	stack := slices.Clone(root.children)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]

		above := n.stage
		if n.isStage() {
			stages, above = append(stages, n), n
		}
		for _, c := range n.children {
			c.stage = above
			stack = append(stack, c)
		}
	}
	return stages
}
