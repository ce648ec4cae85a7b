package otlp

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// forest is the spans of a trace, each in its place.
type forest struct {
	trace         string
	nodes         []*node // parents before children, otherwise in the order of their start
	tops          []*node
	skips         []*node            // those of class Skip
	asides        []*node            // calls of models that generate no text, with their costs
	owners        []*node            // those that are steps, in the order of their start
	plans         []*node            // tool calls with rows below them, parents first
	closed        bool               // nothing more is expected: what has not arrived never will
	context       context            // what those of agents say of the run
	around        context            // what the others say of it: HTTP requests and so on
	lastContext   *context           // of the last one of agents
	lastAround    *context           // of the last other one
	teller        *node              // the first one with metadata
	spans, others map[string]*node   // by id: nodes with a span of that id, and without
	calls         map[response]*node // the last model call of each response
}

type response struct {
	owner *node
	id    string
}

// node is a span in its place. A node without a span is known only from its children: its span has
// not arrived, or never will, or there is none because the node has the id of the trace. Such a node
// is at the top.
type node struct {
	*Span
	id        string
	spanFacts *Facts // what its span says
	version   uint64 // of the span
	context   *context
	ordered   bool   // in the order of all nodes
	above     *node  // the node of its parent, if that has a span
	facts     *Facts // what its span says, or a copy of that with more
	standing
}

// standing is where a node stands in its forest.
type standing struct {
	// mark differs if the facts do.
	mark uint64

	parent   *node
	children []*node

	// Nodes above this one, nil if there is none. owner is the nearest agent or tool call, else the
	// topmost node, and never nil. tool is the nearest tool call. model and cycle are the model call
	// and the wrapper of a cycle below the owner. nearest is the nearest one that is not passed
	// through, else the topmost.
	owner, tool, model, cycle, nearest *node
	// outer is set if this is a second span of one call: the call's outermost span, or the first of
	// several beside each other.
	outer *node
	// learned says that the facts are a copy.
	learned bool
	// inferred says that this is a tool call without a span, to which an agent was assigned. Its
	// Span is the agent's.
	inferred bool
	// adopted says that an agent from elsewhere was assigned to this tool call.
	adopted bool
	// rowsBelow says that anything below makes a row.
	rowsBelow bool
	// isPipelines says that this is a step because the trace has nothing but the stages of a pipeline. stage is
	// the nearest such step above it, nil if there is none.
	isPipelines bool
	stage       *node
	// paid says that this is a part of a call that generates no text and whose cost counts.
	paid bool

	// What the node owns.
	models, tools []*node
	asides        []*node // calls of models that generate no text, with their costs; of a step, all that it pays for
	ownsAgents    bool
	delegations   *delegations
	skipped       uint64 // marks of the nodes of class Skip

	// Of a node without a span: when the first of its children started, 0 if it is not known; whether
	// they say that it belongs to another process; and whether its span is not waited for.
	first              int64
	remote, notAwaited bool
}

// noFacts are those of a node without a span.
var noFacts Facts

// reset takes a node out of its place. It keeps the arrays.
func (n *node) reset() {
	clear(n.children)
	clear(n.models)
	clear(n.tools)
	n.facts, n.standing = n.spanFacts, standing{
		mark: n.version, children: n.children[:0], models: n.models[:0], tools: n.tools[:0],
	}
}

// addBelow puts a node below the one with an id, which may have no span.
func (f *forest) addBelow(id string, n *node) {
	p := f.spans[id]
	if p == nil || namesSpan(p.Span) { // nothing is below a log record
		p = f.others[id]
	}
	if p == nil {
		p = &node{id: id, facts: &noFacts}
		f.others[id] = p
		f.tops = append(f.tops, p)
	}

	n.addTo(p)
	if p.Span == nil {
		p.remote = p.remote || parentIsRemote(n.Span)
		if p.first == 0 || n.Start != 0 && n.Start < p.first {
			p.first = n.Start
		}
	}
}

func (n *node) addTo(parent *node) {
	n.parent = parent
	parent.children = append(parent.children, n)
}

// addTop adds a node without a parent. A tool call needs a step to belong to, so it goes below a node
// with the id of the trace.
func (f *forest) addTop(n *node) {
	if n.facts.Class == Tool {
		f.addBelow(f.trace, n)
	} else {
		f.tops = append(f.tops, n)
	}
}

// breakRing opens the ring of parents above a node at the first node of the ring, and places
// everything that depends on it.
func (f *forest) breakRing(n *node) {
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
	f.addTop(first)
	f.place(cmp.Or(first.parent, first), first)
}

// place places some nodes and everything below them, parents before children.
func (f *forest) place(tops ...*node) {
	stack := slices.Clone(tops)
	slices.Reverse(stack)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.placed() {
			continue
		}

		if n.facts.Class == Agent && n.parent != nil {
			f.findCall(n)
		}
		n.inheritPlace()
		if n.facts.Class == Model && n.facts.ResponseID != "" && n.outer == nil {
			f.joinResponse(n)
		}

		f.nodes = append(f.nodes, n)
		f.learnContext(n)
		if n.paysAside() && !n.paid {
			f.asides = append(f.asides, n)
		}

		switch {
		case n.outer != nil:
		case n.facts.Class == Model:
			if agent := n.owner; n.facts.Model == "" && agent.isAgent() && isCodex(n.Span) { // only a turn has it
				n.learn(agent).Model = agent.facts.Model
			}
			n.owner.models = append(n.owner.models, n)
		case n.facts.Class == Tool:
			n.owner.tools = append(n.owner.tools, n)
		case n.facts.part && n.owner.facts.Class == Tool:
			n.owner.learn(n).fail(n.facts.failure())
		case n.facts.Class == Agent && n.owner != n:
			n.owner.ownsAgents = true
		case n.facts.Class == Transparent && n.facts.Agent != "":
			n.owner.nameAfter(n)
		case n.facts.Class == Skip:
			f.skips = append(f.skips, n)
			n.owner.skipped = mix(n.owner.skipped, n.mark)
		}

		for _, c := range slices.Backward(n.children) {
			stack = append(stack, c)
		}
	}
}

// learnContext adds what a node says of the run as a whole. Most say the same as the one before.
func (f *forest) learnContext(n *node) {
	into, last := &f.context, &f.lastContext
	if n.facts.Class == Unclassified {
		into, last = &f.around, &f.lastAround
	}
	if n.context == nil || n.context == *last {
		return
	}

	*last = n.context
	if n.context.metadata && f.teller == nil {
		f.teller = n
	}
	into.fillFrom(n.context)
}

// paysAside reports whether a node is a call that generates no text, and its cost is known.
func (n *node) paysAside() bool { return n.facts.aside && n.facts.CostUSD != nil }

// chargeAsides gives the costs of calls that generate no text to the nearest steps around them. If there is none, it is
// the first step that started later, else the last one.
func (f *forest) chargeAsides() {
	if len(f.asides) == 0 || len(f.owners) == 0 {
		return
	}

	stepOf := make(map[*node]*node, len(f.nodes)) // by owner: the nearest step, itself or above it
	for _, n := range f.nodes {                   // an owner before what it owns
		switch o := n.owner; {
		case n.isStep():
			stepOf[n] = n
		case o != n:
			stepOf[n] = stepOf[o]
		}
	}

	for _, n := range f.asides {
		step := stepOf[n.owner]
		if step == nil {
			later := sort.Search(len(f.owners), func(i int) bool { return f.owners[i].start() >= n.start() })
			step = f.owners[min(later, len(f.owners)-1)]
		}
		step.asides = append(step.asides, n)
	}
}

// nameAfter names what is likely an agent after one that a part of it names, if its own span only names
// the method that runs it.
func (n *node) nameAfter(part *node) {
	if n.facts.likely && n.facts.Agent == withoutMethod(n.Name) {
		own := n.learn(part)
		own.Agent, own.key = part.facts.Agent, nameKey(part.facts.Agent)
	}
}

func (n *node) isAgent() bool { return n.facts.Class == Agent }

func (n *node) placed() bool { return n.owner != nil }

// inheritPlace derives where a node belongs from where its parent does.
func (n *node) inheritPlace() {
	p := n.parent
	if p == nil {
		n.owner = n
		return
	}

	n.owner, n.tool = p.owner, p.tool
	n.model, n.cycle = p.model, p.cycle
	n.nearest = p.nearest
	n.paid = p.facts.Class <= Transparent && (p.paid || p.paysAside())
	if n.nearest == nil || p.facts.Class > Transparent {
		n.nearest = p
	}
	if p.outer != nil { // what is below any span of a call is below the call
		p = p.outer
	}

	switch p.facts.Class {
	case Agent:
		n.owner = p
		n.model, n.cycle = nil, nil
	case Tool:
		n.owner, n.tool = p, p
		n.model, n.cycle = nil, nil
	case Model:
		n.model = cmp.Or(n.model, p)
	case Cycle:
		n.cycle = p
	}

	switch n.facts.Class {
	case Model:
		n.outer = n.model
	case Tool:
		// A client's and a server's span of one call, or a framework's and a protocol's.
		outer := cmp.Or(n.nearest.outer, n.nearest)
		if outer.facts.Class == Tool && outer.facts.sameCall(n.facts) {
			n.outer = outer
		}
	}
	if n.outer != nil {
		n.join(n.outer)
	}
}

// delegations finds the tool calls of an owner by what they say.
type delegations struct {
	tools, models int                // how many of the owner's are in the maps
	calls         map[string][]*node // by the key of the tool and of each text argument
	asked         map[string]int     // by the key of the tool: calls that models asked for and that have no span
}

// findCall is for frameworks that put the span of an agent beside that of the tool call that started
// it, or that record no span for the call. It puts an agent below the tool call that it works for, if
// its own place is not below one. All calls that started before it are in their places.
func (f *forest) findCall(n *node) {
	owner := n.parent.owner
	if c := n.parent.facts.Class; c == Agent || c == Tool {
		owner = n.parent
	}
	if owner.facts.Class == Tool || len(owner.tools)+len(owner.models) == 0 {
		return
	}

	d := owner.updatedDelegations()
	for _, said := range []string{n.facts.request, n.facts.key} {
		if call := latestAround(d.calls[nameKey(said)], n); said != "" && call != nil {
			n.parent, call.adopted = call, true
			call.children = append(call.children, n)
			return
		}
	}

	if n.facts.key != "" && d.asked[n.facts.key] > 0 {
		call := &node{Span: n.Span, id: n.id + "-call", facts: &Facts{
			Class: Tool, Tool: n.facts.Agent, key: n.facts.key, Result: n.facts.answer,
			Failed: n.facts.Failed, ErrorKind: n.facts.ErrorKind, ErrorMessage: n.facts.ErrorMessage,
		}, standing: standing{mark: mix(n.mark, 1), parent: n.parent, children: []*node{n}, inferred: true}}
		n.parent = call
		call.inheritPlace()
		f.nodes = append(f.nodes, call)
		owner.tools = append(owner.tools, call)
	}
}

// updatedDelegations returns the delegations of an owner, with all calls that are in their places.
func (n *node) updatedDelegations() *delegations {
	if n.delegations == nil {
		n.delegations = &delegations{calls: map[string][]*node{}, asked: map[string]int{}}
	}

	d := n.delegations
	for _, t := range n.tools[d.tools:] {
		d.asked[t.facts.key]--
		d.calls[t.facts.key] = append(d.calls[t.facts.key], t)
		for _, key := range t.facts.textKeys() {
			if key != t.facts.key {
				d.calls[key] = append(d.calls[key], t)
			}
		}
	}
	for _, m := range n.models[d.models:] {
		for _, r := range m.facts.calls {
			d.asked[r.key]++
		}
	}

	d.tools, d.models = len(n.tools), len(n.models)
	return d
}

// latestAround returns the latest call in whose time an agent worked, with preference for one that no
// agent works for yet. It looks at the last few that started before the agent.
func latestAround(calls []*node, n *node) (call *node) {
	const few = 64
	started := sort.Search(len(calls), func(i int) bool { return calls[i].start() > n.start() })
	for _, c := range slices.Backward(calls[max(0, started-few):started]) {
		if n.end()-slack > c.end() {
			continue
		}
		if !c.adopted {
			return c
		}
		if call == nil {
			call = c
		}
	}
	return call
}

// useLogs fills the calls of a trace from what log records say of them.
func (f *forest) useLogs() {
	type said struct {
		*callLog
		by *node
	}
	byCall := map[string][]said{}
	var byTime []said
	for _, n := range f.nodes {
		if n.inferred {
			continue
		}
		for i := range n.facts.logs {
			if l := &n.facts.logs[i]; l.id != "" {
				byCall[l.id] = append(byCall[l.id], said{l, n})
			} else {
				byTime = append(byTime, said{l, n})
			}
		}
	}

	if len(byCall)+len(byTime) == 0 {
		return
	}

	var models []*node
	for _, n := range f.nodes {
		switch {
		case n.outer != nil:
		case n.facts.Class == Tool:
			for _, l := range byCall[n.facts.CallID] {
				n.learn(l.by).fillFromLog(l.callLog)
			}
		case n.facts.Class == Model:
			models = append(models, n)
		}
	}
	slices.SortFunc(models, compareEnds)

	own, byRequest := map[*node][]*node{}, map[string]*node{} // by owner, in the order of their ends
	for _, m := range models {
		own[m.owner] = append(own[m.owner], m)
		byRequest[m.facts.ResponseID] = m
	}

	for _, l := range byTime {
		model := byRequest[l.request]
		if l.request == "" || model == nil {
			model = modelCallOf(l.callLog, l.by.inner(), own, models)
		}
		if model == nil {
			continue
		}

		m := model.learn(l.by)
		if m.CostUSD == nil {
			m.CostUSD = l.costUSD
		}
		if m.Output == "" && l.answer != "" {
			m.Output, m.thinkOutput = l.answer, l.answer
			m.answer = l.answer
		}
	}
}

// late is how much later than its model call a log record may be.
const late = int64(100 * time.Millisecond)

// modelCallOf returns the model call that a log record is about, nil if none is known. A record names the tool call or
// the session that the model call is part of; it is the one that ran then, else the last one that had ended. Those of a
// session may be of any of its parts.
func modelCallOf(l *callLog, owner *node, own map[*node][]*node, all []*node) *node {
	ran, last := around(own[owner], l.time)
	if ran == nil && owner.facts.Class != Tool {
		ran, last = around(all, l.time)
	}
	if ran == nil && last != nil && last.end() >= l.time-late {
		return last
	}
	return ran
}

// around returns the model call that ran at a time and the last one that had ended, of those in the order of their
// ends; nil if there is none.
func around(models []*node, t int64) (ran, last *node) {
	i := sort.Search(len(models), func(i int) bool { return models[i].end() >= t-slack })
	if i < len(models) && models[i].Start <= t {
		ran = models[i]
	}
	if i > 0 {
		last = models[i-1]
	}
	return ran, last
}

// inner returns the owner of what runs within a node.
func (n *node) inner() *node {
	n = cmp.Or(n.outer, n)
	if c := n.facts.Class; c == Agent || c == Tool {
		return n
	}
	return n.owner
}

// joinResponse joins a model call with one of the same step that has the same response at the same
// time: a framework and a client reported it side by side. A response that is given again later, from
// a cache, is another call.
func (f *forest) joinResponse(n *node) {
	key := response{n.owner, n.facts.ResponseID}
	if first := f.calls[key]; first != nil && first.Start <= n.end() && n.Start <= first.end() {
		n.join(first)
	} else {
		f.calls[key] = n
	}
}

// join makes a span a second one of a call.
func (n *node) join(outer *node) {
	n.outer = outer
	if id := n.facts.ResponseID; id != "" && id == outer.facts.ResponseID && compareNodes(outer, n) < 0 {
		outer.learn(n).Usage.correct(n.facts.Usage)
	}
	outer.learn(n).fillFrom(n.facts)
}

// learn returns the facts of a node to add to them what another node says.
func (n *node) learn(from *node) *Facts {
	if !n.learned {
		own := *n.facts
		own.cuts, own.truncated = slices.Clip(own.cuts), slices.Clip(own.truncated) // others have the same arrays
		n.facts, n.learned = &own, true
	}
	n.mark = mix(n.mark, from.mark)
	return n.facts
}

// seed is of the hashes of texts.
var seed = maphash.MakeSeed()

// mix adds numbers to a hash.
func mix(h uint64, numbers ...uint64) uint64 {
	for _, n := range numbers {
		h = bits.RotateLeft64(h^n, 29) * 0x9e3779b97f4a7c15
	}
	return h
}

// number tells nodes apart. It is 0 if there is none.
func (n *node) number() uint64 {
	if n == nil {
		return 0
	}
	return maphash.String(seed, n.id)
}

func compareNodes(a, b *node) int {
	return cmp.Or(cmp.Compare(a.start(), b.start()), strings.Compare(a.id, b.id))
}

func compareEnds(a, b *node) int { return cmp.Or(cmp.Compare(a.end(), b.end()), compareNodes(a, b)) }

// start is when a node started, or the first of its children if it has no span. 0: not known.
func (n *node) start() int64 {
	if n.Span != nil {
		return n.Start
	}
	return n.first
}

func firstStart(nodes []*node) (first int64) {
	for _, n := range nodes {
		if s := n.start(); first == 0 || s != 0 && s < first {
			first = s
		}
	}
	return first
}

// end is when a node ended, after all times if it has not.
func (n *node) end() int64 {
	if n.Span == nil || n.End == 0 {
		return math.MaxInt64
	}
	return n.End
}

// lastEnd is when the last of some nodes ended. One without a span ended with the last of what is below it.
func lastEnd(nodes []*node) (last int64) {
	stack := slices.Clone(nodes)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch {
		case n.notAwaited:
			last = max(last, lastBelow(n))
		case n.Span != nil:
			last = max(last, n.End)
		default:
			stack = append(stack, n.children...)
		}
	}
	return last
}

// lastBelow is when the last of all that is below a node ended; if there is nothing, when it started.
func lastBelow(n *node) (last int64) {
	last = n.start()
	stack := slices.Clone(n.children)
	for len(stack) > 0 {
		c := stack[len(stack)-1]
		stack = append(stack[:len(stack)-1], c.children...)
		if c.Span != nil {
			last = max(last, c.End)
		}
	}
	return last
}

// state is the state of a node. A node without a span runs until its span arrives. If none is to be
// expected, its state follows from its children.
func (n *node) state() record.State {
	switch {
	case n.Span == nil:
		switch isTrace := n.id == n.children[0].TraceID; {
		case isTrace, n.remote:
			return combinedState(n.children)
		case n.notAwaited:
			state, _ := outcomeOf(n.children)
			return state
		}
		return record.Running
	case n.notAwaited:
		state, _ := outcomeOf(n.children)
		return state
	case n.facts.Failed:
		return record.Failed
	case n.End == 0:
		return record.Running
	}
	return record.Completed
}

// outcomeOf is what became of something of which only its parts are known, and the part that failed it. A
// tool call that failed did not fail what made it, nor did a model call that others followed.
func outcomeOf(parts []*node) (state record.State, by *node) {
	state = record.Completed
	var last *node // of the model calls
	for _, n := range parts {
		s := n.state()
		if s == record.Running {
			return s, nil
		}

		switch c := n.facts.Class; {
		case c == Model && (last == nil || compareEnds(last, n) < 0):
			last = n
		case s == record.Failed && by == nil && c != Model && c != Tool && c != Skip:
			state, by = s, n
		}
	}

	if by == nil && last != nil && last.state() == record.Failed {
		return record.Failed, last
	}
	return state, by
}

func combinedState(nodes []*node) record.State {
	state := record.Completed
	for _, n := range nodes {
		switch n.state() {
		case record.Running:
			return record.Running
		case record.Failed:
			state = record.Failed
		}
	}
	return state
}

// isStep reports whether a node is a step: it owns model or tool calls, or is an agent that has
// nothing below it. An agent that only has agents below it just names the plan.
func (n *node) isStep() bool {
	return n.isPipelines || len(n.models)+len(n.tools) > 0 || n.facts.Class == Agent && !n.rowsBelow && !n.facts.likely
}

// onlyRuns reports whether a span that is likely an agent only runs agents that have spans of their own.
func (n *node) onlyRuns() bool { return n.facts.likely && !n.isStep() }
