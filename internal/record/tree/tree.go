// Package tree builds the hierarchy of a plan from the flat rows of one query: steps under
// their plan, sub-plans under the step whose tool call started them, figures summed up. It
// does no I/O.
package tree

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// Link says how the parent of a sub-plan was found.
type Link string

// The links. A root plan has none.
const (
	LinkToolCall Link = "toolCall" // the step whose tool call started the sub-plan
	LinkInferred Link = "inferred" // that tool call is not on record: the most likely parent
)

// Plan is a plan with defaults applied, and everything below it.
type Plan struct {
	ID     int64
	Record record.Plan
	// Truncated names the fields that were cut.
	Truncated []string
	// PastAttempts are those before the record's own, in their order.
	PastAttempts []record.Attempt
	// ToolCall is the tool call that started the plan, if it is on record.
	ToolCall *ToolCall
	// ParentStepID is the step of the tool call that started the plan, if the row of that
	// tool call was dropped; else empty.
	ParentStepID string
	// Placeholder reports that nothing but the id of the plan was ever recorded: other records
	// named it.
	Placeholder bool
	// LastAttachedAt is the latest time of the waits and thoughts of the plan, or nil. It is not known of a
	// tree whose plans have all ended.
	LastAttachedAt *time.Time
	// AlsoUnder are other roots that have a plan of this id. Only the requested plan has them,
	// and only if it was requested without a root.
	AlsoUnder []string
	// Wait is the first open wait of the tree that somebody may still answer. Only the requested plan has it.
	Wait *record.Wait
	// StructureResult is the last tool result of a completed plan. Only the requested plan
	// has it.
	StructureResult *string

	// Build sets the fields below.

	Link  Link
	Steps []*Step
	// SubPlans are the sub-plans that belong to no step.
	SubPlans []*Plan
	// Waits are those of the plan, the oldest first. Only a skeleton has them.
	Waits []*record.Wait
	// Figures are those of the plan itself. Total includes all plans below it.
	Figures, Total Figures
	// LastSignOfLife is the latest time that was reported of a plan that has not ended, or of
	// anything below it: heartbeats, starts and ends, also of waits, and thoughts. It is nil for a plan
	// that has ended.
	LastSignOfLife *time.Time

	// Omitted is what [Plan.Cut] left out below the plan; nil if it left out nothing.
	Omitted *Omitted
}

// Omitted says which sub-plans are left out of a tree.
type Omitted struct {
	Plans int64 // how many, at any depth
	// PlanIDs are the plans whose sub-plans are left out, at most [MaxOmittedIDs].
	PlanIDs []string
}

// MaxOmittedIDs bounds the plans that [Omitted] names.
const MaxOmittedIDs = 20

// Step is an agent execution with figures summed up over its cycles.
type Step struct {
	ID              int64
	Record          record.AgentExecution
	Truncated       []string
	PastAttempts    []record.Attempt // those before the record's own, in their order
	Figures         Figures
	CompletedCycles int64
	LatestRound     int64
	LatestToolName  *string
	LatestToolArgs  *string
	// LastSeenAt is the latest time of the step's cycles and tool calls.
	LastSeenAt *time.Time
	// SubPlans are the sub-plans that the tool calls of the step started. Build sets them.
	SubPlans []*Plan
	// Omitted is how many of them [Plan.Cut] left out.
	Omitted int64
	// Cycles are set in the detail of a step and in a skeleton, not in a tree.
	Cycles []*Cycle
	// AlsoUnder are other roots that have a step of this id. They are set in the detail of a step
	// that was requested without a root.
	AlsoUnder []string
}

// Cycle is a think-act cycle with its tool calls, in order.
type Cycle struct {
	ID           int64
	Record       record.ThinkAct
	Truncated    []string
	PastAttempts []record.Attempt // as those of a step
	ToolCalls    []*ToolCall
}

// ToolCall is one tool call.
type ToolCall struct {
	ID           int64
	Record       record.ActTool
	Truncated    []string
	PastAttempts []record.Attempt // as those of a step
}

// Began returns when the first attempt at the step began, or nil. The place of a step follows
// from it, so that another attempt does not move the step.
func (s *Step) Began() *time.Time { return began(s.Record.StartTime, s.PastAttempts) }

// Began is for a tool call as for a step.
func (t *ToolCall) Began() *time.Time { return began(t.Record.StartTime, t.PastAttempts) }

func began(first *time.Time, past []record.Attempt) *time.Time {
	for i := range past {
		if t := past[i].StartTime; t != nil && (first == nil || t.Before(*first)) {
			first = t
		}
	}
	return first
}

// Figures are sums over model calls and tool calls. InputTokens includes cached tokens.
// CostUSD is nil if no cost is known. DurationMs is the [Duration]; of a step, that of its last
// attempt.
type Figures struct {
	ModelCalls               int64    `json:"modelCalls"`
	ToolCalls                int64    `json:"toolCalls"`
	Failures                 int64    `json:"failures"`
	InputTokens              int64    `json:"inputTokens"`
	OutputTokens             int64    `json:"outputTokens"`
	CacheReadInputTokens     int64    `json:"cacheReadInputTokens"`
	CacheCreationInputTokens int64    `json:"cacheCreationInputTokens"`
	ReasoningTokens          int64    `json:"reasoningTokens"`
	CostUSD                  *float64 `json:"costUsd"`
	ThinkMs                  int64    `json:"thinkMs"`
	ToolMs                   int64    `json:"toolMs"`
	DurationMs               *int64   `json:"durationMs"`
}

// add adds o to f, except for the duration, because durations overlap.
func (f *Figures) add(o *Figures) {
	f.ModelCalls += o.ModelCalls
	f.ToolCalls += o.ToolCalls
	f.Failures += o.Failures

	f.InputTokens += o.InputTokens
	f.OutputTokens += o.OutputTokens
	f.CacheReadInputTokens += o.CacheReadInputTokens
	f.CacheCreationInputTokens += o.CacheCreationInputTokens
	f.ReasoningTokens += o.ReasoningTokens

	f.ThinkMs += o.ThinkMs
	f.ToolMs += o.ToolMs
	switch {
	case f.CostUSD == nil:
		f.CostUSD = o.CostUSD
	case o.CostUSD != nil:
		f.CostUSD = new(*f.CostUSD + *o.CostUSD)
	}
}

// Duration returns end minus start in milliseconds. It returns nil until both are known, and if the
// end is before the start: the clocks that reported them disagree, so nothing is known.
func Duration(start, end *time.Time) *int64 {
	if start == nil || end == nil || end.Before(*start) {
		return nil
	}
	return new(end.Sub(*start).Milliseconds())
}

// Build nests the plans and steps of one root and returns the requested plan, or nil if it is
// not among them. It changes the nodes. Every plan and step gets a place in the tree, even if
// its links are wrong: a plan that is its own ancestor is placed directly under the root.
func Build(requested string, plans []*Plan, steps []*Step) *Plan {
	b := builder{
		plans:  make(map[string]*Plan, len(plans)),
		steps:  make(map[string]*Step, len(steps)),
		owners: make(map[*Plan]owner, len(plans)),
	}
	slices.SortFunc(plans, comparePlans)
	slices.SortFunc(steps, compareSteps)
	for _, p := range plans {
		b.plans[p.Record.CurrentPlanID] = p
		if p.Record.IsRoot() {
			b.root = p
		}
	}
	if b.root == nil {
		return nil
	}

	for _, s := range steps {
		s.Figures.DurationMs = Duration(s.Record.StartTime, s.Record.EndTime)
		b.steps[s.Record.StepID] = s
		p := b.planOf(s)
		p.Steps = append(p.Steps, s)
		p.Figures.add(&s.Figures)
	}
	for _, p := range plans {
		p.putPlanningFirst()
	}

	b.findOwners(plans)
	b.attach(plans)
	b.root.sum()
	return b.plans[requested]
}

// The executor whose runs plan themselves, and the agent of the step in which they do so. No other agent has its name.
const (
	orchestrator = "orchestrator"
	planner      = "ORCHESTRATOR"
)

// Planning returns the place in Steps of the one in which a run plans the others; -1: it has none. It is the first one
// where the tree is whole. On record its index is behind theirs, so that the first step of the plan has index 0.
func (p *Plan) Planning() int {
	if p.Record.Executor == nil || *p.Record.Executor != orchestrator {
		return -1
	}
	return slices.IndexFunc(p.Steps, func(s *Step) bool {
		return s.Record.AgentName != nil && *s.Record.AgentName == planner
	})
}

// putPlanningFirst puts the step in which a run is planned before those that were planned in it.
func (p *Plan) putPlanningFirst() {
	if at := p.Planning(); at > 0 {
		step := p.Steps[at]
		p.Steps = slices.Insert(slices.Delete(p.Steps, at, at+1), 0, step)
	}
}

// Nest puts cycles and tool calls, in any order, into their steps, in the order of what they did. It sorts them. A
// cycle without its step, and a call without its cycle, are left out: on record there is none.
func Nest(steps []*Step, cycles []*Cycle, calls []*ToolCall) {
	type key struct {
		step string
		seq  int64
	}

	byID := make(map[string]*Step, len(steps))
	for _, s := range steps {
		byID[s.Record.StepID] = s
	}

	byKey := make(map[key]*Cycle, len(cycles))
	for _, c := range cycles {
		if s := byID[c.Record.StepID]; s != nil {
			s.Cycles = append(s.Cycles, c)
			byKey[key{c.Record.StepID, c.Record.Seq}] = c
		}
	}

	for _, t := range calls {
		if c := byKey[key{t.Record.StepID, t.Record.Seq}]; c != nil {
			c.ToolCalls = append(c.ToolCalls, t)
		}
	}
	for _, s := range steps {
		slices.SortFunc(s.Cycles, func(a, b *Cycle) int { return cmp.Compare(a.Record.Seq, b.Record.Seq) })
		for _, c := range s.Cycles {
			slices.SortFunc(c.ToolCalls, compareCalls)
		}
	}
}

type builder struct {
	root   *Plan
	plans  map[string]*Plan
	steps  map[string]*Step
	owners map[*Plan]owner
}

// owner is the place of a sub-plan: under a step of a plan or, if step is nil, under the plan.
type owner struct {
	plan *Plan
	step *Step
	link Link
}

// MaxDepth limits how deep sub-plans are nested, because readers of the tree recurse.
const MaxDepth = 20_000

// findOwners finds an owner for every sub-plan. All chains of owners end at the root: a plan
// that is too deep is placed under the root, and so is the first plan of a cycle.
func (b *builder) findOwners(plans []*Plan) {
	for _, p := range plans {
		if p != b.root {
			b.owners[p] = b.findOwner(p)
		}
	}

	const onPath = -1 // the depth of the plans in path, until it is known
	depths := map[*Plan]int{b.root: 0}
	for _, p := range plans {
		var path []*Plan
		depth, seen := depths[p]
		for ; !seen; depth, seen = depths[p] {
			depths[p] = onPath
			path = append(path, p)
			p = b.owners[p].plan
		}

		if depth == onPath {
			cycle := path[slices.Index(path, p):]
			first := slices.Index(path, slices.MinFunc(cycle, comparePlans))
			b.owners[path[first]] = owner{plan: b.root, link: LinkInferred}
			// The plans after first now lead to it through the start of the cycle.
			path = slices.Concat(path[first+1:], path[:first+1])
		}

		for _, p := range slices.Backward(path) {
			depths[p] = depths[b.owners[p].plan] + 1
			if depths[p] > MaxDepth {
				b.owners[p] = owner{plan: b.root, link: LinkInferred}
				depths[p] = 1
			}
		}
	}
}

// findOwner finds the owner of a sub-plan by its own links.
func (b *builder) findOwner(p *Plan) owner {
	stepID := p.ParentStepID
	if p.ToolCall != nil {
		stepID = p.ToolCall.Record.StepID
	}
	if s := b.steps[stepID]; s != nil {
		return owner{plan: b.planOf(s), step: s, link: LinkToolCall}
	}

	var parent *Plan
	if id := p.Record.ParentPlanID; id != nil {
		parent = b.plans[*id]
	}
	if parent == nil {
		return owner{plan: b.root, link: LinkInferred}
	}
	return owner{plan: parent, step: likeliestStep(parent.Steps, p.Record.StartTime), link: LinkInferred}
}

func (b *builder) planOf(s *Step) *Plan {
	if p := b.plans[s.Record.PlanID]; p != nil {
		return p
	}
	return b.root
}

// likeliestStep returns the step that started last before t, else the first step, else nil.
func likeliestStep(steps []*Step, t *time.Time) *Step {
	var latest *Step
	for _, s := range steps {
		start := s.Began()
		if t != nil && start != nil && !start.After(*t) && (latest == nil || start.After(*latest.Began())) {
			latest = s
		}
	}

	if latest == nil && len(steps) > 0 {
		return steps[0]
	}
	return latest
}

// attach adds every sub-plan to the list of its owner. The plans are sorted, and so are the
// lists.
func (b *builder) attach(plans []*Plan) {
	for _, p := range plans {
		if p == b.root {
			continue
		}

		o := b.owners[p]
		p.Link = o.link
		if p.Record.Project == nil {
			p.Record.Project = b.root.Record.Project
		}

		siblings := &o.plan.SubPlans
		if o.step != nil {
			siblings = &o.step.SubPlans
		}
		*siblings = append(*siblings, p)
	}
}

// sum computes the totals of p and of all plans below it, and returns the latest time among them.
func (p *Plan) sum() *time.Time {
	p.Figures.DurationMs = Duration(p.Record.StartTime, p.Record.EndTime)
	p.Total = p.Figures
	last := latest(p.Record.LastSeenAt, p.Record.StartTime, p.Record.EndTime, p.LastAttachedAt)
	for _, s := range p.Steps {
		last = latest(last, s.LastSeenAt, s.Record.StartTime, s.Record.EndTime)
	}
	for c := range p.Children() {
		last = latest(last, c.sum())
		p.Total.add(&c.Total)
	}

	if !p.Record.State.Terminal() {
		p.LastSignOfLife = last
	}
	return last
}

// latest returns the latest of the times that are known.
func latest(times ...*time.Time) (last *time.Time) {
	for _, t := range times {
		if t != nil && (last == nil || t.After(*last)) {
			last = t
		}
	}
	return last
}

// Cut leaves out sub-plans that are nested more than depth levels below p. Figures and totals still
// include them. A plan whose sub-plans are left out, and p, say so in Omitted.
func (p *Plan) Cut(depth int) {
	var all Omitted
	p.cut(depth, &all)
	if all.Plans > 0 {
		p.Omitted = &all
	}
}

func (p *Plan) cut(depth int, all *Omitted) {
	if depth > 0 {
		for c := range p.Children() {
			c.cut(depth-1, all)
		}
		return
	}

	below := p.countBelow()
	if below == 0 {
		return
	}

	p.Omitted = &Omitted{Plans: below, PlanIDs: []string{p.Record.CurrentPlanID}}
	p.SubPlans = nil
	for _, s := range p.Steps {
		s.Omitted, s.SubPlans = int64(len(s.SubPlans)), nil
	}
	if all.Plans += below; len(all.PlanIDs) < MaxOmittedIDs {
		all.PlanIDs = append(all.PlanIDs, p.Record.CurrentPlanID)
	}
}

func (p *Plan) countBelow() (n int64) {
	for c := range p.Children() {
		n += 1 + c.countBelow()
	}
	return n
}

// Children returns the sub-plans that are directly below the plan: first those of its steps, in the order of the steps,
// then those without a known step.
func (p *Plan) Children() iter.Seq[*Plan] {
	return func(yield func(*Plan) bool) {
		for _, s := range p.Steps {
			for _, c := range s.SubPlans {
				if !yield(c) {
					return
				}
			}
		}
		for _, c := range p.SubPlans {
			if !yield(c) {
				return
			}
		}
	}
}

// CurrentStepIndex returns the position of the current step in Steps: if the plan has ended,
// the last step; else the first running step; else the first unfinished step; else the last
// step. Without steps it returns 0. The step in which an orchestrator plans goes on as long as those
// that it planned: it is the current one only while none of them is.
func (p *Plan) CurrentStepIndex() int {
	first := p.Planning() + 1
	running := func(s *Step) bool { return s.Record.State.Status() == record.StatusRunning }
	unfinished := func(s *Step) bool { return s.Record.State.Status() != record.StatusFinished }
	in := func(steps []*Step, at int) int {
		i := slices.IndexFunc(steps, running)
		if i < 0 {
			i = slices.IndexFunc(steps, unfinished)
		}
		if i < 0 {
			return -1
		}
		return at + i
	}

	i := in(p.Steps[first:], first)
	if i < 0 {
		i = in(p.Steps[:first], 0)
	}
	if i < 0 || p.Record.State.Terminal() {
		return max(0, len(p.Steps)-1)
	}
	return i
}

// Both orders are total and do not depend on the order in which rows arrived.

func comparePlans(a, b *Plan) int {
	return cmp.Or(
		CompareNullsLast(a.Record.StartTime, b.Record.StartTime, time.Time.Compare),
		strings.Compare(a.Record.CurrentPlanID, b.Record.CurrentPlanID),
	)
}

func compareSteps(a, b *Step) int {
	return cmp.Or(
		CompareNullsLast(a.Record.StepIndex, b.Record.StepIndex, cmp.Compare),
		CompareNullsLast(a.Began(), b.Began(), time.Time.Compare),
		strings.Compare(a.Record.StepID, b.Record.StepID),
	)
}

func compareCalls(a, b *ToolCall) int {
	return cmp.Or(
		cmp.Compare(a.Record.Seq, b.Record.Seq),
		CompareNullsLast(a.Record.CallIndex, b.Record.CallIndex, cmp.Compare),
		CompareNullsLast(a.Began(), b.Began(), time.Time.Compare),
		strings.Compare(a.Record.ToolCallID, b.Record.ToolCallID),
	)
}

// CompareNullsLast compares two values that may be nil. nil comes last.
func CompareNullsLast[T any](a, b *T, compare func(T, T) int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return compare(*a, *b)
}
