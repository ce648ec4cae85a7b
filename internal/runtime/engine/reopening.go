package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// reopening opens again what a retry of a run makes another attempt at. What has a result stays as it is.
type reopening struct {
	runTree
	at        time.Time
	executors map[string]Executor

	open runstore.Opened
}

func newReopening(rows []runstore.TreeRow, at time.Time, executors map[string]Executor) *reopening {
	return &reopening{
		runTree: treeOf(rows), at: at, executors: executors,
		open: runstore.Opened{Limits: map[string]json.RawMessage{}, CallAttempts: map[string]int64{}},
	}
}

// plan opens a plan that has ended, and what in it ended with it or made it end.
func (o *reopening) plan(id string) {
	o.nextPlan(id)
	broken := o.broken(id)
	for _, s := range broken {
		o.step(s)
	}
	if len(broken) > 0 {
		o.conclusion(id)
	}
}

// conclusion opens the step that answers with what came of the others, if it has done so.
func (o *reopening) conclusion(planID string) {
	concluding, ok := o.executors[o.plans[planID].Executor].(Concluding)
	if !ok {
		return
	}

	for _, s := range o.steps[planID] {
		cycles := o.cycles[s.StepID]
		if s.Index == int64(concluding.ConcludesIn()) && s.State == record.Completed && len(cycles) > 0 {
			o.nextStep(s)
			o.askAgain(cycles[len(cycles)-1])
		}
	}
}

// broken returns the steps of a plan that are to be tried again: those that were begun and not completed, and those
// that were not begun because of others. If the code decides what follows a step that failed, it has done so for all
// but the last.
func (o *reopening) broken(planID string) []runstore.TreeRow {
	steps := o.steps[planID]
	if _, ok := o.executors[o.plans[planID].Executor].(Sequential); ok && len(steps) > 0 {
		steps = steps[len(steps)-1:]
	}

	return slices.DeleteFunc(slices.Clone(steps), func(s runstore.TreeRow) bool {
		rejected := s.State == record.Skipped && s.StartTime != nil // by a person
		return s.State == record.Completed || rejected
	})
}

// step opens a step, and in it what ended because the run did, or else what made the step fail.
func (o *reopening) step(s runstore.TreeRow) {
	o.nextStep(s)
	cycles := o.cycles[s.StepID]
	if len(cycles) == 0 {
		return
	}

	last := cycles[len(cycles)-1]
	switch cut := slices.DeleteFunc(slices.Clone(o.callsOf(last)), func(c runstore.TreeRow) bool { return !wasCut(c) }); {
	case o.asks(last) && !isAnswered(last):
		o.askAgain(last)
	case len(cut) > 0:
		o.goOn(last)
		for _, c := range cut {
			o.call(c)
		}
	case last.State == record.Failed: // the model refused
		o.askAgain(last)
	case !o.endedWithPlan(s):
		o.failedByItself(s, cycles)
	}
}

// failedByItself opens what made a step fail in which all was done: the calls that failed since the last answer of
// the model; or that answer, if none of its calls was made, and the step did not fail because nobody answered a
// question.
func (o *reopening) failedByItself(s runstore.TreeRow, cycles []runstore.TreeRow) {
	from := len(cycles) - 1
	for from > 0 && !o.asks(cycles[from]) {
		from--
	}

	made := false
	for _, cycle := range cycles[from:] {
		failed := slices.DeleteFunc(slices.Clone(o.callsOf(cycle)), func(c runstore.TreeRow) bool { return !mayWork(c) })
		if len(failed) == 0 {
			continue
		}
		made = true
		o.goOn(cycle)
		for _, c := range failed {
			o.call(c)
		}
	}

	answer, isLast := cycles[from], from == len(cycles)-1
	begun := func(c runstore.TreeRow) bool { return c.StartTime != nil }
	if !made && isLast && s.ErrorKind != WaitTimedOut && o.asks(answer) &&
		!slices.ContainsFunc(o.callsOf(answer), begun) {
		o.askAgain(answer)
	}
}

// endedWithPlan reports whether a step ended because its plan did.
func (o *reopening) endedWithPlan(s runstore.TreeRow) bool {
	p := o.plans[s.PlanID]
	return s.EndTime != nil && p.EndTime != nil && s.EndTime.Equal(*p.EndTime)
}

// asks reports whether a cycle is one in which a model is asked, and not one for calls of the executor.
func (o *reopening) asks(c runstore.TreeRow) bool {
	return c.StartTime != nil || c.HasMessage || len(o.callsOf(c)) == 0
}

func isAnswered(c runstore.TreeRow) bool { return c.EndTime != nil && c.HasMessage }

// wasCut reports whether a call ended without a result of its own, because the run did, or that below it was stopped.
func wasCut(c runstore.TreeRow) bool {
	return c.State == record.Cancelled || c.State != record.Completed && c.State != record.Failed && !c.HasResult
}

// mayWork reports whether a call may work in another attempt: it failed, or nobody answered in time.
func mayWork(c runstore.TreeRow) bool {
	return c.State == record.Failed && c.StartTime != nil || c.ErrorKind == WaitTimedOut
}

// call opens a call. One whose outcome is unknown stays as it is: its policy says what follows.
func (o *reopening) call(c runstore.TreeRow) {
	if c.State == record.Unknown {
		return
	}

	next := &record.ActTool{
		RootPlanID: o.root(), StepID: c.StepID, Seq: c.Seq, ToolCallID: c.ID, Attempt: new(c.Attempt + 1),
		State: new(record.Pending), Result: new(""),
	}
	if !wasCut(c) {
		forget(c, next)
	}
	if sub, began := o.lastBegan(c.ID); began && o.plans[sub].State != record.Completed { // it goes on with its run
		next.State, next.StartTime = new(record.Running), &o.at
		o.open.CallAttempts[sub] = *next.Attempt
		o.plan(sub)
	}
	o.add(next)
}

// forget empties what is only of the attempt of a call before the next one: what it had asked, and how far it had
// come.
func forget(c runstore.TreeRow, next *record.ActTool) {
	if c.HasMetadata {
		next.Metadata = json.RawMessage(`{}`)
	}
	if c.HasProgress {
		next.Progress = progressJSON(record.Progress{})
	}
}

// askAgain opens a cycle whose model is asked again.
func (o *reopening) askAgain(c runstore.TreeRow) {
	o.add(&record.ThinkAct{
		RootPlanID: o.root(), StepID: c.StepID, Seq: c.Seq, Attempt: new(c.Attempt + 1), State: new(record.Pending),
	})
}

// goOn opens a cycle whose answer stays, and of whose calls some are made again.
func (o *reopening) goOn(c runstore.TreeRow) {
	o.add(&record.ThinkAct{
		RootPlanID: o.root(), StepID: c.StepID, Seq: c.Seq, Attempt: new(c.Attempt + 1), State: new(record.Running),
		ThinkStartTime: c.StartTime, ThinkEndTime: c.EndTime, FirstTokenTime: c.FirstTokenTime,
	})
}

func (o *reopening) nextPlan(id string) {
	p := o.plans[id]
	o.open.Plans = append(o.open.Plans, id)
	o.open.Limits[id] = p.Limits
	o.add(&record.Plan{
		RootPlanID: o.root(), CurrentPlanID: id, Attempt: new(p.Attempt + 1), State: new(record.Pending),
	})
}

func (o *reopening) nextStep(s runstore.TreeRow) {
	o.add(&record.AgentExecution{ // the attempt is that of the plan, which is higher than any of its steps has
		RootPlanID: o.root(), PlanID: s.PlanID, StepID: s.StepID, Attempt: new(o.plans[s.PlanID].Attempt + 1),
		State: new(record.Pending),
	})
}

func (o *reopening) add(c record.Change) { o.open.Changes = append(o.open.Changes, c) }
