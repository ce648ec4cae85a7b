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

// What a new step shows for its agent if nothing else is known.
const (
	AgentNameDefault        = "Agent"
	AgentDescriptionDefault = "No description available"
)

// StepInfo is what is known of a step (an agent execution) when it is planned or started. Fields
// with their zero value are not reported.
type StepInfo struct {
	// ID is an id of your own, at most [record.MaxIDBytes] bytes. Default: a new one. The id of a
	// step that is on record goes on with that step.
	ID string
	// Requirement is "[AGENT_NAME] request", or a request without a name. AgentName and
	// AgentRequest are taken from it if they are empty.
	Requirement string

	AgentName        string // default, of a new step: [AgentNameDefault]
	AgentVersion     string
	AgentDescription string // default, of a new step: [AgentDescriptionDefault]
	AgentRequest     string
	// Index is the place among the steps of the plan, from 0. Default, of a new step: the next
	// one.
	Index *int64
	// MaxSteps is how many cycles the agent may take; 0: no limit is recorded.
	MaxSteps       int64
	Model          string
	ConversationID string // default: the plan's
	// Attempt counts from 1, the default. A higher one re-opens a step that is on record. In the
	// process that ran the last attempt, [Step.Retry] is simpler.
	Attempt  int64
	SpanID   string
	Metadata map[string]any // a JSON object
}

// Step is the handle of one attempt at a step.
type Step struct {
	reporter
	plan  *Plan
	id    string
	state *stepState

	mu    sync.Mutex
	start time.Time
}

// stepState is what the attempts at a step share.
type stepState struct {
	life
	mu      sync.Mutex
	index   *int64
	nextSeq int64
	attempt int64 // the highest
	cycles  lives[int64]
}

// StartStep records a step as RUNNING: a new one or, by [StepInfo.ID], one that is known already.
// The context that it returns carries the step's link. If the plan has ended, or this attempt at the
// step or a later one, the error wraps [record.ErrEnded].
func (p *Plan) StartStep(ctx context.Context, info StepInfo) (context.Context, *Step, error) {
	s, row, encodeErr := p.newStep(info)
	what := action{"start", s}
	if err := s.admit(what); err != nil {
		return ContextWithLink(ctx, s.Link()), s, err
	}

	s.begin(row)
	changes := []record.Change{row}
	if !p.knowsSteps { // of OpenPlan
		changes = append(changes, p.firstSign()...)
	}
	return ContextWithLink(ctx, s.Link()), s, withEncodeError(what, encodeErr, s.report(ctx, what, changes...))
}

// newStep returns a step's handle and its first change. Defaults are for new steps only: they must
// not overwrite what is on record.
func (p *Plan) newStep(info StepInfo) (*Step, *record.AgentExecution, error) {
	id, attempt := cmp.Or(info.ID, record.NewStepID()), max(info.Attempt, 1)
	p.mu.Lock()
	state, known := p.steps[id]
	isNew := !known && p.knowsSteps && attempt == 1
	if !known {
		state = &stepState{index: copied(info.Index)}
		p.steps[id] = state
	}

	if isNew {
		if state.index == nil {
			state.index = new(p.nextIndex)
		}
		p.nextIndex = max(p.nextIndex, *state.index+1)
	}
	p.mu.Unlock()

	name, request := parseRequirement(info.Requirement)
	name, description := cmp.Or(info.AgentName, name), info.AgentDescription
	if isNew {
		name, description = cmp.Or(name, AgentNameDefault), cmp.Or(description, AgentDescriptionDefault)
	}

	metadata, err := metadataOf(info.Metadata)
	s := p.attempt(id, attempt, state)
	row := s.row("")
	row.StepIndex = cmp.Or(copied(info.Index), state.index)
	row.ConversationID = optional(cmp.Or(info.ConversationID, p.conversation))
	row.AgentName = optional(name)
	row.AgentVersion = optional(info.AgentVersion)
	row.AgentDescription = optional(description)

	row.AgentRequest = optional(cmp.Or(info.AgentRequest, request))
	row.MaxSteps = optional(info.MaxSteps)
	row.ModelName = optional(info.Model)
	row.SpanID = optional(info.SpanID)
	row.Metadata = metadata
	return s, row, err
}

func (p *Plan) attempt(id string, attempt int64, state *stepState) *Step {
	state.reach(attempt)
	s := &Step{
		reporter: reporter{rec: p.rec, parent: &p.reporter, attempt: attempt, life: &state.life}, plan: p, id: id,
		state: state,
	}
	s.handle = s
	return s
}

// StepRef says which step [Plan.OpenStep] opens, and where to go on in it.
type StepRef struct {
	ID        string
	Attempt   int64     // as it is on record; default: 1
	Idle      bool      // the step is planned and has not started
	StartTime time.Time // as it is on record: the end is never before it
	// NextSeq is the Seq of the next new cycle: more than any on record. Default: 0, or what
	// follows the cycles that are opened.
	NextSeq int64
}

// OpenStep returns a handle of a step that is on record already, and sends nothing. The handle
// then behaves like one that [Plan.StartStep] returned or, if ref.Idle is set, like one of
// [Plan.Steps]: [Step.Start] or its first cycle starts it. The context that OpenStep returns
// carries the step's link.
func (p *Plan) OpenStep(ctx context.Context, ref StepRef) (context.Context, *Step) {
	p.mu.Lock()
	state, known := p.steps[ref.ID]
	if !known {
		state = new(stepState)
		p.steps[ref.ID] = state
	}
	p.mu.Unlock()

	state.skipTo(ref.NextSeq)
	s := p.attempt(ref.ID, max(ref.Attempt, 1), state)
	if !ref.Idle {
		s.start = cmp.Or(ref.StartTime, s.rec.now())
	}
	return ContextWithLink(ctx, s.Link()), s
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

// row returns a change of the step's row that only sets its state; "" sets none. Every change
// names the attempt, so that a late change of an attempt that was given up is recognised.
func (s *Step) row(state record.State) *record.AgentExecution {
	r := &struct {
		record.AgentExecution
		stamp
	}{stamp: s.stamp(s.attempt, state)}
	r.RootPlanID, r.PlanID = s.plan.link.RootPlanID, s.plan.link.PlanID
	r.StepID = s.id
	r.Rev, r.Attempt, r.State = r.pointers()
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

// Start records a planned step as RUNNING. The context that it returns carries the step's link. A
// step that was started already stays as it is. If it or its plan has ended, the error wraps
// [record.ErrEnded].
func (s *Step) Start(ctx context.Context) (context.Context, error) {
	what := action{"start", s}
	if err := s.open(); err != nil {
		return ContextWithLink(ctx, s.Link()), fmt.Errorf("%s: %w", what, err)
	}

	var changes []record.Change
	if row := s.row(""); s.begin(row) {
		changes = append(changes, row)
	}
	return ContextWithLink(ctx, s.Link()), s.report(ctx, what, changes...)
}

// startTime is zero if the step has not started.
func (s *Step) startTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start
}

// begin adds the start of the step to row, unless the step runs already.
func (s *Step) begin(row *record.AgentExecution) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.start.IsZero() {
		return false
	}
	s.start = s.rec.now()
	row.State, row.StartTime = new(record.Running), new(s.start)
	return true
}

// Retry starts the next attempt at the step and returns its handle: the step is RUNNING again,
// without end and error, and its time counts from now. How the earlier attempts went stays on
// record. The cycles of the step count on, so that those of earlier attempts stay as well. What
// the handle of an earlier attempt still reports about state, times and error counts for that
// attempt. A step of a plan that has ended is not re-opened: the error wraps [record.ErrEnded].
func (s *Step) Retry(ctx context.Context) (context.Context, *Step, error) {
	s.handUp(ctx) // the earlier attempt is rarely called again
	next := s.plan.attempt(s.id, s.state.nextAttempt(), s.state)
	if err := next.admit(action{"start", next}); err != nil {
		return ContextWithLink(ctx, next.Link()), next, err
	}
	ctx, err := next.Start(ctx)
	return ctx, next, err
}

// SetState records another state that does not end the step, such as [record.Paused] or
// [record.Waiting]. After the end of the step or its plan the error wraps [record.ErrEnded].
func (s *Step) SetState(ctx context.Context, state record.State) error {
	return s.setState(ctx, s, state, s.row(state))
}

// StepResult is how a step ended.
type StepResult struct {
	Result string
	// Err makes the state FAILED, or CANCELLED if it is [context.Canceled].
	Err error
	// State, if set, counts instead of the one that follows from Err: [record.Skipped] or
	// [record.Blocked], for example.
	State record.State
}

// End records how the step ended, as [Plan.End] does.
func (s *Step) End(ctx context.Context, result StepResult) error {
	return s.end(ctx, action{"end", s}, result.State, result.Err, func(o outcome) record.Change {
		row := s.row(o.state)
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.EndTime = new(notBefore(s.rec.now(), s.startTime()))
		row.Result = optional(result.Result)
		return row
	})
}

// Fail ends the step with err, as [Plan.Fail] does.
func (s *Step) Fail(ctx context.Context, err error) error {
	return failed(err, s.End(ctx, StepResult{Err: err, State: failState(err)}))
}

// Close is the safety net below End, as [Plan.Close] is.
func (s *Step) Close(ctx context.Context) error {
	return s.close(ctx, recover(), func(ctx context.Context, err error) error { return s.End(ctx, StepResult{Err: err}) })
}

func (s *stepState) reach(attempt int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = max(s.attempt, attempt)
}

func (s *stepState) nextAttempt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt++
	return s.attempt
}

func (s *stepState) cycle(seq int64) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cycles.of(seq)
}

// claimSeq returns the number of a new cycle: the given one, or the next. A cycle that is not
// admitted leaves the number to another.
func (s *stepState) claimSeq(given *int64, admitted bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq := s.nextSeq
	if given != nil {
		seq = *given
	}
	if admitted {
		s.nextSeq = max(s.nextSeq, seq+1)
	}
	return seq
}

// skipTo makes seq the number of the next cycle, unless that is higher already.
func (s *stepState) skipTo(seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextSeq = max(s.nextSeq, seq)
}
