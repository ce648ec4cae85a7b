package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Fork starts a run that has the rows of another one before a row as its own, and goes on from there, with the
// definition of the other one. The error is a [*record.InvalidError] that names the field, a
// [*runstore.NotEndedError], or one of [runstore.Store.Fork].
func (e *Engine) Fork(ctx context.Context, r ForkRequest) (Started, error) {
	parts, release := e.config.Parts()
	defer release()
	if err := r.Changes.check(parts); err != nil {
		return Started{}, err
	}
	if err := e.checkTools(ctx, parts, optional.Value(r.Changes.Tools)); err != nil {
		return Started{}, err
	}

	var run runstore.NewRun
	sum := hash(append([]byte(r.PlanID+"\n"), r.Body...))
	err := e.store.Fork(ctx, runstore.Fork{
		PlanID: r.PlanID, At: r.At, By: r.By, Messages: r.Changes.cycles(),
		Starter: r.Starter, IdempotencyKey: r.IdempotencyKey, RequestSHA256: sum,
		Cut: func(original runstore.Forkable) (runstore.Forked, error) {
			f := &forking{
				engine: e, parts: parts, request: r, original: original, runTree: treeOf(original.Rows),
				goesOn: map[string]spot{}, copied: map[string]copied{}, planOf: map[string]string{},
			}
			if err := f.cut(); err != nil {
				return runstore.Forked{}, err
			}
			run = f.out.Runs[0]
			return f.out, nil
		},
	})
	return started(run, sum, err)
}

// checkTools checks that somebody has each of the tools that an agent is to have.
func (e *Engine) checkTools(ctx context.Context, parts Parts, tools []string) error {
	a := define.Agent{Tools: tools}
	needs := a.Definition("", define.DefinitionModel{}, Provided(parts, "mcp"), nil).Needs()
	missing := func(provides []string) {
		needs = slices.DeleteFunc(needs, func(need string) bool {
			return !strings.HasPrefix(need, "tool:") || slices.Contains(provides, need)
		})
	}
	if missing(parts.Provides()); len(needs) == 0 {
		return nil
	}

	workers, err := e.store.LiveWorkers(ctx)
	for _, w := range workers {
		missing(w.Provides)
	}
	if err == nil && len(needs) > 0 {
		err = BadInput("changes.tools", shortText(strings.TrimPrefix(needs[0], "tool:"))+" is no tool of any worker")
	}
	return err
}

func (f *forking) cut() error {
	if err := f.find(); err != nil {
		return err
	}

	f.root = record.NewPlanID()
	if _, err := uuid.Parse(f.request.PlanID); err == nil { // its clients read its id as one
		f.root = uuid.Must(uuid.NewV7()).String()
	}
	f.out.Copy.From, f.out.Copy.To = f.request.PlanID, f.root

	run, err := f.newRoot()
	if err != nil {
		return err
	}
	if err := f.goOn(f.request.PlanID, f.root, run); err != nil {
		return err
	}
	return f.changeRows()
}

// find finds the row from which the fork goes on, and the calls that it is below.
func (f *forking) find() error {
	at, ok := f.spotOf(f.request.At)
	if !ok {
		return BadInput("at", "is no step, cycle or tool call of the run, such as cycle:STEP/SEQ")
	}

	f.at = at
	for here := at; ; {
		planID := here.step.PlanID
		f.goesOn[planID] = here
		plan, known := f.plans[planID]
		if _, isRun := f.original.Runs[planID]; !known || !isRun {
			return BadInput("at", "is a copy in a run below: go on from the run that it is a copy of")
		}
		if planID == f.request.PlanID {
			return nil
		}

		above, ok := f.callSpot(plan.ID)
		if !ok || f.goesOn[above.step.PlanID].step.StepID != "" {
			return BadInput("at", "is in a run below of which the tool call is not on record")
		}
		above.into = planID
		here = above
	}
}

// spotOf finds a row by its address.
func (f *forking) spotOf(address string) (at spot, ok bool) {
	kind, path, _ := strings.Cut(address, ":")
	stepID, rest, _ := strings.Cut(path, "/")
	seq, callID, hasCall := strings.Cut(rest, "/")
	if at.step, ok = f.stepRow(stepID); !ok {
		return at, false
	}

	switch {
	case kind == "step" && path == stepID:
		return at, true
	case kind == "cycle" && !hasCall, kind == "call" && hasCall:
		n, err := strconv.ParseInt(seq, 10, 64)
		if err != nil || seq != strconv.FormatInt(n, 10) || !f.setCycle(&at, n) {
			return at, false
		}
		return at, kind == "cycle" || f.setCall(&at, callID)
	}
	return at, false
}

func (f *forking) stepRow(id string) (runstore.TreeRow, bool) {
	for _, steps := range f.steps {
		for _, s := range steps {
			if s.StepID == id {
				return s, true
			}
		}
	}
	return runstore.TreeRow{}, false
}

func (f *forking) setCycle(at *spot, seq int64) bool {
	for _, c := range f.cycles[at.step.StepID] {
		if c.Seq == seq {
			at.cycle = &c
			return true
		}
	}
	return false
}

func (f *forking) setCall(at *spot, id string) bool {
	for _, c := range f.callsOf(*at.cycle) {
		if c.ID == id {
			at.call = &c
			return true
		}
	}
	return false
}

// callSpot returns the spot of a call of which only the id is known.
func (f *forking) callSpot(id string) (at spot, ok bool) {
	for _, calls := range f.calls {
		for _, c := range calls {
			if c.ID != id {
				continue
			}
			at.step, ok = f.stepRow(c.StepID)
			return at, ok && f.setCycle(&at, c.Seq) && f.setCall(&at, id)
		}
	}
	return at, false
}

// newRoot returns the run of the fork itself, and puts its plan into what is written.
func (f *forking) newRoot() (run runstore.NewRun, err error) {
	run = f.original.Runs[f.request.PlanID]
	run.Starter = f.request.Starter // those below it have the same
	limits, err := readLimits(run.Limits)
	if err != nil {
		return run, fmt.Errorf("read the limits of run %s: %w", f.request.PlanID, err)
	}
	f.request.Changes.Limits.replace(&limits)
	run.Limits = limits.json()

	plan := f.original.Root
	plan.RootPlanID, plan.CurrentPlanID = f.root, f.root
	plan.State, plan.ForkedFrom = new(record.Pending), new("plan:"+f.request.PlanID)
	plan.Release = optional.Pointer(f.engine.config.Release)
	run.Owner = cmp.Or(optional.Value(plan.UserID), f.root)

	if err := f.changeRequest(&run, &plan); err != nil {
		return run, err
	}
	f.out.Root = &plan
	return run, nil
}

// goOn adds a run that goes on in the fork: what is before its spot is copied.
func (f *forking) goOn(planID, newID string, run runstore.NewRun) error {
	run.RootPlanID, run.PlanID = f.root, newID
	if err := f.changeDefinition(planID, &run); err != nil {
		return err
	}
	f.out.Runs = append(f.out.Runs, run)

	at := f.goesOn[planID]
	f.out.Copy.Attached = append(f.out.Copy.Attached, store.ForkedAttached{
		PlanID: planID, NewPlanID: newID, Until: at.row().BeganAt,
	})
	for _, s := range f.steps[planID] {
		switch {
		case s.Index < at.step.Index:
			if err := f.copyStep(s, newID); err != nil {
				return err
			}
		case s.StepID == at.step.StepID && at.cycle != nil:
			return f.goOnIn(at, newID, run)
		}
	}
	return nil
}

// goOnIn adds a step in which the fork goes on.
func (f *forking) goOnIn(at spot, newPlanID string, run runstore.NewRun) error {
	stepID := f.addStep(at.step, newPlanID, true)
	for _, c := range f.cycles[at.step.StepID] {
		switch {
		case c.Seq < at.cycle.Seq:
			if err := f.copyCycle(c, stepID); err != nil {
				return err
			}
		case c.Seq == at.cycle.Seq && at.call != nil:
			return f.goOnAfter(at, stepID, run)
		case c.Seq == at.cycle.Seq:
			f.out.Reads = &runstore.ForkReading{
				Cycle: runstore.Cycle{StepID: c.StepID, Seq: c.Seq}, NewPlanID: newPlanID, NewStepID: stepID,
			}
		}
	}
	return nil
}

// goOnAfter adds a cycle whose answer stays, with the calls before one that is made anew, or below which the fork goes
// on.
func (f *forking) goOnAfter(at spot, newStepID string, run runstore.NewRun) error {
	if at.cycle.StartTime != nil && !isAnswered(*at.cycle) {
		return &runstore.NotEndedError{At: addressOf(*at.cycle)}
	}
	f.addCycle(*at.cycle, newStepID, true)
	for _, c := range f.callsOf(*at.cycle) {
		if c.Index < at.call.Index {
			if err := f.copyCall(c, newStepID); err != nil {
				return err
			}
		}
	}
	if at.into == "" {
		return nil
	}

	callID := f.addCall(*at.call, newStepID, true)
	below, err := f.below(at.into)
	if err != nil {
		return err
	}

	below.Owner, below.Starter = run.Owner, run.Starter
	below.Parent = &runstore.ParentCall{PlanID: run.PlanID, StepID: newStepID, Seq: at.cycle.Seq, ToolCallID: callID}
	newID := derive("subplan-", callID)
	f.out.Copy.Plans = append(f.out.Copy.Plans, store.ForkedPlan{
		ID: at.into, NewID: newID, ParentID: run.PlanID, ToolCallID: callID, Opens: true,
	})
	return f.goOn(at.into, newID, below)
}

// below returns a run below the root in which the fork goes on, with its limits as those of the root are changed.
func (f *forking) below(planID string) (runstore.NewRun, error) {
	run := f.original.Runs[planID]
	was, err := readLimits(f.original.Runs[f.request.PlanID].Limits)
	if err != nil {
		return run, fmt.Errorf("read the limits of run %s: %w", f.request.PlanID, err)
	}

	limits, err := readLimits(run.Limits)
	if err != nil {
		return run, fmt.Errorf("read the limits of run %s: %w", planID, err)
	}
	run.Limits = f.request.Changes.Limits.below(limits, was).json()
	return run, nil
}

// copyStep copies a step with all that is below it.
func (f *forking) copyStep(s runstore.TreeRow, newPlanID string) error {
	if !s.State.Terminal() {
		return &runstore.NotEndedError{At: addressOf(s)}
	}
	id := f.addStep(s, newPlanID, false)
	for _, c := range f.cycles[s.StepID] {
		if err := f.copyCycle(c, id); err != nil {
			return err
		}
	}
	return nil
}

func (f *forking) copyCycle(c runstore.TreeRow, newStepID string) error {
	if !c.State.Terminal() {
		return &runstore.NotEndedError{At: addressOf(c)}
	}
	f.addCycle(c, newStepID, false)
	for _, call := range f.callsOf(c) {
		if err := f.copyCall(call, newStepID); err != nil {
			return err
		}
	}
	return nil
}

func (f *forking) copyCall(c runstore.TreeRow, newStepID string) error {
	if !c.State.Terminal() {
		return &runstore.NotEndedError{At: addressOf(c)}
	}
	id := f.addCall(c, newStepID, false)
	for _, planID := range f.began[c.ID] {
		if err := f.copyPlan(planID, id, newStepID); err != nil {
			return err
		}
	}
	return nil
}

// copyPlan copies a plan that a call began. In the fork it is no run.
func (f *forking) copyPlan(planID, newCallID, newStepID string) error {
	if !f.plans[planID].State.Terminal() {
		return &runstore.NotEndedError{At: "plan:" + planID}
	}
	newID := derive("subplan-", f.root, planID)
	f.out.Copy.Plans = append(f.out.Copy.Plans, store.ForkedPlan{
		ID: planID, NewID: newID, ParentID: f.planOf[newStepID], ToolCallID: newCallID,
	})
	f.out.Copy.Attached = append(f.out.Copy.Attached, store.ForkedAttached{PlanID: planID, NewPlanID: newID})

	for _, s := range f.steps[planID] {
		if err := f.copyStep(s, newID); err != nil {
			return err
		}
	}
	return nil
}

func (f *forking) addStep(s runstore.TreeRow, newPlanID string, opens bool) string {
	id := derive("step-", newPlanID, s.Index)
	f.planOf[id] = newPlanID
	f.out.Copy.Steps = append(f.out.Copy.Steps, store.ForkedStep{
		ID: s.StepID, NewID: id, PlanID: newPlanID, Opens: opens,
	})
	return id
}

func (f *forking) addCycle(c runstore.TreeRow, newStepID string, opens bool) {
	f.copied[addressOf(c)] = copied{stepID: newStepID}
	f.out.Copy.Cycles = append(f.out.Copy.Cycles, store.ForkedCycle{
		StepID: c.StepID, Seq: c.Seq, NewStepID: newStepID, Opens: opens,
	})
}

func (f *forking) addCall(c runstore.TreeRow, newStepID string, opens bool) string {
	id := derive("toolcall-", newStepID, c.Seq, c.Index)
	f.out.Copy.Calls = append(f.out.Copy.Calls, store.ForkedCall{
		StepID: c.StepID, Seq: c.Seq, ID: c.ID, NewStepID: newStepID, NewID: id, Opens: opens,
	})
	if !opens {
		f.copied[addressOf(c)] = copied{newStepID, id}
	}
	return id
}

// addressOf returns the address of a step, a cycle or a tool call.
func addressOf(r runstore.TreeRow) string {
	switch r.Kind {
	case record.KindThinkAct:
		return fmt.Sprintf("cycle:%s/%d", r.StepID, r.Seq)
	case record.KindActTool:
		return fmt.Sprintf("call:%s/%d/%s", r.StepID, r.Seq, r.ID)
	}
	return "step:" + r.StepID
}
