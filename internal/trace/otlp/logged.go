package otlp

import (
	"slices"
	"sort"

	"github.com/actlog/actlog/internal/record/optional"
)

// promptsOf returns the prompts of a run of log records, in their order.
func promptsOf(all []*node) (prompts []*node) {
	for _, n := range all {
		if n.Logged && n.facts.Class == Agent && isRun(n.Span) {
			prompts = append(prompts, n)
		}
	}
	return prompts
}

// endPrompts decides which of the prompts of a run of log records have ended: nothing says that, so all do that
// another one follows, and the last one when nothing more is expected.
func (f *forest) endPrompts(prompts []*node) {
	for i, n := range prompts {
		n.notAwaited = f.closed || i < len(prompts)-1
	}
}

// moveToPrompts moves what has no prompt that it names from the top of a run of log records, if there is such a top, to
// the last prompt before it.
func moveToPrompts(top *node, prompts []*node) {
	if top == nil {
		return
	}

	top.children = slices.DeleteFunc(top.children, func(n *node) bool {
		i := sort.Search(len(prompts), func(i int) bool { return prompts[i].Start > n.Start+slack })
		if n.facts.Class == Agent || i == 0 {
			return false
		}
		n.addTo(prompts[i-1])
		return true
	})
}

// useRecords puts log records into the runs of the spans that they name. Where a call has a span as well, by the id of
// a tool call or the tokens of a model call, the record belongs to that: a call has one row.
func (f *forest) useRecords(logged []*node) {
	if len(logged) == 0 {
		return
	}

	tools, models := map[string]*node{}, map[tokens][]*node{}
	var byEnd, agents []*node
	for _, n := range f.nodes {
		switch {
		case n.outer != nil || n.Span == nil || n.Logged:
		case n.facts.Class == Tool && n.facts.CallID != "":
			tools[n.facts.CallID] = n
		case n.facts.Class == Model:
			byEnd = append(byEnd, n)
		case n.isAgent():
			agents = append(agents, n)
		}
	}
	slices.SortFunc(byEnd, compareEnds)
	for _, n := range byEnd {
		key := tokensOf(n)
		models[key] = append(models[key], n)
	}

	slices.SortFunc(agents, compareNodes)
	for _, n := range logged {
		named := f.spans[n.ParentID]
		if named == nil || named.Logged || !named.placed() {
			continue // it makes no run of its own
		}

		key := tokensOf(n)
		var twin *node
		switch {
		case n.isAgent():
			setRequest(n, named, agents)
			continue
		case n.facts.Class == Tool:
			twin = tools[n.facts.CallID]
		case n.facts.Class == Model && n.facts.Usage.known() && len(models[key]) > 0:
			twin, models[key] = models[key][0], models[key][1:]
		}

		if twin == nil {
			n.addTo(named)
			f.place(n)
			continue
		}

		n.addTo(twin)
		n.inheritPlace()
		if n.outer == nil {
			n.join(twin)
		}
		f.nodes = append(f.nodes, n)
		f.learnContext(n)
	}
}

// setRequest adds the text of a prompt to an agent. The record of the prompt names a span: the agent is the nearest
// around that. If a tool call is nearer, or there is no agent, it is the first one that began after the prompt.
func setRequest(prompt, named *node, agents []*node) {
	agent := named.inner()
	if !agent.isAgent() {
		i := sort.Search(len(agents), func(i int) bool { return agents[i].start() >= prompt.start()-slack })
		if i == len(agents) {
			return
		}
		agent = agents[i]
	}

	if agent.facts.Input == "" {
		own := agent.learn(prompt)
		own.Input, own.request = prompt.facts.Input, prompt.facts.request
	}
}

// tokens tell model calls apart, for want of an id.
type tokens struct{ input, output int64 }

func tokensOf(n *node) tokens {
	return tokens{optional.Value(n.facts.Usage.Input), optional.Value(n.facts.Usage.Output)}
}
