package otlp

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// Project gives the rows that the spans of one trace mean: a pure function of the
// set of spans, whatever their order and however often they are told. Nothing of
// an agent in the trace, no rows. Every id is that of the trace or of a span, so
// that the rows of a set that has grown since take the place of the former ones.
func Project(spans []Span) []record.Change {
	f := plant(merge(spans))
	p := projection{forest: f}
	for _, n := range f.nodes {
		if n.executes() {
			p.executions = append(p.executions, newExecution(n))
		}
	}
	if len(p.executions) == 0 {
		return nil
	}
	p.useSkipped()
	slices.SortStableFunc(p.executions, func(a, b *execution) int { return compareNodes(a.node, b.node) })
	p.plans()
	p.steps()
	p.cycles()
	p.tools()
	return p.changes
}

type projection struct {
	*forest
	executions []*execution
	changes    []record.Change
}

func (p *projection) add(c record.Change) { p.changes = append(p.changes, c) }

// execution is a step: an agent's span, or whatever stands for an agent where
// there is none.
type execution struct {
	node   *node
	cycles []*cycle
	state  record.State
	// request is what the agent was asked, result what it answered.
	request, result string
}

// cycle is a model call with the tool calls that came of it. Tool calls that no
// model call is known for stand in one without.
type cycle struct {
	model *node
	tools []*toolCall
	chat  *chat // of the input, once it was needed
}

// toolCall is a span, a call that the output of a model asks for, or both.
type toolCall struct {
	node   *node // nil: known from the output only
	id     string
	asked  call
	result string
	failed bool
	error  string
	done   bool // of one without a span: its result is known, or will not be
	state  record.State
}

// executes tells whether a node is a step: one that owns model or tool calls, or
// an agent with nothing at all below it. An agent above other agents only names
// the plan.
func (n *node) executes() bool {
	return len(n.models)+len(n.tools) > 0 || n.facts.Class == Agent && !n.hasBelow()
}

// hasBelow tells whether anything that makes rows is below.
func (n *node) hasBelow() bool { return n.below[Agent] || n.below[Model] || n.below[Tool] }

// plan gives the id of the plan that a node is in.
func (p *projection) plan(n *node) string {
	if n.tool != nil {
		return n.tool.id
	}
	return p.trace
}

// planBelow is that of what a node owns.
func (p *projection) planBelow(n *node) string {
	if n.facts.Class == Tool {
		return n.id
	}
	return p.plan(n)
}

// slack is how long a tool call may seem to start before the model's answer that
// asked for it has ended: many clients cut start times to milliseconds.
const slack = int64(time.Millisecond)

func newExecution(n *node) *execution {
	e := &execution{node: n, state: n.state()}
	slices.SortFunc(n.models, compareEnds)
	slices.SortFunc(n.tools, compareNodes)
	x := index{byModel: map[*node]*cycle{}, byCall: map[string][]*cycle{}, byName: map[string][]*cycle{}, byWrapper: map[*node][]*cycle{}}
	for _, m := range n.models {
		c := &cycle{model: m}
		x.add(c)
	}
	bare := map[*node]*cycle{} // by their wrapper
	for _, t := range n.tools {
		c := x.find(t)
		if c == nil {
			c = bare[t.cycle]
		}
		if c == nil {
			c = &cycle{}
			bare[t.cycle] = c
			e.cycles = append(e.cycles, c) // in order of their first call, before all others
		}
		c.tools = append(c.tools, &toolCall{node: t, id: t.id})
	}
	e.cycles = append(e.cycles, x.all...)
	for _, c := range e.cycles {
		if c.model != nil {
			c.match()
		}
	}
	if len(e.cycles) == 0 && n.facts.Class == Agent && n.facts.Usage.told() {
		e.cycles = []*cycle{{}}
	}
	for i, c := range e.cycles {
		for _, t := range c.tools {
			e.settle(i, t)
		}
	}
	e.request = e.findRequest()
	if e.state.Terminal() {
		e.result = e.findResult()
	}
	return e
}

// end is when a node ended, beyond all times where it has not.
func (n *node) end() int64 {
	if n.Span == nil || n.End == 0 {
		return math.MaxInt64
	}
	return n.End
}

func compareEnds(a, b *node) int { return cmp.Or(cmp.Compare(a.end(), b.end()), compareNodes(a, b)) }

// index finds the cycle of a tool call among those of a step, which are in order
// of the model calls' ends.
type index struct {
	all       []*cycle
	byModel   map[*node]*cycle
	byWrapper map[*node][]*cycle
	// by what the outputs ask for
	byCall, byName map[string][]*cycle
}

func (x *index) add(c *cycle) {
	x.all = append(x.all, c)
	x.byModel[c.model] = c
	if w := c.model.cycle; w != nil {
		x.byWrapper[w] = append(x.byWrapper[w], c)
	}
	put := func(m map[string][]*cycle, key string) {
		if have := m[key]; key != "" && (len(have) == 0 || have[len(have)-1] != c) {
			m[key] = append(have, c)
		}
	}
	for _, k := range c.model.facts.calls {
		put(x.byCall, k.id)
		put(x.byName, k.name)
	}
}

// find gives the cycle of a tool call, nil where none is known: the model call
// that its span is in, the one that gave it its id, the only one in the same
// wrapper, or the last one that had answered, if possible with this tool's name.
func (x *index) find(t *node) *cycle {
	if t.model != nil {
		return x.byModel[t.model]
	}
	if cycles := x.byCall[t.facts.CallID]; len(cycles) > 0 {
		// Some models count from call_0 each time.
		return cmp.Or(latest(cycles, t.Start), cycles[0])
	}
	if cycles := x.byWrapper[t.cycle]; len(cycles) == 1 {
		return cycles[0]
	}
	return cmp.Or(latest(x.byName[t.facts.Tool], t.Start), latest(x.all, t.Start))
}

// latest gives the last cycle whose model call had ended when a tool call started.
func latest(cycles []*cycle, start int64) *cycle {
	i := sort.Search(len(cycles), func(i int) bool { return cycles[i].model.end() > start+slack })
	if i == 0 {
		return nil
	}
	return cycles[i-1]
}

// match pairs the calls that the model asked for with those that were made: by
// id, then by name and arguments, then by name, each in order. What is left over
// of the former becomes a call that is known from the output only.
func (c *cycle) match() {
	asked := c.model.facts.calls
	if len(asked) == 0 {
		return
	}
	of := make([]*toolCall, len(asked))
	left := c.tools
	pass := func(key func(call) string, keyOf func(*node) string, sameID bool) {
		waiting := map[string][]int{}
		for i, k := range asked {
			if of[i] == nil && key(k) != "" {
				waiting[key(k)] = append(waiting[key(k)], i)
			}
		}
		rest := left[:0:0]
		for _, t := range left {
			queue := waiting[keyOf(t.node)]
			if len(queue) == 0 || sameID && asked[queue[0]].id != "" && t.node.facts.CallID != "" {
				rest = append(rest, t)
				continue
			}
			waiting[keyOf(t.node)] = queue[1:]
			of[queue[0]] = t
		}
		left = rest
	}
	pass(func(k call) string { return k.id }, func(n *node) string { return n.facts.CallID }, false)
	pass(func(k call) string { return k.name + " " + compact(k.args) }, func(n *node) string { return n.facts.Tool + " " + compact(n.facts.Arguments) }, false)
	pass(func(k call) string { return k.name }, func(n *node) string { return n.facts.Tool }, true)
	pass(transferred, func(n *node) string { return transferred(call{name: n.facts.Tool}) }, true)
	rows := make([]*toolCall, 0, len(asked)+len(left))
	ids := map[string]bool{}
	for i, k := range asked {
		t := of[i]
		if t == nil {
			t = &toolCall{}
			// The call's own id where it is one, else its place.
			suffix := k.id
			if suffix == "" || len(suffix) > 200 || strings.TrimSpace(suffix) != suffix || clean(suffix) != suffix || ids[suffix] {
				suffix = "#" + strconv.Itoa(i)
			}
			t.id = c.model.id + "-" + suffix
		}
		ids[k.id] = true
		t.asked = k
		rows = append(rows, t)
	}
	c.tools = append(rows, left...)
}

// transferred gives the agent that a call hands over to: the call is
// transfer_to_x, its span "handoff to X".
func transferred(k call) string {
	name := strings.ToLower(strings.ReplaceAll(k.name, " ", "_"))
	for _, prefix := range []string{"transfer_to_", "handoff_to_"} {
		if to, ok := strings.CutPrefix(name, prefix); ok {
			return to
		}
	}
	return ""
}

// settle finds the state and the result of a call of the i-th cycle.
func (e *execution) settle(i int, t *toolCall) {
	if t.node != nil {
		t.result, t.failed = t.node.facts.Result, t.node.facts.Failed
	}
	if t.result == "" {
		e.learnResult(i, t)
	}
	switch {
	case t.failed:
		t.state = record.Failed
	case t.node != nil && t.node.End == 0:
		t.state = record.Running
	case t.node != nil, t.done:
		t.state = record.Completed
	case i < len(e.cycles)-1 || e.state.Terminal():
		t.state = record.Unknown // the run went on
	default:
		t.state = record.Pending
	}
}

// learnResult looks for the result of a call in what the next model call was told.
func (e *execution) learnResult(i int, t *toolCall) {
	if e.cycles[i].model == nil {
		return
	}
	for _, next := range e.cycles[i+1:] {
		if next.model == nil || next.model.facts.Input == "" {
			continue
		}
		if next.chat == nil {
			next.chat = new(readChat(next.model.facts.Input))
		}
		if r, ok := next.chat.answer(t, e.cycles[i]); ok {
			t.learn(r)
		}
		return
	}
}

func (t *toolCall) learn(r response) {
	t.result = cmp.Or(t.result, r.result)
	t.failed = t.failed || r.failed
	t.error = r.message
	t.done = true
}

// answer finds the result of a call: by its id, else by its place among the calls
// that the last answers are for.
func (c *chat) answer(t *toolCall, of *cycle) (response, bool) {
	id := t.asked.id
	if id == "" && t.node != nil {
		id = t.node.facts.CallID
	}
	if id != "" {
		if c.byID == nil {
			c.byID = map[string]response{}
			for i := range c.messages {
				for _, r := range c.messages[i].responses {
					c.byID[r.id] = r
				}
			}
		}
		if r, ok := c.byID[id]; ok {
			return r, true
		}
	}
	calls, responses := c.answered()
	at := slices.Index(of.tools, t)
	if len(calls) != len(of.model.facts.calls) || len(responses) != len(calls) || at >= len(calls) ||
		calls[at].name != t.asked.name || responses[at].id != "" && id != "" {
		return response{}, false
	}
	return responses[at], true
}

// useSkipped takes from spans that are no rows what they know of the tool calls
// beside them.
func (p *projection) useSkipped() {
	if len(p.skips) == 0 {
		return
	}
	byID, byName := map[*node]map[string]response{}, map[*node]map[string][]response{}
	for _, s := range p.skips {
		if byID[s.parent] == nil {
			byID[s.parent], byName[s.parent] = map[string]response{}, map[string][]response{}
		}
		for _, r := range s.facts.responses {
			if r.id != "" {
				byID[s.parent][r.id] = r
			}
			byName[s.parent][r.name] = append(byName[s.parent][r.name], r)
		}
	}
	for _, e := range p.executions {
		for _, c := range e.cycles {
			for _, t := range c.tools {
				if t.node == nil || t.node.facts.Result != "" {
					continue
				}
				beside, name := t.node.parent, t.node.facts.Tool
				r, ok := byID[beside][t.node.facts.CallID]
				if same := byName[beside][name]; !ok && len(same) > 0 {
					r, byName[beside][name], ok = same[0], same[1:], true
				}
				if ok {
					t.result = ""
					t.learn(r)
				}
				if t.failed {
					t.state = record.Failed
				}
			}
		}
	}
}

// state is how a node is doing. One that is not known itself is as what is known
// of it, if no more can be expected.
func (n *node) state() record.State {
	switch {
	case n.Span == nil:
		if n.id != n.children[0].TraceID && !n.remote() {
			return record.Running // its own span is still to come
		}
		return all(n.children)
	case n.facts.Failed:
		return record.Failed
	case n.End == 0:
		return record.Running
	}
	return record.Completed
}

// all is the state of several together.
func all(nodes []*node) record.State {
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

// ended is when a node ended, nil while it may not have.
func (n *node) ended() *time.Time {
	if !n.state().Terminal() {
		return nil
	}
	if n.Span != nil {
		return at(n.End)
	}
	return at(lastEnd(n.children))
}

func lastEnd(nodes []*node) (last int64) {
	for _, n := range nodes {
		if n.Span != nil {
			last = max(last, n.End)
		} else {
			last = max(last, lastEnd(n.children))
		}
	}
	return last
}

// at makes a time of nanoseconds; 0 is none.
func at(nanoseconds int64) *time.Time {
	if nanoseconds <= 0 {
		return nil
	}
	return new(time.Unix(0, nanoseconds).UTC())
}

// told is a text that may say nothing.
func told(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// id is told for ids: too long ones are cut, for records refuse them.
func id(s string) *string {
	return told(strings.TrimSpace(record.Shorten(clean(s), record.MaxIDBytes)))
}
