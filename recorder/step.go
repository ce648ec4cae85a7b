package recorder

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// What stands for the agent of a step where nothing else is known.
const (
	AgentNameDefault        = "Agent"
	AgentDescriptionDefault = "No description available"
)

// StepInfo is what is known of a step (an agent execution) when it is planned or
// started. What is left at its zero value is not told.
type StepInfo struct {
	// ID is an id of your own, at most [record.MaxIDBytes] bytes. Default: a new
	// one. The id of a step that is on record goes on with that step.
	ID string
	// Requirement is "[AGENT_NAME] request", or a request without a name: what
	// AgentName and AgentRequest are taken from where they are empty.
	Requirement string

	AgentName        string // default, of a new step: [AgentNameDefault]
	AgentVersion     string
	AgentDescription string // default, of a new step: [AgentDescriptionDefault]
	AgentRequest     string
	// Index is the place among the steps of the plan, from 0. Default, of a new
	// step: the next one.
	Index *int64
	// MaxSteps is how many cycles the agent may take; 0: no limit is told.
	MaxSteps       int64
	Model          string
	ConversationID string // default: the plan's
	// Attempt counts from 1, the default. A higher one re-opens a step that is on
	// record. In the process that ran the last attempt, [Step.Retry] is simpler.
	Attempt  int64
	SpanID   string
	Metadata map[string]any // a JSON object
}

// Step is the handle of one attempt at a step.
type Step struct {
	t       teller
	plan    *Plan
	id      string
	attempt int64
	state   *stepState

	mu    sync.Mutex
	start time.Time
}

// stepState is what the attempts at a step share.
type stepState struct {
	mu      sync.Mutex
	index   *int64
	nextSeq int64
	attempt int64 // the highest
}

// StartStep puts a step on record as RUNNING: a new one, or, by [StepInfo.ID], one
// that is known already. The context that it gives carries the step's link.
func (p *Plan) StartStep(ctx context.Context, info StepInfo) (context.Context, *Step, error) {
	s, row, unencoded := p.newStep(info)
	s.begin(row)
	what := doing{"starting", s}
	changes := []record.Change{row}
	if !p.whole {
		changes = append(changes, p.takeUp()...)
	}
	return ContextWithLink(ctx, s.Link()), s, withUnencoded(what, unencoded, s.t.tell(ctx, what, changes...))
}

// newStep makes a step's handle and what is told of it. Defaults are for steps
// that are new: they must not overwrite what is on record.
func (p *Plan) newStep(info StepInfo) (*Step, *record.AgentExecution, error) {
	s := &Step{
		t:       teller{rec: p.t.rec, parent: &p.t},
		plan:    p,
		id:      cmp.Or(info.ID, record.NewStepID()),
		attempt: max(info.Attempt, 1),
	}
	p.mu.Lock()
	state, known := p.steps[s.id]
	if !known {
		state = &stepState{index: copied(info.Index)}
		p.steps[s.id] = state
		if p.whole && s.attempt == 1 {
			if state.index == nil {
				state.index = new(p.nextIndex)
			}
			p.nextIndex = max(p.nextIndex, *state.index+1)
		}
	}
	p.mu.Unlock()
	s.state = state

	name, request := parseRequirement(info.Requirement)
	name, request = cmp.Or(info.AgentName, name), cmp.Or(info.AgentRequest, request)
	description := info.AgentDescription
	if p.whole && !known && s.attempt == 1 {
		name, description = cmp.Or(name, AgentNameDefault), cmp.Or(description, AgentDescriptionDefault)
	}
	index := state.index
	if info.Index != nil {
		index = copied(info.Index)
	}
	metadata, err := metadataOf(info.Metadata)
	row := s.row("")
	row.StepIndex = index
	row.ConversationID = said(cmp.Or(info.ConversationID, p.conversation))
	row.AgentName = said(name)
	row.AgentVersion = said(info.AgentVersion)
	row.AgentDescription = said(description)
	row.AgentRequest = said(request)
	row.MaxSteps = said(info.MaxSteps)
	row.ModelName = said(info.Model)
	row.SpanID = said(info.SpanID)
	row.Metadata = metadata
	return s, row, err
}

// parseRequirement reads "[AGENT_NAME] request".
func parseRequirement(s string) (name, request string) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if name, request, ok := strings.Cut(rest, "]"); ok {
			return strings.TrimSpace(name), strings.TrimSpace(request)
		}
	}
	return "", s
}

// row makes a change of the step's row that says nothing yet. Each names the
// attempt, so that what a given-up attempt says late is known as such.
func (s *Step) row(state record.State) *record.AgentExecution {
	r := &struct { // see Cycle.row
		record.AgentExecution
		rev, attempt int64
		state        record.State
	}{rev: s.t.rec.nextRev(), attempt: s.attempt, state: state}
	if state != "" {
		r.State = &r.state
	}
	r.RootPlanID, r.StepID, r.PlanID = s.plan.link.RootPlanID, s.id, s.plan.link.PlanID
	r.Rev, r.Attempt = &r.rev, &r.attempt
	return &r.AgentExecution
}

func (s *Step) name() string { return "step " + s.id }

// ID is the step's id.
func (s *Step) ID() string { return s.id }

// Attempt is the number of this attempt, from 1.
func (s *Step) Attempt() int64 { return s.attempt }

// Link is the step's link.
func (s *Step) Link() Link {
	link := s.plan.link
	link.StepID = s.id
	return link
}

// Start puts a planned step on record as RUNNING. The context that it gives
// carries the step's link. A step that was started already stays as it is.
func (s *Step) Start(ctx context.Context) (context.Context, error) {
	what := doing{"starting", s}
	if s.t.hasEnded() && s.isIdle() {
		return ContextWithLink(ctx, s.Link()), fmt.Errorf("%s: it has ended", what)
	}
	var changes []record.Change
	if row := s.row(""); s.begin(row) {
		changes = append(changes, row)
	}
	return ContextWithLink(ctx, s.Link()), s.t.tell(ctx, what, changes...)
}

// isIdle tells whether the step was never begun by this handle.
func (s *Step) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start.IsZero()
}

// begin adds to row that the step runs from now on, unless it does already.
func (s *Step) begin(row *record.AgentExecution) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.start.IsZero() {
		return false
	}
	s.start = s.t.rec.now()
	row.State, row.StartTime = new(record.Running), new(s.start)
	return true
}

// Retry starts the next attempt at the step and gives its handle: the step is
// RUNNING again, without end and error. Its cycles count on, so that those of
// earlier attempts stay on record. What the handle of an earlier attempt says
// about state, end and error from now on is not taken.
func (s *Step) Retry(ctx context.Context) (context.Context, *Step, error) {
	s.t.handUp(ctx) // hardly anyone calls the attempt before again
	next := &Step{
		t:       teller{rec: s.t.rec, parent: &s.plan.t},
		plan:    s.plan,
		id:      s.id,
		attempt: s.state.nextAttempt(s.attempt),
		state:   s.state,
	}
	ctx, err := next.Start(ctx)
	return ctx, next, err
}

// SetState tells that the step is in another state that does not end it, such as
// [record.Paused] or [record.Waiting].
func (s *Step) SetState(ctx context.Context, state record.State) error {
	what := doing{"setting the state of", s}
	if err := checkLive(what, state); err != nil {
		return err
	}
	return s.t.send(ctx, what, s.row(state))
}

// StepResult is how a step ended.
type StepResult struct {
	Result string
	// Err makes the state FAILED, or CANCELLED where it is [context.Canceled].
	Err error
	// State, where it is given, counts instead of the one that follows from Err:
	// [record.Skipped] and [record.Blocked], for example.
	State record.State
}

// End records how the step ended, even after ctx was cancelled. The first end
// counts; to call it again after an error tries again to record that.
func (s *Step) End(ctx context.Context, result StepResult) error {
	what := doing{"ending", s}
	if err := checkEnd(what, result.State); err != nil {
		return err
	}
	return s.t.end(ctx, what, func() []record.Change {
		s.mu.Lock()
		start := s.start
		s.mu.Unlock()
		o := outcomeOf(result.State, result.Err)
		row := s.row(o.state)
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.EndTime = new(notBefore(s.t.rec.now(), start))
		row.Result = said(result.Result)
		return []record.Change{row}
	})
}

// Fail ends the step with err and gives err back, joined by what the recording
// itself met: return step.Fail(ctx, err).
func (s *Step) Fail(ctx context.Context, err error) error {
	return failed(err, s.End(ctx, StepResult{Err: err, State: failState(err)}))
}

// Close is the net below End: defer it right after the start. It does nothing
// after End or Fail. Else it records FAILED with the panic that it finds, which
// goes on, or INTERRUPTED. Within another deferred function it finds no panic.
func (s *Step) Close(ctx context.Context) error {
	return s.t.close(ctx, recover(), func(ctx context.Context, err error) error { return s.End(ctx, StepResult{Err: err}) })
}

// nextAttempt gives the number of the next attempt, whichever one's handle asks.
func (s *stepState) nextAttempt(present int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = max(s.attempt, present) + 1
	return s.attempt
}

// claimSeq gives the number of the next cycle.
func (s *stepState) claimSeq(given *int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq := s.nextSeq
	if given != nil {
		seq = *given
	}
	s.nextSeq = max(s.nextSeq, seq+1)
	return seq
}
