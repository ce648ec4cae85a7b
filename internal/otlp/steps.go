package otlp

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/actlog/actlog/record"
)

// step is an agent's span, or what stands for an agent if there is no such span.
type step struct {
	node   *node
	mark   uint64 // differs if anything differs that the step is made of
	known  bool   // the cycles are not known, because the step is the same as before
	cycles []*cycle
	state  record.State
	// request is what the agent was asked, result what it answered.
	request, result string
	agent, model    string // names
}

// cycle is a model call and the tool calls that it asked for. Tool calls without a known model call
// are in a cycle without one.
type cycle struct {
	model *node
	calls []*toolCall
}

// toolCall is a span, a call that the output of a model asks for, or both.
type toolCall struct {
	node    *node // nil: known only from the output
	id      string
	request callRequest
	result  string
	failed  bool
	error   string
	source  *node // in which a result was found outside the span; nil: none
	state   record.State
}

// stepMark returns the mark of the step of a node.
func stepMark(n *node) uint64 {
	at := func(n *node) uint64 { // of two nodes in one place
		if n == nil {
			return 0
		}
		return n.number()
	}
	h := mix(n.mark, n.skipped, uint64(len(n.models)), uint64(len(n.tools)))
	for _, m := range n.models {
		h = mix(h, m.mark, at(m.cycle))
	}
	for _, t := range n.tools {
		h = mix(h, t.mark, at(t.model), at(t.cycle))
		if t.facts.delegate == "" {
			continue
		}
		if _, by := t.answer(); by != nil { // it may be the result
			h = mix(h, by.mark)
		}
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
	if n.ownsAgents {
		h++
	}
	return mix(h, maphash.String(seed, string(n.state())))
}

func newStep(n *node, mark uint64) *step {
	s := &step{node: n, mark: mark, state: n.state()}
	slices.SortFunc(n.models, compareEnds)
	slices.SortFunc(n.tools, compareNodes)
	x := index{byModel: map[*node]*cycle{}, byCall: map[string][]*cycle{}, byName: map[string][]*cycle{}, byWrapper: map[*node][]*cycle{}}
	for _, m := range n.models {
		x.add(&cycle{model: m})
	}
	bare := map[*node]*cycle{} // cycles without a model call, by their wrapper
	for _, t := range n.tools {
		c := cmp.Or(x.find(t), bare[t.cycle])
		if c == nil {
			c = &cycle{}
			bare[t.cycle] = c
			s.cycles = append(s.cycles, c) // in the order of their first call, before all others
		}
		c.calls = append(c.calls, &toolCall{node: t, id: t.id})
	}
	s.cycles = append(s.cycles, x.all...)
	for _, c := range x.all {
		c.match()
	}
	if len(s.cycles) == 0 && n.facts.Class == Agent && n.facts.Usage.known() {
		s.cycles = []*cycle{{}}
	}
	for i, c := range s.cycles {
		for _, t := range c.calls {
			s.setOutcome(i, t)
		}
	}
	s.request = s.findRequest()
	if s.state.Terminal() {
		s.result = s.findResult()
	}
	s.agent, s.model = s.findName(), s.findModel()
	return s
}

// index finds the cycle of a tool call among those of a step, in the order in which their model
// calls ended.
type index struct {
	all            []*cycle
	running        *running // nil until it is needed
	byModel        map[*node]*cycle
	byWrapper      map[*node][]*cycle
	byCall, byName map[string][]*cycle // by what the model asks for
}

func (x *index) add(c *cycle) {
	x.all = append(x.all, c)
	x.byModel[c.model] = c
	if w := c.model.cycle; w != nil {
		x.byWrapper[w] = append(x.byWrapper[w], c)
	}
	put := func(m map[string][]*cycle, key string) {
		if cycles := m[key]; (key != "" || len(c.model.facts.calls) == 0) && (len(cycles) == 0 || cycles[len(cycles)-1] != c) {
			m[key] = append(cycles, c)
		}
	}
	for _, r := range c.model.facts.calls {
		put(x.byCall, r.id)
		put(x.byName, r.key)
	}
	if f := c.model.facts; len(f.calls) == 0 && asksForTools(f.Finish) {
		put(x.byName, "") // for tools of any name
	}
}

// find returns the cycle of a tool call, nil if none is known: that of the model call around its
// span, else that of the model call that asked for its id, else the only one in the same wrapper, else
// that of the model call that was running, because some clients start tools while the model streams,
// else the last one whose model had answered, if possible with a call of this tool.
func (x *index) find(t *node) *cycle {
	if t.model != nil {
		return x.byModel[t.model]
	}
	if cycles := x.byCall[t.facts.CallID]; len(cycles) > 0 {
		return cmp.Or(latest(cycles, t.Start), cycles[0]) // some models count from call_0 each time
	}
	if cycles := x.byWrapper[t.cycle]; len(cycles) == 1 {
		return cycles[0]
	}
	if n := len(x.all); n > 0 && x.all[n-1].model.end() > t.Start+slack {
		if x.running == nil {
			x.running = newRunning(x.all)
		}
		if c := x.running.at(t); c != nil {
			return c
		}
	}
	return cmp.Or(latest(x.byName[t.facts.key], t.Start), latest(x.byName[""], t.Start), latest(x.all, t.Start))
}

// running finds the model call during which a tool call started.
type running struct {
	cycles []*cycle // in the order in which their model calls started
	// before has for each model call the last one before it that ended later, -1 if there is none.
	before []int
}

func newRunning(cycles []*cycle) *running {
	r := &running{slices.Clone(cycles), make([]int, len(cycles))}
	slices.SortFunc(r.cycles, func(a, b *cycle) int { return compareNodes(a.model, b.model) })
	for i, c := range r.cycles {
		j := i - 1
		for j >= 0 && r.cycles[j].model.end() <= c.model.end() {
			j = r.before[j]
		}
		r.before[i] = j
	}
	return r
}

// at returns the cycle of the last model call that was running when a tool call started and that may
// have asked for it, nil if there is none. It looks at a few that overlap.
func (r *running) at(t *node) *cycle {
	const few = 64
	i := sort.Search(len(r.cycles), func(i int) bool { return r.cycles[i].model.Start > t.Start }) - 1
	for range few {
		if i < 0 {
			break
		}
		if m := r.cycles[i].model; m.end() > t.Start+slack && m.facts.mayAskFor(t.facts.key) {
			return r.cycles[i]
		}
		i = r.before[i]
	}
	return nil
}

// latest returns the last cycle whose model call had ended when a tool call started.
func latest(cycles []*cycle, start int64) *cycle {
	i := sort.Search(len(cycles), func(i int) bool { return cycles[i].model.end() > start+slack })
	if i == 0 {
		return nil
	}
	return cycles[i-1]
}

// match pairs the calls that the model asked for with those that were made: by id, then by name and
// arguments, then by name, each in order. A requested call without a partner becomes a call that is
// known only from the output.
func (c *cycle) match() {
	requests := c.model.facts.calls
	if len(requests) == 0 {
		return
	}
	made := func(t *toolCall) callRequest {
		f := t.node.facts
		return callRequest{id: f.CallID, name: f.Tool, args: f.Arguments, key: f.key}
	}
	pairs := make([]*toolCall, len(requests))
	left := c.calls
	pass := func(key func(callRequest) string, differentIDs bool) {
		if len(left) == 0 {
			return
		}
		waiting := map[string][]int{}
		for i, r := range requests {
			if pairs[i] != nil {
				continue
			}
			if k := key(r); k != "" {
				waiting[k] = append(waiting[k], i)
			}
		}
		var rest []*toolCall
		for _, t := range left {
			call := made(t)
			k := key(call)
			queue := waiting[k]
			if len(queue) == 0 || !differentIDs && requests[queue[0]].id != "" && call.id != "" {
				rest = append(rest, t)
				continue
			}
			waiting[k] = queue[1:]
			pairs[queue[0]] = t
		}
		left = rest
	}
	pass(func(r callRequest) string { return r.id }, true)
	pass(func(r callRequest) string { return r.key + " " + compact(r.args) }, true)
	pass(func(r callRequest) string { return r.key }, false)
	pass(transferTarget, false)
	c.calls = make([]*toolCall, 0, len(requests)+len(left))
	ids := map[string]bool{}
	for i, r := range requests {
		t := pairs[i]
		if t == nil {
			// The row's id ends with the call's own id if that can be part of one, else with its place.
			suffix := r.id
			if suffix == "" || len(suffix) > 200 || strings.TrimSpace(suffix) != suffix || clean(suffix) != suffix || ids[suffix] {
				suffix = "#" + strconv.Itoa(i)
			}
			t = &toolCall{id: c.model.id + "-" + suffix}
		}
		ids[r.id] = true
		t.request = r
		c.calls = append(c.calls, t)
	}
	c.calls = append(c.calls, left...)
}

// transferTarget returns the key of the agent that a call hands over to. The call's name is
// transfer_to_x, that of its span "handoff to X".
func transferTarget(r callRequest) string {
	for _, prefix := range []string{"transferto", "handoffto"} {
		if to, ok := strings.CutPrefix(r.key, prefix); ok {
			return to
		}
	}
	return ""
}

// setOutcome sets the state and the result of a call of the i-th cycle.
func (s *step) setOutcome(i int, t *toolCall) {
	if t.node != nil {
		t.result, t.failed = t.node.facts.Result, t.node.facts.Failed
	}
	if t.result == "" {
		s.findToolResult(i, t)
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

// findToolResult looks for the result of a call of the i-th cycle in the input of the next model call.
func (s *step) findToolResult(i int, t *toolCall) {
	c := s.cycles[i]
	if c.model == nil {
		return
	}
	for _, next := range s.cycles[i+1:] {
		if next.model == nil || next.model.facts.Input == "" {
			continue
		}
		if r, ok := c.resultIn(next.model.chat(), t); ok {
			t.setResult(r, next.model)
		}
		return
	}
}

// chat returns the input of a model call.
func (n *node) chat() *chat {
	if n.asked.chat == nil || n.asked.input != n.facts.Input {
		n.asked = asked{n.facts.Input, new(readChat(n.facts.Input))}
	}
	return n.asked.chat
}

// mark differs if anything differs that the rows of a cycle are made of. in is the step's.
func (c *cycle) mark(in *step) uint64 {
	h := uint64(len(c.calls))
	if c.model != nil {
		h = mix(h, c.model.mark)
	} else {
		h = mix(h, in.node.mark, in.mark)
	}
	for _, t := range c.calls {
		h = mix(h, maphash.String(seed, t.id), maphash.String(seed, string(t.state)))
		if t.node != nil {
			h = mix(h, t.node.mark)
			if t.node.model != nil {
				h++
			}
		}
		if t.source != nil {
			h = mix(h, t.source.mark)
		}
	}
	return h
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
	if n.facts.Class == Agent {
		return n.facts.Agent
	}
	for _, c := range slices.Concat(n.models, n.tools) {
		if c.facts.Agent != "" {
			return c.facts.Agent
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
	conversation := s.node.facts.Conversation
	for _, m := range s.node.models {
		conversation = cmp.Or(conversation, m.facts.Conversation)
	}
	return conversation
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
		return cmp.Or(requestIn(call.facts.Arguments), unread(f.Input))
	}
	return unread(f.Input)
}

// findResult returns what the agent answered: according to its span, else to the last model call.
func (s *step) findResult() string {
	f := s.node.facts
	if f.Class != Tool && f.answer != "" {
		return f.answer
	}
	if answer, _ := s.node.answer(); answer != "" {
		return answer
	}
	if f.Class == Tool {
		return f.Result
	}
	return unread(f.Output)
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
func unread(s string) string {
	if isEmpty(s) || isJSON(s) && len(readChat(s).messages) > 0 {
		return ""
	}
	return s
}
