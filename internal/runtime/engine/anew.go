package engine

import (
	"strconv"
	"strings"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// place is where a row stands in the order in which the code of a run works: all that is nil or empty is before all
// else.
type place struct {
	step int64 // its index
	seq  int64
	call int64 // its index
}

// anew opens a run whose code does other things than are on record, so that it makes the row that differs, and all
// after it, anew. at is that row.
func (o *reopening) anew(planID, at string) {
	o.nextPlan(planID)
	for _, w := range o.waits[planID] { // of a call that is made anew
		o.add(&record.Wait{
			RootPlanID: o.root(), PlanID: planID, WaitID: w.ID, State: new(record.Cancelled), EndTime: &o.at,
		})
	}

	from := o.placeOf(planID, at)
	for _, s := range o.steps[planID] {
		if s.Index < from.step {
			continue
		}

		o.nextStep(s)
		for _, c := range o.cycles[s.StepID] {
			o.cycleAnew(s, c, from)
		}
	}
}

// cycleAnew opens a cycle of a step if it is not before a place, with those of its calls that are not.
func (o *reopening) cycleAnew(s, c runstore.TreeRow, from place) {
	if s.Index == from.step && c.Seq < from.seq {
		return
	}

	first := s.Index == from.step && c.Seq == from.seq
	if answerStays := first && from.call >= 0; answerStays || !o.asks(c) {
		o.goOn(c)
	} else {
		o.askAgain(c)
	}

	for _, t := range o.callsOf(c) {
		if !first || t.Index >= from.call {
			o.callAnew(t)
		}
	}
}

// callAnew opens a call that is made as if it had never been.
func (o *reopening) callAnew(c runstore.TreeRow) {
	next := &record.ActTool{
		RootPlanID: o.root(), StepID: c.StepID, Seq: c.Seq, ToolCallID: c.ID, Attempt: new(c.Attempt + 1),
		State: new(record.Pending), Result: new(""),
	}
	forget(c, next)
	o.add(next)
	if sub, began := o.lastBegan(c.ID); began && !o.plans[sub].State.Terminal() { // it would go on beside the new one
		o.open.Stopped = append(o.open.Stopped, sub)
	}
}

// placeOf returns the place of a row of a plan, such as call:STEP/SEQ/CALL. What is not found is after all that is
// there: then nothing is made anew but what is not on record yet.
func (o *reopening) placeOf(planID, at string) place {
	kind, id, _ := strings.Cut(at, ":")
	stepID, rest, _ := strings.Cut(id, "/")
	seq, callID, _ := strings.Cut(rest, "/")
	for _, s := range o.steps[planID] {
		if s.StepID != stepID {
			continue
		}

		from := place{step: s.Index, call: -1}
		if kind == "step" {
			return from
		}
		from.seq, _ = strconv.ParseInt(seq, 10, 64) // it is one of ours
		for _, t := range o.calls[cycleAt{stepID, from.seq}] {
			if kind == "call" && t.ID == callID {
				from.call = t.Index
			}
		}
		return from
	}

	steps := o.steps[planID]
	if len(steps) == 0 {
		return place{}
	}
	return place{step: steps[len(steps)-1].Index + 1}
}
