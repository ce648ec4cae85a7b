package otlp

import (
	"cmp"
	"slices"
	"strings"
)

// forest is the spans of a trace, parents before children, each with where it
// belongs.
type forest struct {
	trace string
	nodes []*node // parents first, else in the order of their start
	tops  []*node
	skips []*node
	// outside stands above tool calls that nothing is above of.
	outside *node
}

// node is a span in its place. A node without a span is known by its children
// only: the parent has not arrived, or never will.
type node struct {
	*Span
	id       string
	facts    Facts
	parent   *node
	children []*node

	// owner is the nearest agent or tool call above, else the topmost node. tool
	// is the nearest tool call above, model the model call above within the owner,
	// cycle the wrapper of a cycle above within the owner; nil where there is none.
	owner, tool, model, cycle *node
	// same is the node that tells of the same call: its outer one.
	same *node
	// below tells the classes of what is below.
	below [Skip + 1]bool

	// solid is the nearest node above that is not passed through.
	solid *node

	// models and tools are those that the node owns.
	models, tools []*node
	// agents tells whether it owns agents.
	agents bool
}

func (n *node) start() int64 {
	if n.Span != nil {
		return n.Start
	}
	least := int64(0)
	for _, c := range n.children {
		if s := c.start(); least == 0 || s != 0 && s < least {
			least = s
		}
	}
	return least
}

// remote tells of a node without a span whether it is in another process, which
// may never tell of it.
func (n *node) remote() bool {
	return slices.ContainsFunc(n.children, func(c *node) bool { return c.Span != nil && c.RemoteParent })
}

func compareNodes(a, b *node) int {
	return cmp.Or(cmp.Compare(a.start(), b.start()), strings.Compare(a.id, b.id))
}

// plant puts spans into their places. Spans of one id must be merged.
func plant(spans []*Span) *forest {
	f := &forest{}
	if len(spans) == 0 {
		return f
	}
	f.trace = spans[0].TraceID
	byID := make(map[string]*node, len(spans))
	all := make([]*node, 0, len(spans))
	for _, s := range spans {
		n := &node{Span: s, id: s.SpanID, facts: classify(s)}
		byID[n.id] = n
		all = append(all, n)
	}
	slices.SortFunc(all, compareNodes) // so every list of children is in order
	var missing []*node
	for _, n := range all {
		switch {
		case validID(n.ParentID, 16) && n.ParentID != n.id:
			p := byID[n.ParentID]
			if p == nil {
				p = &node{id: n.ParentID}
				byID[p.id] = p
				missing = append(missing, p)
			}
			n.parent = p
			p.children = append(p.children, n)
		case n.facts.Class == Tool:
			f.putOutside(n)
		default:
			f.tops = append(f.tops, n)
		}
	}
	f.tops = append(f.tops, missing...)
	slices.SortFunc(f.tops, compareNodes)
	f.nodes = make([]*node, 0, len(all)+len(missing)+1)
	f.descend(f.tops...)
	for _, n := range all {
		if !n.placed() {
			f.cut(n)
		}
	}
	for _, n := range slices.Backward(f.nodes) {
		if n.parent == nil {
			continue
		}
		p := n.parent
		for c, is := range n.below {
			p.below[c] = p.below[c] || is
		}
		if n.same == nil {
			p.below[n.facts.Class] = true
		}
	}
	return f
}

func (n *node) placed() bool { return n.owner != nil }

// putOutside gives a tool call that has no parent one: it needs a step to stand
// in, as if something had made the call.
func (f *forest) putOutside(n *node) {
	if f.outside == nil {
		f.outside = &node{id: f.trace}
		f.tops = append(f.tops, f.outside)
	}
	n.parent = f.outside
	f.outside.children = append(f.outside.children, n)
}

// cut opens the ring of parents above a node, at its first node, and places all
// that hangs there.
func (f *forest) cut(n *node) {
	seen := map[*node]bool{}
	for !seen[n] {
		seen[n] = true
		n = n.parent
	}
	first := n
	for p := n.parent; p != n; p = p.parent {
		if compareNodes(p, first) < 0 {
			first = p
		}
	}
	first.parent.children = slices.DeleteFunc(first.parent.children, func(c *node) bool { return c == first })
	first.parent = nil
	if first.facts.Class != Tool {
		f.tops = append(f.tops, first)
		f.descend(first)
		return
	}
	f.putOutside(first)
	f.descend(f.outside, first)
}

// descend places what hangs under tops, parents before children.
func (f *forest) descend(tops ...*node) {
	stack := slices.Clone(tops)
	slices.Reverse(stack)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.placed() {
			continue
		}
		n.place()
		f.nodes = append(f.nodes, n)
		switch {
		case n.same != nil:
		case n.facts.Class == Model:
			n.owner.models = append(n.owner.models, n)
		case n.facts.Class == Tool:
			n.owner.tools = append(n.owner.tools, n)
		case n.facts.Class == Agent && n.owner != n:
			n.owner.agents = true
		case n.facts.Class == Skip:
			f.skips = append(f.skips, n)
		}
		for _, c := range slices.Backward(n.children) {
			stack = append(stack, c)
		}
	}
}

// place finds where a node belongs from where its parent does.
func (n *node) place() {
	p := n.parent
	if p == nil {
		n.owner = n
		return
	}
	switch {
	case p.same != nil: // what is below one telling of a call is below the call
		n.inherit(p)
		n.under(p.same)
	default:
		n.inherit(p)
		n.under(p)
	}
	switch n.facts.Class {
	case Model:
		if n.model != nil {
			n.same = n.model
			n.same.facts.learn(&n.facts)
		}
	case Tool:
		// A client's and a server's span of one call, or a framework's and a protocol's.
		outer := n.solid
		if outer.same != nil {
			outer = outer.same
		}
		if outer.facts.Class == Tool && outer.facts.sameCall(&n.facts) {
			n.same = outer
			outer.facts.learn(&n.facts)
		}
	}
}

func (n *node) inherit(p *node) {
	n.owner, n.tool, n.model, n.cycle, n.solid = p.owner, p.tool, p.model, p.cycle, p.solid
	if n.solid == nil || p.facts.Class > Transparent {
		n.solid = p
	}
}

// under puts a node under one of a class that means something.
func (n *node) under(p *node) {
	switch p.facts.Class {
	case Agent:
		n.owner, n.model, n.cycle = p, nil, nil
	case Tool:
		n.owner, n.tool, n.model, n.cycle = p, p, nil, nil
	case Model:
		if n.model == nil {
			n.model = p
		}
	case Cycle:
		n.cycle = p
	}
}

// sameCall tells whether two nested spans of tool calls are one call.
func (f *Facts) sameCall(inner *Facts) bool {
	trim := func(s string) string { return strings.TrimPrefix(s, "tools/call ") }
	return trim(f.Tool) == trim(inner.Tool) && (f.CallID == "" || inner.CallID == "" || f.CallID == inner.CallID)
}

// learn fills gaps from another telling of the same call.
func (f *Facts) learn(from *Facts) {
	for _, gap := range []struct{ to, from *string }{
		{&f.Agent, &from.Agent}, {&f.CallID, &from.CallID}, {&f.Arguments, &from.Arguments}, {&f.Result, &from.Result},
		{&f.Model, &from.Model}, {&f.Provider, &from.Provider}, {&f.System, &from.System}, {&f.Input, &from.Input}, {&f.Finish, &from.Finish},
		{&f.Conversation, &from.Conversation}, {&f.User, &from.User},
	} {
		*gap.to = cmp.Or(*gap.to, *gap.from)
	}
	f.Usage.fill(from.Usage)
	if f.CostUSD == nil {
		f.CostUSD = from.CostUSD
	}
	if f.FirstToken == 0 {
		f.FirstToken = from.FirstToken
	}
	if f.Output == "" {
		f.Output, f.thought = from.Output, from.thought
	}
	if len(f.calls) == 0 {
		f.calls = from.calls
	}
}
