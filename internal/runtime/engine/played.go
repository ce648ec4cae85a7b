package engine

import (
	"context"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// Played is the record of a run that is played again in a database where nothing is of that run. Its models and tools
// answer from the record, see [OffRecordError].
type Played struct {
	// PlanID is the id of the run: the run that is started has it, too. So all rows have the ids of those on record.
	PlanID string
	// Steps are the ids of the steps on record.
	Steps map[string]bool
	// SubPlans are the runs that calls started, the last one of each, by the ids of the calls.
	SubPlans map[string]string
	// Versions are the thoughts of [Run.Version] on record, by their ids.
	Versions map[string]*record.Thought
	// Messages are what cycles have read, by the ids of their steps.
	Messages map[string]map[int64][]record.SteeringMessage
	// Tool returns what answers from the record in place of a tool that only waits.
	Tool func(tool.Tool) tool.Tool
}

type playedKey struct{}

// ContextWithPlayed returns a context in which the run that is started, and what a worker carries, is played from a
// record.
func ContextWithPlayed(ctx context.Context, p *Played) context.Context {
	return context.WithValue(ctx, playedKey{}, p)
}

func playedIn(ctx context.Context) *Played {
	p, _ := ctx.Value(playedKey{}).(*Played)
	return p
}

// rootID returns the id of a root run that is started.
func rootID(ctx context.Context) string {
	if p := playedIn(ctx); p != nil {
		return p.PlanID
	}
	return record.NewPlanID()
}

// subPlan returns the run that a call started; empty: none is on record.
func (p *Played) subPlan(toolCallID string) string {
	if p == nil {
		return ""
	}
	return p.SubPlans[toolCallID]
}

// version returns what is on record of a version, and whether the record came to where it is asked for. nil and true:
// the record passed there without one.
func (p *Played) version(id, nextStep string) (mark *record.Thought, decided bool) {
	if p == nil {
		return nil, false
	}
	mark = p.Versions[id]
	return mark, mark != nil || p.Steps[nextStep]
}

// messages returns what a cycle has read.
func (p *Played) messages(stepID string, seq int64) []record.SteeringMessage {
	if p == nil {
		return nil
	}
	return p.Messages[stepID][seq]
}

// Asked is where a model is asked. The context of the request has it.
type Asked struct {
	StepID string
	Agent  string // of the step
	Seq    int64
}

type askedKey struct{}

// AskedIn returns where the model is asked that a context belongs to.
func AskedIn(ctx context.Context) (at Asked, ok bool) {
	at, ok = ctx.Value(askedKey{}).(Asked)
	return at, ok
}

// OffRecordError is the error of a model or a tool that answers from a record, and finds nothing there. The run waits,
// as if its code did not fit its own record.
type OffRecordError struct{}

func (*OffRecordError) Error() string { return "the record has no answer" }
