// Package tree builds the hierarchy of a plan from the flat rows of one query:
// steps under their plan, sub-plans under the step whose tool call started them,
// figures rolled up. Pure functions, no I/O.
package tree

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// Link says how a sub-plan came to the place where it hangs.
type Link string

// The links. A root plan has none.
const (
	LinkToolCall Link = "toolCall" // under the step whose tool call started it
	LinkInferred Link = "inferred" // that tool call is not on record: the likeliest place
)

// Plan is a plan as it is read: what was told, with defaults applied, and what
// hangs under it.
type Plan struct {
	ID     int64
	Record record.Plan
	// Truncated names the fields that were cut.
	Truncated []string
	// ToolCall is the tool call that started the plan, where it is on record.
	ToolCall *ToolCall
	// ParentStepID is the step that the plan hung under when its tool call's row
	// was dropped; else empty.
	ParentStepID string
	// Wait is the open wait of the tree, on the plan that was asked for.
	Wait *record.Wait
	// StructureResult is the last tool result of a completed plan, on the plan
	// that was asked for.
	StructureResult *string

	// What follows is set by Build.

	Link  Link
	Steps []*Step
	// SubPlans are those that no step could own.
	SubPlans []*Plan
	// Figures are the plan's own, Total includes those of all plans beneath it.
	Figures, Total Figures
}

// Step is an agent execution as it is read, with the roll-ups of its cycles.
type Step struct {
	ID              int64
	Record          record.AgentExecution
	Truncated       []string
	Figures         Figures
	CompletedCycles int64
	LatestRound     int64
	LatestToolName  *string
	LatestToolArgs  *string
	// SubPlans are those that a tool call of the step started. Set by Build.
	SubPlans []*Plan
	// Cycles are there in the detail of a step, not in a tree.
	Cycles []*Cycle
}

// Cycle is a think-act cycle with its tool calls, in order.
type Cycle struct {
	ID        int64
	Record    record.ThinkAct
	Truncated []string
	ToolCalls []*ToolCall
}

// ToolCall is a tool call as it is read.
type ToolCall struct {
	ID        int64
	Record    record.ActTool
	Truncated []string
	Inferred  bool
}

// Figures are sums over model and tool calls. Tokens of the input include cached
// ones; CostUSD is nil where no cost is known; DurationMs is end minus start in
// milliseconds, nil until both are known.
type Figures struct {
	ModelCalls, ToolCalls, Failures                int64
	InputTokens, OutputTokens                      int64
	CacheReadInputTokens, CacheCreationInputTokens int64
	ReasoningTokens                                int64
	CostUSD                                        *float64
	ThinkMs, ToolMs                                int64
	DurationMs                                     *int64
}

// add adds o's sums to f. Durations do not add up: they overlap.
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
	if o.CostUSD != nil {
		sum := *o.CostUSD
		if f.CostUSD != nil {
			sum += *f.CostUSD
		}
		f.CostUSD = &sum
	}
}

// Duration is end minus start in milliseconds, nil until both are known.
func Duration(start, end *time.Time) *int64 {
	if start == nil || end == nil {
		return nil
	}
	return new(end.Sub(*start).Milliseconds())
}

// Build nests the plans and steps of one root and gives the plan that was asked
// for, or nil where it is not among them. It takes the nodes over. Every plan and
// step hangs somewhere, whatever their links say: a plan that is its own ancestor
// hangs on the root.
func Build(asked string, plans []*Plan, steps []*Step) *Plan {
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
		p := b.plans[s.Record.PlanID]
		if p == nil {
			p = b.root
		}
		p.Steps = append(p.Steps, s)
		p.Figures.add(&s.Figures)
	}
	b.own(plans)
	b.hang(plans)
	b.root.sum()
	return b.plans[asked]
}

type builder struct {
	root   *Plan
	plans  map[string]*Plan
	steps  map[string]*Step
	owners map[*Plan]owner
}

// owner is where a sub-plan hangs: under a step of a plan, or on the plan itself.
type owner struct {
	plan *Plan
	step *Step
	link Link
}

// own finds an owner for every sub-plan, by which all of them lead to the root.
func (b *builder) own(plans []*Plan) {
	for _, p := range plans {
		if p != b.root {
			b.owners[p] = b.find(p)
		}
	}
	// A chain of owners that comes back to itself never reaches the root. The
	// first of its plans is hung there instead.
	const unknown, onPath, rooted = 0, 1, 2
	marks := map[*Plan]int{b.root: rooted}
	for _, start := range plans {
		var path []*Plan
		for p := start; marks[p] != rooted; p = b.owners[p].plan {
			if marks[p] == onPath {
				ring := path[slices.Index(path, p):]
				first := slices.MinFunc(ring, comparePlans)
				b.owners[first] = owner{plan: b.root, link: LinkInferred}
				break
			}
			marks[p] = onPath
			path = append(path, p)
		}
		for _, p := range path {
			marks[p] = rooted
		}
	}
	b.limitDepth(plans)
}

// maxDepth bounds how deep sub-plans nest in an answer: whoever reads it recurses.
const maxDepth = 20_000

// limitDepth hangs plans that lie too deep on the root.
func (b *builder) limitDepth(plans []*Plan) {
	depths := map[*Plan]int{b.root: 0}
	for _, p := range plans {
		var path []*Plan
		for known := false; !known; {
			if _, known = depths[p]; !known {
				path = append(path, p)
				p = b.owners[p].plan
			}
		}
		for _, p := range slices.Backward(path) {
			depth := depths[b.owners[p].plan] + 1
			if depth > maxDepth {
				b.owners[p] = owner{plan: b.root, link: LinkInferred}
				depth = 1
			}
			depths[p] = depth
		}
	}
}

// find tells where a sub-plan belongs by its own links.
func (b *builder) find(p *Plan) owner {
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
	switch {
	case parent == nil:
		return owner{plan: b.root, link: LinkInferred}
	case len(parent.Steps) == 0:
		return owner{plan: parent, link: LinkInferred}
	}
	return owner{plan: parent, step: likeliestStep(parent.Steps, p.Record.StartTime), link: LinkInferred}
}

func (b *builder) planOf(s *Step) *Plan {
	if p := b.plans[s.Record.PlanID]; p != nil {
		return p
	}
	return b.root
}

// likeliestStep is the one that had started last before t, else the first.
func likeliestStep(steps []*Step, t *time.Time) *Step {
	likeliest := steps[0]
	var latest *time.Time
	for _, s := range steps {
		start := s.Record.StartTime
		if t == nil || start == nil || start.After(*t) || latest != nil && !start.After(*latest) {
			continue
		}
		likeliest, latest = s, start
	}
	return likeliest
}

func (b *builder) hang(plans []*Plan) {
	for _, p := range plans { // in order, so every list is
		o, ok := b.owners[p]
		if !ok {
			continue
		}
		p.Link = o.link
		if p.Record.Project == nil {
			p.Record.Project = b.root.Record.Project
		}
		if o.step != nil {
			o.step.SubPlans = append(o.step.SubPlans, p)
		} else {
			o.plan.SubPlans = append(o.plan.SubPlans, p)
		}
	}
}

// sum rolls the figures up from below.
func (p *Plan) sum() {
	p.Figures.DurationMs = Duration(p.Record.StartTime, p.Record.EndTime)
	p.Total = p.Figures
	for c := range p.Children() {
		c.sum()
		p.Total.add(&c.Total)
	}
}

// Children gives the sub-plans that hang directly under the plan, in order of
// its steps.
func (p *Plan) Children() func(yield func(*Plan) bool) {
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

// CurrentStepIndex is the position in Steps of the one that the plan is at: the
// last when the plan has ended; else the first that runs; else the first that has
// not finished; else the last. 0 without steps.
func (p *Plan) CurrentStepIndex() int {
	last := max(0, len(p.Steps)-1)
	if p.Record.State.Terminal() {
		return last
	}
	for _, want := range []func(record.Status) bool{
		func(s record.Status) bool { return s == record.StatusRunning },
		func(s record.Status) bool { return s != record.StatusFinished },
	} {
		if i := slices.IndexFunc(p.Steps, func(s *Step) bool { return want(s.Record.State.Status()) }); i >= 0 {
			return i
		}
	}
	return last
}

// The order of everything is total, and says nothing of arrival.

func comparePlans(a, b *Plan) int {
	return cmp.Or(
		CompareNullsLast(a.Record.StartTime, b.Record.StartTime, time.Time.Compare),
		strings.Compare(a.Record.CurrentPlanID, b.Record.CurrentPlanID),
	)
}

func compareSteps(a, b *Step) int {
	return cmp.Or(
		CompareNullsLast(a.Record.StepIndex, b.Record.StepIndex, cmp.Compare),
		CompareNullsLast(a.Record.StartTime, b.Record.StartTime, time.Time.Compare),
		strings.Compare(a.Record.StepID, b.Record.StepID),
	)
}

// CompareNullsLast compares what may be unknown.
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
