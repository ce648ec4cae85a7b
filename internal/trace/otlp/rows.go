package otlp

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/loosejson"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// projection makes the rows of a trace that differ from those that were made before.
type projection struct {
	*forest
	steps       []*step
	before, now made
}

// addStep adds the step of a node. If it is the same as before, its cycles are not made again.
func (p *projection) addStep(n *node) {
	mark := stepMark(n)
	before, ok := p.before.steps[n.id]
	if ok && before.mark == mark {
		s := before.step
		s.node, s.known = n, true
		p.steps = append(p.steps, &s)
		return
	}
	p.steps = append(p.steps, newStep(n, mark, before.grown))
}

// useSkipped fills the results of tool calls from spans of class Skip beside them.
func (p *projection) useSkipped() {
	if len(p.skips) == 0 {
		return
	}

	type key struct {
		parent *node
		call   string
	}
	type said struct {
		callResult
		by *node
	}
	byID, byName := map[key]said{}, map[key][]said{}
	for _, n := range p.skips {
		for _, r := range n.facts.results {
			if r.id != "" {
				byID[key{n.parent, r.id}] = said{r, n}
			}
			name := key{n.parent, r.name}
			byName[name] = append(byName[name], said{r, n})
		}
	}

	for _, s := range p.steps {
		for _, c := range s.cycles {
			for _, t := range c.calls {
				if t.node == nil || t.node.facts.Result != "" {
					continue
				}

				name := key{t.node.parent, t.node.facts.Tool}
				r, ok := byID[key{t.node.parent, t.node.facts.CallID}]
				if same := byName[name]; !ok && len(same) > 0 {
					r, ok = same[0], true
					byName[name] = same[1:]
				}

				if ok {
					t.result = ""
					t.setResult(r.callResult, r.by)
				}
				if t.failed {
					t.state = record.Failed
				}
			}
		}
	}
}

// rows returns the rows that differ, parents first.
func (p *projection) rows() (rows []record.Change) {
	p.now = made{plans: map[string]record.Plan{}, steps: make(map[string]madeStep, len(p.steps))}
	for _, plan := range p.planRows() {
		p.now.live = p.now.live || !plan.State.Terminal()
		if before, ok := p.before.plans[plan.CurrentPlanID]; !ok || !reflect.DeepEqual(before, *plan) {
			rows = append(rows, plan)
		}
		p.now.plans[plan.CurrentPlanID] = *plan
	}

	var cycles, calls []record.Change
	numbers := map[string]int64{} // of steps, by plan
	for _, s := range p.steps {
		m := madeStep{step: *s, plan: p.planID(s.node.planCall()), parent: p.parentStep(s.node)}
		m.step.cycles = nil
		m.index = numbers[m.plan]
		numbers[m.plan]++

		before, ok := p.before.steps[s.node.id]
		if !ok || !s.known || before.plan != m.plan || before.parent != m.parent || before.index != m.index {
			rows = append(rows, p.stepRow(s, &m))
		}
		if s.known {
			m.cycles, m.live = before.cycles, before.live
		}

		for seq, c := range s.cycles {
			c.setMarks(s)
			var was madeCycle
			if seq < len(before.cycles) {
				was = before.cycles[seq]
			}
			if was.mark != c.mark || seq >= len(before.cycles) {
				row := p.cycleRow(s, seq)
				cycles = append(cycles, row)
				m.cycles = append(m.cycles, madeCycle{mark: c.mark, live: !row.State.Terminal()})
				now := &m.cycles[seq]
				for i, t := range c.calls {
					now.calls, now.live = append(now.calls, madeCall{t.id, t.mark}), now.live || !t.state.Terminal()
					if i >= len(was.calls) || was.calls[i] != now.calls[i] {
						calls = append(calls, p.callRow(s, seq, i))
					}
				}
			} else {
				m.cycles = append(m.cycles, was)
			}
			m.live = m.live || m.cycles[seq].live
		}

		p.now.live = p.now.live || m.live || !s.state.Terminal()
		p.now.steps[s.node.id] = m
	}
	return slices.Concat(rows, cycles, calls)
}

// planRows returns the root plan, and a sub-plan for each tool call with rows below it.
func (p *projection) planRows() []*record.Plan {
	root := p.rootPlan()
	rows := []*record.Plan{root}
	plans := map[string]*record.Plan{p.trace: root}
	for _, n := range p.plans {
		plan := &record.Plan{RootPlanID: p.trace, CurrentPlanID: n.id, ParentPlanID: new(p.planID(n.tool)),
			ToolCallID: new(n.id),
			State:      new(n.state()), StartTime: timestamp(n.Start), EndTime: n.endTime(),
			Name: optional.Pointer(n.facts.Tool), Summary: optional.Pointer(n.facts.Result)}
		if n.facts.Failed {
			plan.ErrorMessage, plan.ErrorKind = n.failure()
		}
		rows, plans[n.id] = append(rows, plan), plan
	}

	for _, s := range p.steps {
		if plan := plans[p.planID(s.node.planCall())]; plan != root && plan.UserRequest == nil {
			describe(plan, cmp.Or(s.agent, s.node.planCall().facts.Tool), s.request, s.model)
		}
	}
	for _, s := range slices.Backward(p.steps) { // plans whose span has no result
		if plan := plans[p.planID(s.node.planCall())]; plan.Summary == nil && plan.State.Terminal() &&
			p.parentStep(s.node) == "" {
			plan.Summary = optional.Pointer(s.result)
		}
	}

	if root.Summary == nil && root.State.Terminal() {
		root.Summary = optional.Pointer(p.top().facts.unread(p.top().facts.Output))
	}
	return rows
}

// planID returns the id of the plan below a tool call, or of the root plan for nil.
func (p *projection) planID(call *node) string {
	if call == nil {
		return p.trace
	}
	return call.id
}

// planCall returns the tool call whose plan a step is in, nil for the root plan.
func (n *node) planCall() *node {
	if n.facts.Class == Tool {
		return n
	}
	return n.tool
}

// parentStep returns the id of the step of the same plan that an agent works for, "" if there is none.
func (p *projection) parentStep(n *node) string {
	if n.isPipelines {
		if n.stage != nil {
			return n.stage.id
		}
		return ""
	}
	if n.facts.Class != Agent {
		return ""
	}

	for n.owner != n {
		if n = n.owner; n.facts.Class == Tool {
			return ""
		}
		if n.isStep() {
			return n.id
		}
	}
	return ""
}

func (p *projection) rootPlan() *record.Plan {
	root := &record.Plan{
		RootPlanID: p.trace, CurrentPlanID: p.trace, TraceID: &p.trace, State: new(combinedState(p.tops)),
		StartTime: timestamp(firstStart(p.tops)),
	}
	top := p.top()
	if root.State.Terminal() {
		root.EndTime = timestamp(lastEnd(p.tops))
		root.Summary = optional.Pointer(top.facts.answer)
	}
	if i := slices.IndexFunc(p.tops, func(n *node) bool { return n.state() == record.Failed }); i >= 0 {
		root.ErrorMessage, root.ErrorKind = p.tops[i].failure()
	}

	first := p.steps[max(0, slices.IndexFunc(p.steps, func(s *step) bool { return s.node.planCall() == nil }))]
	describe(root, p.rootName(top), cmp.Or(top.facts.request, first.request, top.facts.unread(top.facts.Input)),
		first.model)
	p.addContext(root)
	return root
}

// top is the first of the topmost nodes that has a span, else the first.
func (p *projection) top() *node {
	return p.tops[max(0, slices.IndexFunc(p.tops, func(n *node) bool { return n.Span != nil }))]
}

func describe(plan *record.Plan, name, request, model string) {
	plan.Name, plan.ModelName = optional.Pointer(name), optional.Pointer(model)
	plan.UserRequest = optional.Pointer(request)
	title, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(request, name)), "\n")
	plan.Title = optional.Pointer(field.Shorten(strings.TrimSpace(title), 200))
}

// rootName is the name of the workflow, else of the top span, else, if that belongs to no convention,
// of the first agent.
func (p *projection) rootName(top *node) string {
	for _, n := range p.tops {
		if n.facts.Workflow != "" {
			return n.facts.Workflow
		}
	}

	switch {
	case top.Span == nil, top.onlyRuns():
	case top.facts.Class == Agent:
		return top.facts.Agent
	case top.facts.Class != Unclassified:
		return withoutMethod(top.Name)
	}

	for _, n := range p.nodes {
		if name := cmp.Or(n.facts.Workflow, n.facts.Agent); name != "" && !n.onlyRuns() {
			return name
		}
	}
	if top.Span != nil {
		return withoutMethod(top.Name)
	}
	return p.steps[0].agent
}

// addContext records on the root plan for whom and where it ran.
func (p *projection) addContext(root *record.Plan) {
	c := p.context
	p.around.service = "" // a proxy in front of the agents is not what the run is of
	c.fillFrom(&p.around)
	root.ConversationID, root.UserID = optionalID(c.conversation), optionalID(c.user)
	root.Environment, root.Release = optional.Pointer(c.environment), optional.Pointer(c.release)
	root.Project = optional.Pointer(cmp.Or(c.project, c.service))
	root.Tags = c.tags

	if id := optionalID(c.startedBy.PlanID); id != nil {
		by := record.StartedBy{PlanID: *id}
		if call := optionalID(c.startedBy.ToolCallID); call != nil {
			by.ToolCallID = *call
		}
		root.StartedBy = by.JSON()
	}
	if p.teller != nil {
		root.Metadata = metadata(appendMetadata([]byte{'{'}, p.teller.Span))
	}
}

// metadata closes an object and returns it, or nil if it is empty or a record would refuse it.
func metadata(b []byte) []byte {
	if len(b) == 1 {
		return nil
	}
	b = append(b, '}')
	if _, _, err := field.Clean(&record.Plan{RootPlanID: "-", CurrentPlanID: "-", Metadata: b}); err != nil {
		return nil
	}
	return b
}

// maxTruncated bounds the names that a row has of what was shortened or dropped.
const maxTruncated = 100

// appendTruncated adds the names of what was shortened or dropped in the spans of a row, each once and in order.
func appendTruncated(b []byte, n *node) []byte {
	cut := sortedUnique(n.facts.truncated)
	if len(cut) == 0 {
		return b
	}

	b = append(appendName(b, "truncatedAttributes"), '[')
	for _, name := range cut[:min(len(cut), maxTruncated)] {
		b = loosejson.AppendString(comma(b), clean(name))
	}
	return append(b, ']')
}

// failure returns the error of a failed node, or of its first failed child if it has no span.
func (n *node) failure() (message, kind *string) {
	switch {
	case n.notAwaited:
		_, by := outcomeOf(n.children)
		if by == nil {
			return nil, nil
		}
		return by.failure()
	case n.Span == nil:
		i := slices.IndexFunc(n.children, func(c *node) bool { return c.state() == record.Failed })
		if i < 0 {
			return nil, nil
		}
		n = n.children[i]
	}
	return optional.Pointer(n.facts.ErrorMessage), optional.Pointer(cmp.Or(n.facts.ErrorKind, "error"))
}

func (p *projection) stepRow(s *step, at *madeStep) *record.AgentExecution {
	n := s.node
	row := &record.AgentExecution{
		RootPlanID: p.trace, StepID: n.id, PlanID: at.plan, StepIndex: &at.index, AgentName: optional.Pointer(s.agent),
		AgentRequest: optional.Pointer(s.request), State: new(s.state), StartTime: timestamp(n.start()), EndTime: n.endTime(),
		Result: optional.Pointer(s.result), ModelName: optional.Pointer(s.model),
		ConversationID: optionalID(s.conversation()), SpanID: &n.id,
	}

	if n.facts.Class == Agent {
		row.AgentVersion = optional.Pointer(n.facts.AgentVersion)
		row.AgentDescription = optional.Pointer(n.facts.AgentDescription)
	}
	if s.state == record.Failed {
		row.ErrorMessage, row.ErrorKind = n.failure()
	}

	b := []byte{'{'}
	if at.parent != "" {
		b = appendMember(b, "parentStepId", at.parent)
	}
	row.Metadata = metadata(appendTruncated(b, n))
	return row
}

func (p *projection) cycleRow(s *step, seq int) *record.ThinkAct {
	n, c := s.node, s.cycles[seq]
	row := &record.ThinkAct{RootPlanID: p.trace, StepID: n.id, Seq: int64(seq)}

	if c.model != nil {
		setThink(row, c.model)
	} else {
		row.State = new(record.Completed)
		if n.countsAlone() && seq == min(len(n.asides), 1) { // the first cycle that is not for asides
			setUsage(row, n.facts)
		}
		if len(c.calls) == 0 && (seq > 0 || len(n.asides) == 0) {
			row.State = new(s.state)
			row.ThinkStartTime, row.ThinkEndTime = timestamp(n.start()), n.endTime()
		}
	}

	setAct(row, c.calls)
	if seq == 0 {
		setAsides(row, n.asides)
	}
	return row
}

// setAsides adds what a step paid for calls that generate no text to its first cycle.
func setAsides(row *record.ThinkAct, asides []*node) {
	if len(asides) == 0 {
		return
	}

	const mostNames = 100 // more do not fit into the description
	var cost *float64
	var names []string
	for _, a := range asides {
		cost = sum(cost, a.facts.CostUSD)
		name := cmp.Or(a.facts.Model, withoutMethod(a.Name))
		if len(names) < mostNames && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	row.CostUSD = cost

	start, end := timestamp(firstStart(asides)), timestamp(lastEnd(asides))
	if row.ActStartTime == nil || start != nil && start.Before(*row.ActStartTime) {
		row.ActStartTime = start
	}
	if *row.State != record.Running && (row.ActEndTime == nil || end != nil && end.After(*row.ActEndTime)) {
		row.ActEndTime = end
	}
	row.ActionDescription = optional.Pointer(
		field.Shorten("Paid calls of models that generate no text: "+strings.Join(names, ", "), 200),
	)
}

func setThink(row *record.ThinkAct, n *node) {
	f := n.facts
	row.ThinkStartTime, row.ThinkEndTime = timestamp(n.Start), timestamp(n.End)
	row.FirstTokenTime = timestamp(f.FirstToken)
	row.ThinkInput = optional.Pointer(withSystem(f.System, f.Input, f.asSent(f.Input)))
	row.ThinkOutput = optional.Pointer(f.thinkOutput)
	row.FinishReason, row.ResponseID = optional.Pointer(f.Finish), optionalID(f.ResponseID)
	row.SpanID = &n.id

	row.State = new(n.state())
	if *row.State == record.Failed {
		row.ErrorMessage, row.ErrorKind = n.failure()
	}
	setUsage(row, f)
	row.Metadata = metadata(appendTruncated([]byte{'{'}, n))
}

func setUsage(row *record.ThinkAct, f *Facts) {
	u := &f.Usage
	row.InputTokens, row.OutputTokens = u.Input, u.Output
	row.CacheReadInputTokens, row.ReasoningTokens = u.CacheRead, u.Reasoning
	row.CacheCreationInputTokens, row.CacheCreation1hInputTokens = u.CacheWrite, u.CacheWrite1h
	if row.InputTokens != nil && *row.InputTokens > record.MaxCount {
		row.InputTokens = new(int64(record.MaxCount))
	}

	row.CostUSD = f.CostUSD
	row.ModelName, row.Provider = optional.Pointer(f.Model), optional.Pointer(f.Provider)
}

// setAct derives from its tool calls when a cycle acted, and whether it still does.
func setAct(row *record.ThinkAct, calls []*toolCall) {
	ended, last := true, int64(0)
	for _, t := range calls {
		if !t.state.Terminal() {
			ended = false
			if *row.State == record.Completed {
				row.State = new(record.Running)
			}
		}
		if t.node == nil {
			continue
		}

		start := timestamp(t.node.Start)
		if row.ActStartTime == nil || start != nil && start.Before(*row.ActStartTime) {
			row.ActStartTime = start
		}
		last = max(last, t.node.End)

		// The span of a model call that has tool calls in it ends later than the model call.
		if t.node.model != nil && start != nil && row.ThinkEndTime != nil && start.Before(*row.ThinkEndTime) &&
			row.ThinkStartTime != nil && !start.Before(*row.ThinkStartTime) {
			row.ThinkEndTime = start
		}
	}
	if ended {
		row.ActEndTime = timestamp(last)
	}
}

// withSystem returns an input as it was sent with the system's instructions before the messages.
func withSystem(system, input, sent string) string {
	if system == "" {
		return sent
	}

	whole, messages := strings.TrimSpace(input), strings.TrimSpace(sent)
	isList := isJSON(whole)
	switch {
	case isList && whole[0] == '{': // a whole request has them already
		return sent
	case isList && memberText(firstElement(whole), "role") == "system":
		return messages
	}

	b := appendMember([]byte(`[{`), "role", "system")
	c := readChat(system)
	if s, ok := c.onlyText(); ok {
		b = appendMember(b, "content", s)
	} else {
		b = appendRaw(b, "content", asJSON(system))
	}
	b = append(b, '}')

	if messages != "" && !isList {
		b = appendMember(append(b, `,{`...), "role", "user")
		b = append(appendMember(b, "content", messages), '}')
	}

	rest := "]"
	if isList {
		rest = strings.TrimSpace(messages[1:])
	}
	if rest != "]" {
		b = append(b, ',')
	}
	return string(append(b, rest...))
}

func (p *projection) callRow(s *step, seq, i int) *record.ActTool {
	t := s.cycles[seq].calls[i]
	row := &record.ActTool{
		RootPlanID: p.trace, StepID: s.node.id, Seq: int64(seq), ToolCallID: t.id, CallIndex: new(int64(i)),
		State: new(t.state), Result: optional.Pointer(t.result),
	}

	id, name := t.request.id, t.request.name
	args, kind := t.request.args, ""
	message := cmp.Or(t.error, t.result)
	if n := t.node; n != nil {
		f := n.facts
		id, kind = cmp.Or(f.CallID, id), f.ErrorKind
		message = cmp.Or(f.ErrorMessage, message)
		// LangChain's spans have the bare value of a lone argument.
		if f.key != t.request.key || !isJSON(args) || isJSON(f.Arguments) {
			args = cmp.Or(f.Arguments, args)
		}
		name = cmp.Or(f.Tool, name)

		row.StartTime, row.EndTime = timestamp(n.Start), timestamp(n.End)
		if n.inferred {
			row.Inferred = new(true)
		} else {
			row.SpanID = &n.id
		}
		row.Metadata = metadata(appendTruncated([]byte{'{'}, n))
	} else {
		row.Inferred = new(true)
	}

	row.ProviderCallID = optionalID(id)
	row.Name, row.Parameters = optional.Pointer(name), optional.Pointer(args)
	if t.state == record.Failed {
		row.ErrorKind, row.ErrorMessage = optional.Pointer(cmp.Or(kind, "error")), optional.Pointer(message)
	}
	return row
}

// endTime is when a node ended, nil if it may not have.
func (n *node) endTime() *time.Time {
	switch {
	case !n.state().Terminal():
		return nil
	case n.Span != nil && !n.notAwaited:
		return timestamp(n.End)
	}
	return timestamp(lastEnd([]*node{n}))
}

// timestamp converts nanoseconds since 1970, nil for 0.
func timestamp(nanoseconds int64) *time.Time {
	if nanoseconds <= 0 {
		return nil
	}
	return new(time.Unix(0, nanoseconds).UTC())
}

// optionalID is [optional.Pointer] for ids. It shortens those that records would refuse.
func optionalID(s string) *string {
	return optional.Pointer(strings.TrimSpace(field.Shorten(clean(s), record.MaxIDBytes)))
}
