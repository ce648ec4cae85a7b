package otlp

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/actlog/actlog/record"
)

// step is an agent's span, or what stands for an agent if there is no such span.
type step struct {
	node   *node
	mark   uint64 // differs if anything differs that the step is made of
	known  bool   // the cycles are not known, because the step is the same as before
	cycles []*cycle
	grown  *cycles // what they go on from; nil: they begin anew
	state  record.State
	// request is what the agent was asked, result what it answered.
	request, result string
	agent, model    string // names
}

// stepMark returns the mark of the step of a node.
func stepMark(n *node) uint64 {
	h := mix(n.mark, n.skipped, uint64(len(n.models)), uint64(len(n.tools)))
	for _, m := range n.models {
		h = mix(h, m.mark, m.cycle.number())
	}
	for _, t := range n.tools {
		h = mix(h, t.mark, t.model.number(), t.cycle.number())
		if t.facts.delegate == "" {
			continue
		}

		if _, by := t.answer(); by != nil { // it may be the result
			h = mix(h, by.mark)
		}
	}

	for _, a := range n.asides {
		h = mix(h, a.mark)
	}
	if n.tool != nil {
		h = mix(h, n.tool.mark)
	}
	if n.Span == nil || n.facts.Class == Tool { // its children name it
		for _, c := range n.children {
			h = mix(h, c.mark)
		}
		h = mix(h, uint64(n.start()))
	}

	if n.isPipelines {
		h = mix(h, 1)
	}
	if n.notAwaited { // it ended with the last that is below it
		h = mix(h, uint64(lastBelow(n)))
	}
	if n.ownsAgents {
		h++
	}
	return mix(h, maphash.String(seed, string(n.state())))
}

// newStep makes the step of a node. Its cycles go on from what they were, grown, unless that is nil.
func newStep(n *node, mark uint64, grown *cycles) *step {
	s := &step{node: n, mark: mark, state: n.state()}
	slices.SortFunc(n.models, compareEnds)
	slices.SortFunc(n.tools, compareNodes)

	from, ok := 0, false
	if grown != nil && n.skipped == 0 {
		s.cycles, from, ok = grown.update(n.models, n.tools)
	}
	if !ok {
		grown = newCycles()
		s.cycles, from, _ = grown.update(n.models, n.tools)
	}

	// What is skipped has results for calls of any cycle. When the span has ended, little is to come.
	if n.skipped == 0 && (n.Span == nil || n.End == 0) {
		s.grown = grown
	}
	if f := n.facts; len(s.cycles) == 0 &&
		(f.Class == Agent && f.Usage.known() || n.countsAlone() && len(n.asides) > 0 && f.CostUSD != nil) {
		s.cycles = []*cycle{{fresh: true}}
	}
	// What asides cost is in a cycle without a model call and without the usage of the agent.
	if len(n.asides) > 0 && (len(s.cycles) == 0 || s.cycles[0].model != nil || n.countsAlone()) {
		s.cycles, from = slices.Insert(s.cycles, 0, &cycle{fresh: true}), from+1
	}

	var next following
	for i, c := range slices.Backward(s.cycles) {
		if c.fresh = c.fresh || i >= from; c.fresh {
			for _, t := range c.calls {
				s.setOutcome(i, t, &next)
			}
		}
		if c.model != nil && c.snapshot.input {
			next = following{model: c.model}
		}
	}

	s.request = s.findRequest()
	if s.state.Terminal() {
		s.result = s.findResult()
	}
	s.agent, s.model = s.findName(), s.findModel()
	return s
}

// countsAlone reports whether only the span of an agent has the figures of its model calls.
func (n *node) countsAlone() bool { return n.isAgent() && len(n.models) == 0 && !n.ownsAgents }

// following is the next model call of a step whose input is known, if there is one.
type following struct {
	model *node
	input *chat // nil until it is needed
}

func (f *following) chat() *chat {
	if f.input == nil {
		f.input = new(readChat(f.model.facts.Input))
	}
	return f.input
}

// setOutcome sets the state and the result of a call of the i-th cycle.
func (s *step) setOutcome(i int, t *toolCall, next *following) {
	t.outcome = outcome{}
	if t.node != nil {
		t.result, t.failed = t.node.facts.Result, t.node.facts.Failed
	}

	if c := s.cycles[i]; t.result == "" && c.model != nil && next.model != nil {
		if r, ok := c.resultIn(next.chat(), t); ok {
			t.setResult(r, next.model)
		}
	}
	if t.result == "" && !t.failed && t.node != nil && t.node.facts.delegate != "" {
		if answer, by := t.node.answer(); answer != "" {
			t.result, t.source = answer, by
		}
	}

	switch {
	case t.failed:
		t.state = record.Failed
	case t.node != nil && t.node.End == 0:
		t.state = record.Running
	case t.node != nil, t.source != nil:
		t.state = record.Completed
	case i < len(s.cycles)-1 || s.state.Terminal():
		t.state = record.Unknown // the run went on
	default:
		t.state = record.Pending
	}
}

// setMarks sets the marks of a fresh cycle and of its calls. in is the step's.
func (c *cycle) setMarks(in *step) {
	if !c.fresh {
		return
	}

	model := uint64(0)
	if c.model != nil {
		model = c.model.mark
		c.mark = mix(model, uint64(len(c.calls)))
	} else {
		c.mark = mix(in.node.mark, in.mark, uint64(len(c.calls)))
	}

	for i, t := range c.calls {
		t.mark = mix(model, uint64(i), maphash.String(seed, t.id), maphash.String(seed, string(t.state)))
		if t.node != nil {
			t.mark = mix(t.mark, t.node.mark)
			if t.node.model != nil {
				t.mark++
			}
		}
		if t.source != nil {
			t.mark = mix(t.mark, t.source.mark)
		}
		c.mark = mix(c.mark, t.mark)
	}
}

func (t *toolCall) setResult(r callResult, source *node) {
	t.result = cmp.Or(t.result, r.text)
	t.failed = t.failed || r.failed
	t.error = r.message
	t.source = source
}

// resultIn finds the result of a call in a chat: by the call's id, else by its place among the last
// calls of the chat, if those are the calls of the cycle.
func (c *cycle) resultIn(input *chat, t *toolCall) (callResult, bool) {
	id := t.request.id
	if id == "" && t.node != nil {
		id = t.node.facts.CallID
	}
	if id != "" {
		if r, ok := input.result(id); ok {
			return r, true
		}
	}

	calls, results := input.lastCalls()
	i := slices.Index(c.calls, t)
	if len(calls) != len(c.model.facts.calls) || len(results) != len(calls) || i >= len(calls) ||
		calls[i].name != t.request.name || results[i].id != "" && id != "" {
		return callResult{}, false
	}
	return results[i], true
}

// findName returns the name of the agent, or of what does its work.
func (s *step) findName() string {
	n := s.node
	if n.isPipelines && (n.facts.Agent == "" || n.facts.Agent == withoutMethod(n.Name)) {
		return n.Name // parts are told apart by their spans alone
	}
	if n.facts.Class == Agent {
		return n.facts.Agent
	}

	for _, below := range [][]*node{n.models, n.tools} {
		for _, c := range below {
			if c.facts.Agent != "" {
				return c.facts.Agent
			}
		}
	}
	for _, m := range n.models {
		if m.facts.agentID != "" {
			return m.facts.agentID
		}
	}

	if n.facts.delegate != "" {
		return n.facts.delegate
	}
	if n.Span == nil || n.facts.Class == Tool {
		for _, c := range n.children {
			if c.Span != nil && c.facts.Class == Transparent && !c.facts.part {
				return withoutMethod(c.Name)
			}
		}
	}

	switch {
	case n.facts.Class == Tool:
		return n.facts.Tool
	case n.Span != nil:
		return cmp.Or(n.facts.Workflow, withoutMethod(n.Name))
	}
	return withoutMethod(n.children[0].Name)
}

func (s *step) conversation() string {
	if c := s.node.facts.Conversation; c != "" {
		return c
	}
	for _, m := range s.node.models {
		if c := m.facts.Conversation; c != "" {
			return c
		}
	}
	return ""
}

// findModel returns the first model of the step.
func (s *step) findModel() string {
	for _, c := range s.cycles {
		if c.model != nil && c.model.facts.Model != "" {
			return c.model.facts.Model
		}
	}
	return s.node.facts.Model
}

// findRequest returns what the agent was asked: according to its span or to the tool call that names it,
// else to the first model call, else to the tool call that it works for.
func (s *step) findRequest() string {
	f := s.node.facts
	if f.Class != Tool && f.request != "" {
		return f.request
	}
	if s.node.isPipelines {
		return cmp.Or(requestIn(withoutObjects(f.Input)), f.unread(f.Input))
	}

	if f.Class == Tool && f.delegate != "" {
		if request := requestIn(f.Arguments); request != "" {
			return request
		}
	}
	for _, c := range s.cycles {
		if c.model != nil {
			if request := requestIn(c.model.facts.Input); request != "" {
				return request
			}
		}
	}

	if f.Class == Tool {
		return cmp.Or(requestIn(f.Arguments), f.Arguments)
	}
	if call := s.node.tool; call != nil {
		return cmp.Or(requestIn(call.facts.Arguments), f.unread(f.Input))
	}
	return f.unread(f.Input)
}

// findResult returns what the agent answered: according to its span, else to the last model call.
func (s *step) findResult() string {
	f := s.node.facts
	if f.Class != Tool && f.answer != "" {
		return f.answer
	}
	if s.node.isPipelines {
		return cmp.Or(answerIn(withoutObjects(f.Output)), f.unread(f.Output))
	}

	if answer, _ := s.node.answer(); answer != "" {
		return answer
	}
	if f.Class == Tool {
		return f.Result
	}
	return f.unread(f.Output)
}

// answer is what the last model call of a node answered, and that call, if the node has ended and the
// call did not ask for tools. Else it is "".
func (n *node) answer() (answer string, by *node) {
	if len(n.models) == 0 || !n.state().Terminal() {
		return "", nil
	}
	by = slices.MaxFunc(n.models, compareEnds)
	if len(by.facts.calls) > 0 || asksForTools(by.facts.Finish) {
		return "", nil
	}
	return by.facts.answer, by
}

// unread returns an input or an output in which no text for people was found, "" if there is none.
func (f *Facts) unread(s string) string {
	if isEmpty(s) || isJSON(s) && len(readChat(s).messages) > 0 {
		return ""
	}
	return f.asSent(s)
}
