package otlp

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/actlog/actlog/record"
)

// cycle is a model call and the tool calls that it asked for. Tool calls without a known model call
// are in a cycle without one.
type cycle struct {
	model *node
	calls []*toolCall
	tools []*node // the calls that have a span, in the order of their start
	// fresh says that something may differ from what it was before the step grew.
	fresh    bool
	mark     uint64 // differs if anything differs that the row of the cycle or of a call is made of
	snapshot callSnapshot
}

// callSnapshot is what was known of a model call when its cycle was put into its place.
type callSnapshot struct {
	mark       uint64
	start, end int64
	wrapper    *node
	calls      []callRequest // what it asked for
	anyCall    bool          // it asked for calls that are not known
	input      bool          // its input is known
}

// toolCall is a span, a call that the output of a model asks for, or both.
type toolCall struct {
	node    *node // nil: known only from the output
	id      string
	request callRequest
	outcome
	mark uint64 // differs if anything differs that its row is made of
}

// outcome is what became of a tool call.
type outcome struct {
	result string
	failed bool
	error  string
	source *node // in which a result was found outside the span; nil: none
	state  record.State
}

func newCycle(m *node) *cycle {
	f := m.facts
	return &cycle{model: m, fresh: true,
		snapshot: callSnapshot{mark: m.mark, start: m.Start, end: m.end(), wrapper: m.cycle, calls: f.calls,
			anyCall: len(f.calls) == 0 && asksForTools(f.Finish), input: f.Input != ""}}
}

// isOf reports whether a cycle is that of a model call as it is now.
func (c *cycle) isOf(m *node) bool {
	return c.model == m && c.snapshot.mark == m.mark && c.snapshot.wrapper == m.cycle
}

// cycles are those of one step. While the step grows they go on from what they were: only what new or
// changed spans may reach is put into its place anew. The result is that of a new beginning.
type cycles struct {
	index
	bare  map[*node]*cycle // cycles without a model call, by their wrapper
	tools []placedTool     // in the order of their start
}

type placedTool struct {
	*node
	mark  uint64
	cycle *cycle
}

func newCycles() *cycles {
	return &cycles{bare: map[*node]*cycle{}, index: index{
		byModel: map[*node]*cycle{}, byWrapper: map[*node][]*cycle{}, byCall: map[string][]*cycle{},
		byName: map[string][]*cycle{},
	}}
}

// update puts the present calls of a step, which are in their order, into cycles, and returns those in
// their order. Results of tool calls may differ in fresh cycles and in all from the given one on. It
// fails if a tool call is gone or started at another time than before: then only a new beginning helps.
func (c *cycles) update(models, tools []*node) (all []*cycle, from int, ok bool) {
	for _, x := range c.all {
		x.fresh = false
	}
	same := 0
	for same < min(len(c.all), len(models)) && c.all[same].isOf(models[same]) {
		same++
	}

	r := newReach()
	for _, x := range slices.Backward(c.all[same:]) {
		r.add(x)
		c.remove(x)
	}
	for _, m := range models[same:] {
		x := newCycle(m)
		r.add(x)
		c.add(x)
	}
	if !c.place(tools, r) {
		return nil, 0, false
	}

	for _, x := range c.bare {
		x.fresh = true // its row depends on the step
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *cycle) int { return compareNodes(a.tools[0], b.tools[0]) })

	from = max(0, same-1) // of the last call it is not known whether the run went on
	for r.input && from > 0 && !c.all[from].snapshot.input {
		from--
	}
	return append(all, c.all...), len(all) + from, true
}

// place puts tool calls into cycles. It fails as update does.
func (c *cycles) place(tools []*node, r *reach) (ok bool) {
	before := c.tools
	c.tools = make([]placedTool, 0, len(tools)+len(tools)/8)
	for _, t := range tools {
		p := placedTool{t, mix(t.mark, t.model.number(), t.cycle.number()), nil}
		if len(before) > 0 && before[0].id == t.id {
			was := before[0]
			before = before[1:]
			if was.node == t && was.mark == p.mark && !r.has(t) {
				p.cycle = was.cycle
			} else {
				was.cycle.fresh = true
			}
		}

		if p.cycle == nil || t.facts.delegate != "" { // the answer of the other agent may be new
			p.cycle = cmp.Or(p.cycle, c.of(t))
			p.cycle.fresh = true
		}
		c.tools = append(c.tools, p)
	}

	for _, x := range c.all {
		x.empty()
	}
	for _, x := range c.bare {
		x.fresh = true
		x.empty()
	}
	for _, p := range c.tools {
		if p.cycle.fresh {
			p.cycle.tools = append(p.cycle.tools, p.node)
		}
	}

	for wrapper, x := range c.bare {
		if len(x.tools) == 0 {
			delete(c.bare, wrapper)
		}
		x.pair()
	}
	for _, x := range c.all {
		x.pair()
	}
	return len(before) == 0
}

// of returns the cycle of a tool call, which may be new.
func (c *cycles) of(t *node) *cycle {
	if found := cmp.Or(c.find(t), c.bare[t.cycle]); found != nil {
		return found
	}
	x := &cycle{}
	c.bare[t.cycle] = x
	return x
}

// reach is what model calls that are new, gone or changed may be the ones for.
type reach struct {
	start, end int64 // the least
	models     map[*node]bool
	wrappers   map[*node]bool
	calls      map[string]bool
	input      bool
}

func newReach() *reach {
	return &reach{math.MaxInt64, math.MaxInt64, map[*node]bool{}, map[*node]bool{}, map[string]bool{}, false}
}

func (r *reach) add(c *cycle) {
	r.start, r.end = min(r.start, c.snapshot.start), min(r.end, c.snapshot.end)
	r.models[c.model], r.input = true, r.input || c.snapshot.input
	if c.snapshot.wrapper != nil {
		r.wrappers[c.snapshot.wrapper] = true
	}

	for _, asked := range c.snapshot.calls {
		if asked.id != "" {
			r.calls[asked.id] = true
		}
	}
}

// has reports whether find may find another cycle for a tool call than before.
func (r *reach) has(t *node) bool {
	return t.Start >= r.start || t.Start+slack >= r.end || t.model != nil && r.models[t.model] || t.cycle != nil &&
		r.wrappers[t.cycle] ||
		t.facts.CallID != "" && r.calls[t.facts.CallID]
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
	x.all, x.running = append(x.all, c), nil
	x.byModel[c.model] = c
	if w := c.snapshot.wrapper; w != nil {
		x.byWrapper[w] = append(x.byWrapper[w], c)
	}

	for m, key := range x.keys(c) {
		if cycles := m[key]; len(cycles) == 0 || cycles[len(cycles)-1] != c {
			m[key] = append(cycles, c)
		}
	}
}

// remove removes the last cycle, which c must be.
func (x *index) remove(c *cycle) {
	x.all, x.running = x.all[:len(x.all)-1], nil
	delete(x.byModel, c.model)
	if w := c.snapshot.wrapper; w != nil {
		x.byWrapper[w] = x.byWrapper[w][:len(x.byWrapper[w])-1]
	}

	for m, key := range x.keys(c) {
		if cycles := m[key]; len(cycles) > 0 && cycles[len(cycles)-1] == c {
			m[key] = cycles[:len(cycles)-1]
		}
	}
}

// keys yields the keys of a cycle, and in which map they are.
func (x *index) keys(c *cycle) iter.Seq2[map[string][]*cycle, string] {
	return func(yield func(map[string][]*cycle, string) bool) {
		for _, r := range c.snapshot.calls {
			if r.id != "" && !yield(x.byCall, r.id) || r.key != "" && !yield(x.byName, r.key) {
				return
			}
		}
		if c.snapshot.anyCall {
			yield(x.byName, "") // for tools of any name
		}
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

	if n := len(x.all); n > 0 && x.all[n-1].snapshot.end > t.Start+slack {
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
	i := sort.Search(len(cycles), func(i int) bool { return cycles[i].snapshot.end > start+slack })
	if i == 0 {
		return nil
	}
	return cycles[i-1]
}

// empty takes the tool calls out of a fresh cycle.
func (c *cycle) empty() {
	if c.fresh {
		c.tools = c.tools[:0]
	}
}

// pair makes the calls of a fresh cycle.
func (c *cycle) pair() {
	if !c.fresh {
		return
	}

	c.calls = make([]*toolCall, len(c.tools))
	for i, t := range c.tools {
		c.calls[i] = &toolCall{node: t, id: t.id}
	}
	if c.model != nil {
		c.match()
	}
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
			if suffix == "" || len(suffix) > 200 || strings.TrimSpace(suffix) != suffix || clean(suffix) != suffix ||
				ids[suffix] {
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
