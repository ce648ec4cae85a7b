package otlp

import (
	"cmp"
	"slices"
	"strings"

	"github.com/actlog/actlog/record"
)

// plans adds the root plan, and a sub-plan for each tool call with something below
// it that makes rows.
func (p *projection) plans() {
	root := &record.Plan{RootPlanID: p.trace, CurrentPlanID: p.trace, TraceID: &p.trace, State: new(all(p.tops))}
	start, top := p.nodes[0].start(), p.nodes[0]
	for _, n := range p.tops {
		if s := n.start(); start == 0 || s != 0 && s < start {
			start = s
		}
		if top.Span == nil && n.Span != nil {
			top = n
		}
	}
	root.StartTime = at(start)
	if root.State.Terminal() {
		root.EndTime = at(lastEnd(p.tops))
	}
	for _, n := range p.tops {
		if n.state() == record.Failed {
			root.ErrorMessage, root.ErrorKind = p.failure(n)
			break
		}
	}
	first := p.executions[0]
	for _, e := range p.executions {
		if p.planBelow(e.node) == p.trace {
			first = e
			break
		}
	}
	root.Name = told(p.name(top))
	root.UserRequest = told(cmp.Or(request(top.facts.Input), first.request))
	root.Title = told(title(cmp.Or(orEmpty(root.UserRequest), orEmpty(root.Name))))
	root.ModelName = told(first.model())
	if root.State.Terminal() {
		root.Summary = told(answer(top.facts.Output))
		for _, e := range slices.Backward(p.executions) {
			if root.Summary == nil && p.planBelow(e.node) == p.trace && p.parent(e.node) == "" {
				root.Summary = told(e.result)
			}
		}
	}
	p.who(root)
	p.add(root)
	for _, e := range p.nodes {
		if e.facts.Class != Tool || e.same != nil || !e.hasBelow() {
			continue
		}
		sub := &record.Plan{RootPlanID: p.trace, CurrentPlanID: e.id, ParentPlanID: new(p.plan(e)), ToolCallID: new(e.id),
			State: new(e.state()), StartTime: at(e.Start), EndTime: e.ended(), Name: told(e.facts.Tool), Summary: told(e.facts.Result)}
		if e.facts.Failed {
			sub.ErrorMessage, sub.ErrorKind = p.failure(e)
		}
		p.add(sub)
	}
	subs := map[string]*record.Plan{}
	for _, c := range p.changes[1:] {
		plan := c.(*record.Plan)
		subs[plan.CurrentPlanID] = plan
	}
	for _, e := range p.executions {
		if sub := subs[p.planBelow(e.node)]; sub != nil && sub.UserRequest == nil {
			sub.Name = told(cmp.Or(e.name(), orEmpty(sub.Name)))
			sub.UserRequest = told(e.request)
			sub.Title = told(title(cmp.Or(orEmpty(sub.UserRequest), orEmpty(sub.Name))))
			sub.ModelName = told(e.model())
		}
	}
	for _, e := range slices.Backward(p.executions) { // where the span of the tool call has no result
		if sub := subs[p.planBelow(e.node)]; sub != nil && sub.Summary == nil && sub.State.Terminal() && p.parent(e.node) == "" {
			sub.Summary = told(e.result)
		}
	}
}

// name is what the root plan is called: a workflow, what stands above all, or, if
// that is none of ours, the first agent.
func (p *projection) name(top *node) string {
	for _, n := range p.tops {
		if n.facts.Workflow != "" {
			return n.facts.Workflow
		}
	}
	switch {
	case top.Span == nil:
	case top.facts.Class == Agent:
		return top.facts.Agent
	case top.facts.Class != Unclassified:
		return top.Name
	}
	for _, n := range p.nodes {
		if n.facts.Workflow != "" {
			return n.facts.Workflow
		}
		if n.facts.Agent != "" {
			return n.facts.Agent
		}
	}
	if top.Span != nil {
		return top.Name
	}
	return p.executions[0].name()
}

// who tells the root plan for whom and where it ran.
func (p *projection) who(root *record.Plan) {
	var conversation, user string
	b := []byte{'{'}
	for _, n := range p.nodes {
		conversation, user = cmp.Or(conversation, n.facts.Conversation), cmp.Or(user, n.facts.User)
		if root.Tags == nil {
			root.Tags = n.facts.Tags
		}
		if n.Span == nil {
			continue
		}
		if len(b) == 1 { // the topmost span that there is
			b = metadata(b, n.Span)
		}
		r := n.Resource
		if root.Environment == nil {
			root.Environment = told(r.first("deployment.environment.name", "deployment.environment"))
		}
		if root.Release == nil {
			root.Release = told(r.Get("service.version"))
		}
		if root.Project == nil {
			root.Project = told(r.first("actlog.project", "openinference.project.name"))
		}
	}
	root.ConversationID, root.UserID = id(conversation), id(user)
	root.Metadata = object(b)
}

// metadata adds what a span tells about its run, and what made it.
func metadata(b []byte, s *Span) []byte {
	seen := map[string]bool{}
	put := func(key, value string) {
		if key != "" && value != "" && !seen[key] {
			seen[key] = true
			b = appendRaw(b, clean(key), value)
		}
	}
	quoted := func(v string) string {
		if v == "" {
			return ""
		}
		return string(appendString(nil, clean(v)))
	}
	put("service", quoted(s.Resource.Get("service.name")))
	put("instrumentation", quoted(strings.TrimSpace(s.Scope.Name+" "+s.Scope.Version)))
	if v := s.Attributes.Get("metadata"); isJSON(v) {
		members(v, func(key, value string) bool {
			put(key, value)
			return len(seen) < 100
		})
	}
	for _, prefix := range []string{"ai.telemetry.metadata.", "langfuse.trace.metadata.", "traceloop.association.properties."} {
		for _, a := range s.Attributes.below(prefix) {
			if len(seen) < 100 {
				put(a.Key[len(prefix):], string(Value{a.Value.Type, clean(a.Value.Text)}.append(nil)))
			}
		}
	}
	return b
}

// object closes an object and gives it where a record would take it.
func object(b []byte) []byte {
	if len(b) == 1 {
		return nil
	}
	b = append(b, '}')
	if _, _, err := record.Clean(&record.Plan{RootPlanID: "-", CurrentPlanID: "-", Metadata: b}); err != nil {
		return nil
	}
	return b
}

func (p *projection) failure(n *node) (message, kind *string) {
	for n.Span == nil {
		for _, c := range n.children {
			if c.state() == record.Failed {
				n = c
				break
			}
		}
		if n.Span == nil {
			return nil, nil
		}
	}
	return told(n.facts.ErrorMessage), told(cmp.Or(n.facts.ErrorKind, "error"))
}

// steps adds the executions, numbered within their plans.
func (p *projection) steps() {
	numbers := map[string]int64{}
	for _, e := range p.executions {
		n, plan := e.node, p.planBelow(e.node)
		row := &record.AgentExecution{
			RootPlanID: p.trace, StepID: n.id, PlanID: plan, StepIndex: new(numbers[plan]), AgentName: told(e.name()),
			AgentRequest: told(e.request), State: new(e.state), StartTime: at(n.start()), EndTime: n.ended(), Result: told(e.result), ModelName: told(e.model()),
			ConversationID: id(e.conversation()), SpanID: &n.id,
		}
		numbers[plan]++
		if n.facts.Class == Agent {
			row.AgentVersion, row.AgentDescription = told(n.facts.AgentVersion), told(n.facts.AgentDescription)
		}
		if *row.State == record.Failed {
			row.ErrorMessage, row.ErrorKind = p.failure(n)
		}
		b := []byte{'{'}
		if parent := p.parent(n); parent != "" {
			b = appendMember(b, "parentStepId", parent)
		}
		row.Metadata = object(truncated(b, n))
		p.add(row)
	}
}

// parent gives the step of the same plan that an agent works for.
func (p *projection) parent(n *node) string {
	if n.facts.Class != Agent {
		return ""
	}
	for n.owner != n {
		if n = n.owner; n.facts.Class == Tool {
			return ""
		}
		if n.executes() {
			return n.id
		}
	}
	return ""
}

// truncated tells what was cut of a span.
func truncated(b []byte, n *node) []byte {
	if n.Span == nil || len(n.Truncated) == 0 {
		return b
	}
	names := []byte{'['}
	for _, name := range n.Truncated {
		names = appendString(comma(names), clean(name))
	}
	return appendRaw(b, "truncatedAttributes", string(append(names, ']')))
}

// name is what an agent is called, or what does its work.
func (e *execution) name() string {
	n := e.node
	if n.facts.Class == Agent {
		return n.facts.Agent
	}
	for _, c := range slices.Concat(n.models, n.tools) {
		if c.facts.Agent != "" {
			return c.facts.Agent
		}
	}
	if n.Span == nil || n.facts.Class == Tool {
		for _, c := range n.children {
			if c.Span != nil && c.facts.Class == Transparent {
				return c.Name
			}
		}
	}
	switch {
	case n.facts.Class == Tool:
		return n.facts.Tool
	case n.Span != nil:
		return cmp.Or(n.facts.Workflow, n.Name)
	}
	for _, c := range n.children {
		if c.Span != nil {
			return c.Name
		}
	}
	return ""
}

func (e *execution) conversation() string {
	s := e.node.facts.Conversation
	for _, m := range e.node.models {
		s = cmp.Or(s, m.facts.Conversation)
	}
	return s
}

func (e *execution) model() string {
	for _, c := range e.cycles {
		if c.model != nil && c.model.facts.Model != "" {
			return c.model.facts.Model
		}
	}
	return e.node.facts.Model
}

// findRequest gives what the agent was asked: by its span, else by the first model call.
func (e *execution) findRequest() string {
	if n := e.node; n.facts.Class != Tool {
		if s := request(n.facts.Input); s != "" {
			return s
		}
	}
	for _, c := range e.cycles {
		if c.model != nil {
			if s := request(c.model.facts.Input); s != "" {
				return s
			}
		}
	}
	return e.node.facts.Arguments
}

// findResult gives what the agent answered: by its span, else by the last model call.
func (e *execution) findResult() string {
	if n := e.node; n.facts.Class != Tool {
		if s := answer(n.facts.Output); s != "" {
			return s
		}
	}
	if len(e.cycles) > 0 {
		if c := e.cycles[len(e.cycles)-1]; c.model != nil && len(c.model.facts.calls) == 0 {
			return answer(c.model.facts.Output)
		}
	}
	return e.node.facts.Result
}

// request gives what the user says in an input, or the input where it is none of
// messages.
func request(input string) string {
	c := readChat(input)
	if len(c.messages) == 0 {
		return input
	}
	return c.last("user")
}

// answer gives what the model or the agent says in an output, likewise.
func answer(output string) string {
	c := readChat(output)
	if len(c.messages) == 0 {
		return output
	}
	return cmp.Or(c.last("assistant"), c.last("model"))
}

// title is the first line of a text, short.
func title(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return record.Shorten(strings.TrimSpace(line), 200)
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// cycles adds the think-acts.
func (p *projection) cycles() {
	for _, e := range p.executions {
		for seq, c := range e.cycles {
			row := &record.ThinkAct{RootPlanID: p.trace, StepID: e.node.id, Seq: int64(seq)}
			if c.model != nil {
				p.think(row, c.model)
			} else {
				row.State = new(record.Completed)
				if n := e.node; seq == 0 && n.facts.Class == Agent && len(n.models) == 0 && !n.agents {
					// No span tells of the model calls: what the agent's does.
					usage(row, &e.node.facts)
					row.ModelName, row.Provider = told(e.node.facts.Model), told(e.node.facts.Provider)
				}
				if len(c.tools) == 0 {
					row.State = new(e.state)
					row.ThinkStartTime, row.ThinkEndTime = at(e.node.start()), e.node.ended()
				}
			}
			act(row, c.tools)
			p.add(row)
		}
	}
}

func (p *projection) think(row *record.ThinkAct, n *node) {
	f := &n.facts
	row.ThinkStartTime, row.ThinkEndTime, row.FirstTokenTime = at(n.Start), at(n.End), at(f.FirstToken)
	row.ThinkInput, row.ThinkOutput = told(withSystem(f.System, f.Input)), told(f.thought)
	row.FinishReason, row.Provider, row.ModelName = told(f.Finish), told(f.Provider), told(f.Model)
	row.SpanID = &n.id
	row.State = new(n.state())
	if *row.State == record.Failed {
		row.ErrorMessage, row.ErrorKind = p.failure(n)
	}
	usage(row, f)
	row.Metadata = object(truncated([]byte{'{'}, n))
}

func usage(row *record.ThinkAct, f *Facts) {
	u := &f.Usage
	row.InputTokens, row.OutputTokens, row.CacheReadInputTokens, row.CacheCreationInputTokens, row.ReasoningTokens =
		u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning
	if row.InputTokens != nil && *row.InputTokens > record.MaxCount {
		row.InputTokens = new(int64(record.MaxCount))
	}
	row.CostUSD = f.CostUSD
}

// act tells a cycle what its tool calls mean for it: when it acted, and whether it
// still does.
func act(row *record.ThinkAct, tools []*toolCall) {
	ended, last := true, int64(0)
	for _, t := range tools {
		if !t.state.Terminal() {
			ended = false
			if *row.State == record.Completed {
				row.State = new(record.Running)
			}
		}
		if t.node == nil {
			continue
		}
		if start := at(t.node.Start); row.ActStartTime == nil || start != nil && start.Before(*row.ActStartTime) {
			row.ActStartTime = start
		}
		last = max(last, t.node.End)
		// A model's span that tool calls are in does not end when the model does.
		if s := at(t.node.Start); t.node.model != nil && s != nil && row.ThinkEndTime != nil && s.Before(*row.ThinkEndTime) &&
			row.ThinkStartTime != nil && !s.Before(*row.ThinkStartTime) {
			row.ThinkEndTime = s
		}
	}
	if ended {
		row.ActEndTime = at(last)
	}
}

// withSystem puts the system's instructions before the messages.
func withSystem(system, input string) string {
	if system == "" {
		return input
	}
	if input != "" && isJSON(input) && strings.HasPrefix(strings.TrimSpace(input), "{") {
		return input // a request as a whole, which has them
	}
	b := appendMember([]byte(`[{`), "role", "system")
	if said, ok := onlyText(system); ok {
		b = appendMember(b, "content", said)
	} else {
		b = appendRaw(b, "content", asJSON(system))
	}
	b = append(b, '}')
	switch input = strings.TrimSpace(input); {
	case input == "":
		return string(append(b, ']'))
	case !isJSON(input):
		b = appendMember(append(comma(b), '{'), "role", "user")
		return string(append(appendMember(b, "content", input), "}]"...))
	}
	if text(member(firstElement(input), "role")) == "system" {
		return input // they are there already
	}
	rest := strings.TrimSpace(input[1:])
	if rest == "]" {
		return string(append(b, ']'))
	}
	return string(append(append(b, ','), rest...))
}

// onlyText gives what a text or a list of text parts says.
func onlyText(s string) (string, bool) {
	c := readChat(s)
	return c.onlyText()
}

// tools adds the tool calls.
func (p *projection) tools() {
	for _, e := range p.executions {
		for seq, c := range e.cycles {
			for i, t := range c.tools {
				row := &record.ActTool{RootPlanID: p.trace, StepID: e.node.id, Seq: int64(seq), ToolCallID: t.id, CallIndex: new(int64(i)),
					State: new(t.state), ProviderCallID: id(t.asked.id), Name: told(t.asked.name), Parameters: told(t.asked.args), Result: told(t.result)}
				if n := t.node; n != nil {
					f := &n.facts
					row.ProviderCallID = id(cmp.Or(f.CallID, t.asked.id))
					row.Name = told(cmp.Or(f.Tool, t.asked.name))
					// LangChain's spans have the bare value of a lone argument.
					if f.Tool != t.asked.name || !isJSON(t.asked.args) || isJSON(f.Arguments) {
						row.Parameters = told(cmp.Or(f.Arguments, t.asked.args))
					}
					row.StartTime, row.EndTime, row.SpanID = at(n.Start), at(n.End), &n.id
					row.Metadata = object(truncated([]byte{'{'}, n))
				} else {
					row.Inferred = new(true)
				}
				if t.state == record.Failed {
					row.ErrorKind = new("error")
					row.ErrorMessage = told(cmp.Or(t.error, t.result))
					if n := t.node; n != nil {
						row.ErrorKind = told(cmp.Or(n.facts.ErrorKind, "error"))
						row.ErrorMessage = told(cmp.Or(n.facts.ErrorMessage, t.error, t.result))
					}
				}
				p.add(row)
			}
		}
	}
}
