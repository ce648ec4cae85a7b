package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// StepInfo says what a step is, as it is put on record when it begins.
type StepInfo struct {
	Agent       string
	Description string
	Request     string
	Model       string // its name in the configuration
	MaxSteps    int
	// ConversationID is the session in which the agent talks; empty: none of its own.
	ConversationID string
	Metadata       json.RawMessage
}

// Step is the handle of a step: one agent working on one step of a plan.
type Step struct {
	run     *Run
	id      string
	info    StepInfo
	attempt *int64 // nil: the first
	began   time.Time
	copied  int // how many of its cycles are copies of those of another run

	mu     sync.Mutex
	cycles map[int64]*cycle
	last   []model.Message // of the last request
	// ended is how the step ended; nil: it has not.
	ended *record.AgentExecution
	told  tolds // what its model was told besides what the executor tells it
	hears bool  // the executor asks whether it is to go on, see [Step.OnceMore]
}

// cycle is what is on record of a cycle.
type cycle struct {
	record     record.ThinkAct
	calls      map[string]*record.ActTool  // by their ids
	past       map[string][]record.Attempt // of these, before the one that they are at
	endWritten bool                        // its end is on record, or with the next write
}

// Step begins a step of the run, or goes on with it. If it has ended, [Step.Ended] says how.
func (r *Run) Step(ctx context.Context, index int, info StepInfo) (*Step, error) {
	if err := r.boundary(ctx); err != nil {
		return nil, err
	}
	s := &Step{run: r, id: r.stepID(index), info: info, cycles: map[int64]*cycle{}}
	known, err := r.openStep(ctx, s)
	switch {
	case errors.Is(err, record.ErrNotFound):
		s.beginAnew(index)
		return s, nil
	case err != nil:
		return nil, err
	}

	s.attempt = known.Record.Attempt
	if !r.isAnew(known.Record.Attempt, *known.Record.State, known.Record.StartTime) && !r.forksIn(&known.Record) {
		if err := s.sameStep(index, &known.Record); err != nil {
			return nil, err
		}
	}
	s.read(known)

	switch state := *known.Record.State; {
	case state.Terminal():
		s.ended, s.began = &known.Record, optional.Value(known.Record.StartTime)
		r.noteException(optional.Value(known.Record.ErrorKind), optional.Value(known.Record.ErrorMessage))
	case known.Record.StartTime == nil: // it was opened again, or goes on from another run
		s.beginAnew(index)
	case state != record.Running:
		row := s.row()
		row.State = new(record.Running)
		r.addLater(row)
		fallthrough
	default:
		s.began = *known.Record.StartTime
	}
	return s, nil
}

// beginAnew puts the beginning of the step on record, with the next thing that is.
func (s *Step) beginAnew(index int) {
	s.began = s.run.now()
	row := s.row()
	row.State, row.StartTime = new(record.Running), &s.began
	s.run.describe(row, index, s.info)
	s.run.addLater(row)
}

// read takes what is on record of the cycles of the step.
func (s *Step) read(known *tree.Step) {
	for _, c := range known.Cycles {
		have := &cycle{
			record: c.Record, calls: map[string]*record.ActTool{}, past: map[string][]record.Attempt{},
			endWritten: c.Record.State.Terminal() && (len(c.ToolCalls) == 0 || c.Record.ActionResult != nil),
		}
		switch {
		case c.Record.ForkedFrom != nil:
			s.copied++
		case c.Record.ThinkStartTime != nil || slices.ContainsFunc(c.PastAttempts, hasStarted):
			s.run.count(1, 0)
		}
		for _, t := range c.ToolCalls {
			have.calls[t.Record.ToolCallID], have.past[t.Record.ToolCallID] = &t.Record, t.PastAttempts
			if t.Record.ForkedFrom == nil && begun(&t.Record, t.PastAttempts) {
				s.run.count(0, 1)
			}
		}
		s.cycles[c.Record.Seq] = have
	}
}

func hasStarted(a record.Attempt) bool { return a.StartTime != nil }

// isAnew reports whether a row that has no start was opened again so that the code makes it anew, whatever it was
// before.
func (r *Run) isAnew(attempt *int64, state record.State, start *time.Time) bool {
	return r.run.Anew && optional.Value(attempt) > 1 && state == record.Pending && start == nil
}

// forksIn reports whether the run goes on in a step of another run, which it has not begun itself. What that was asked
// may have been changed.
func (r *Run) forksIn(s *record.AgentExecution) bool {
	return r.run.IDsOf != "" && s.StartTime == nil && s.Attempt == nil && *s.State == record.Pending
}

// openStep notes that a step is open, and returns what is on record of it. The error is [record.ErrNotFound] if
// nothing is.
func (r *Run) openStep(ctx context.Context, s *Step) (*tree.Step, error) {
	r.mu.Lock()
	again := r.opened[s.id]
	if r.opened == nil {
		r.opened = map[string]bool{}
	}
	r.opened[s.id] = true
	r.open = append(r.open, s.inState)
	r.mu.Unlock()

	switch {
	case again: // what it has done may not be on record yet
		if err := r.Save(); err != nil {
			return nil, err
		}
	case r.isNew():
		return nil, record.ErrNotFound
	}
	return r.engine.store.StepDetail(ctx, r.run.RootPlanID, s.id)
}

// Do does a step of the run, unless it has ended, and returns it with its result. The error is a [*RunError] if the
// step failed, of which [OfRun] says whether the run goes on.
func (r *Run) Do(
	ctx context.Context, index int, info StepInfo, work func(*Step) (string, error),
) (*Step, string, error) {
	step, err := r.Step(ctx, index, info)
	if err != nil {
		return nil, "", err
	}
	if text, ended, err := step.Ended(); ended {
		return step, text, err
	}

	text, err := work(step)
	failure, ok := errors.AsType[*RunError](err)
	if err == nil || ok && !OfRun(err) {
		step.End(text, failure)
	}
	return step, text, err
}

// stepID returns the id of the step of an index.
func (r *Run) stepID(index int) string { return derive("step-", r.run.PlanID, index) }

func (r *Run) describe(row *record.AgentExecution, index int, info StepInfo) {
	row.StepIndex, row.ConversationID = new(int64(index)), optional.Pointer(info.ConversationID)
	told := optional.Pointer[string]
	if r.run.Anew { // it may be in the place of another step, which had what this one has not
		told = func(text string) *string { return &text }
	}
	row.AgentName, row.ModelName = told(info.Agent), told(info.Model)
	row.AgentDescription = told(r.redact(info.Description))
	row.AgentRequest = told(r.redact(info.Request))

	if info.MaxSteps > 0 {
		row.MaxSteps = new(int64(info.MaxSteps))
	}
	if info.Metadata != nil {
		row.Metadata = json.RawMessage(r.redact(string(info.Metadata)))
	}
}

// Skip puts a step on record that is not carried out, as SKIPPED or BLOCKED, with the next thing that is. why
// says why, and may be empty.
func (r *Run) Skip(index int, info StepInfo, state record.State, why string) {
	row := &record.AgentExecution{
		RootPlanID: r.run.RootPlanID, PlanID: r.run.PlanID, StepID: r.stepID(index),
		Attempt: r.plan.Attempt, State: &state,
	}
	r.describe(row, index, info)
	row.ErrorMessage = optional.Pointer(r.redact(why))
	r.addLater(row)
}

// sameStep returns an error if a step is on record with another agent or another request than it has now.
func (s *Step) sameStep(index int, known *record.AgentExecution) error {
	asked := &record.AgentExecution{RootPlanID: known.RootPlanID, PlanID: known.PlanID, StepID: known.StepID}
	s.run.describe(asked, index, s.info)
	cleaned, _, err := field.Clean(asked)
	if err != nil {
		return err
	}
	now := cleaned.(*record.AgentExecution)

	at := "step:" + s.id
	if was, is := optional.Value(known.AgentName), optional.Value(now.AgentName); was != is {
		return s.run.mismatch(at, "step %d is on record with %s, not %s", index+1, agentOf(was), agentOf(is))
	}
	was, is := s.run.redact(optional.Value(known.AgentRequest)), optional.Value(now.AgentRequest)
	if was != is && Comparable(was) != Comparable(is) {
		return s.run.mismatch(at, "step %d is on record with the request %q, not %q", index+1,
			shortText(was), shortText(is))
	}
	return nil
}

func agentOf(name string) string {
	if name == "" {
		return "no agent"
	}
	return fmt.Sprintf("the agent %q", name)
}

// count adds to what the run has begun.
func (r *Run) count(rounds, calls int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds, r.calls = r.rounds+rounds, r.calls+calls
}

// begun reports whether a call counts as one that was made: this attempt began, or one before it.
func begun(t *record.ActTool, past []record.Attempt) bool {
	return t.StartTime != nil || slices.ContainsFunc(past, hasStarted)
}

// Copied returns how many cycles of the step are copies of those of another run. They count in no limit.
func (s *Step) Copied() int { return s.copied }

// ID returns the id of the step.
func (s *Step) ID() string { return s.id }

// Recorded reports whether the answer of a cycle is on record, and whether all of its calls have ended.
func (s *Step) Recorded(seq int64) (answered, acted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cycles[seq]
	if c == nil || c.record.ThinkEndTime == nil || c.record.Message == nil {
		return false, false
	}

	for _, t := range c.calls {
		if !t.State.Terminal() {
			return true, false
		}
	}
	return true, true
}

// Ended reports whether the step has ended, with its result. The error is a [*RunError] if it failed.
func (s *Step) Ended() (result string, ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		return "", false, nil
	}
	if *s.ended.State != record.Completed {
		return "", true, &RunError{
			Kind: optional.Value(s.ended.ErrorKind), Message: optional.Value(s.ended.ErrorMessage), State: *s.ended.State,
		}
	}
	return optional.Value(s.ended.Result), true, nil
}

// Called returns how a call of a cycle stands, with the kind of its error; empty: there is no such call.
func (s *Step) Called(seq int64, index int) (state record.State, errorKind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cycles[seq]; c != nil {
		if call := c.calls[derive("toolcall-", s.id, seq, index)]; call != nil {
			return *call.State, optional.Value(call.ErrorKind)
		}
	}
	return "", ""
}

// End ends the step with its result, or with a failure. It is put on record with the next thing that is, at
// the latest with the end of the run.
func (s *Step) End(result string, failure *RunError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return
	}

	end := s.row()
	end.State, end.EndTime = new(record.Completed), new(s.run.noteStepEnd())
	if failure != nil {
		end.State = new(failure.state())
		end.ErrorKind, end.ErrorMessage = optional.Pointer(failure.Kind), optional.Pointer(s.run.redact(failure.Message))
		s.run.noteException(failure.Kind, failure.Message)
	} else {
		end.Result = new(s.run.redact(result))
	}

	s.ended = end
	s.run.addLater(s.endCycles()...)
	if again, ok := s.askAgain(); ok && failure == nil {
		s.run.addEnd(stepEnd{s.id, again}, end)
		return
	}
	s.run.addLater(end)
}

// askAgain returns what lets the agent of the step, which is done, be asked once more: another attempt of its last
// cycle, unless the executor goes on with another one. ok is false if it cannot be asked. The caller holds s.mu.
func (s *Step) askAgain() (changes []record.Change, ok bool) {
	if s.hears {
		return nil, true
	}
	var last *cycle
	for _, c := range s.cycles {
		if last == nil || c.record.Seq > last.record.Seq {
			last = c
		}
	}

	if last == nil || last.record.Message == nil || len(last.calls) > 0 {
		return nil, false
	}
	return []record.Change{&record.ThinkAct{
		RootPlanID: s.run.run.RootPlanID, StepID: s.id, Seq: last.record.Seq,
		Attempt: new(max(optional.Value(last.record.Attempt), 1) + 1), State: new(record.Pending),
	}}, true
}

// Took returns how long the step took; 0: it has not ended.
func (s *Step) Took() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil || s.ended.EndTime == nil || s.began.IsZero() {
		return 0
	}
	return s.ended.EndTime.Sub(s.began)
}

// inState returns the row of the step in a state; nil if the step has ended.
func (s *Step) inState(state record.State) *record.AgentExecution {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return nil
	}
	row := s.row()
	row.State = &state
	return row
}

func (s *Step) row() *record.AgentExecution {
	return &record.AgentExecution{
		RootPlanID: s.run.run.RootPlanID, PlanID: s.run.run.PlanID, StepID: s.id, Attempt: s.attempt,
	}
}

// endCycles ends the cycles whose calls have all ended. The caller holds s.mu.
func (s *Step) endCycles() (changes []record.Change) {
	for _, c := range s.cycles {
		if c.endWritten || c.record.ThinkStartTime != nil && c.record.ThinkEndTime == nil {
			continue
		}

		if end := s.actEnd(c); end != nil {
			c.endWritten = true
			changes = append(changes, end)
		}
	}
	return changes
}

// actEnd returns the change that ends a cycle; nil while one of its calls has not ended.
func (s *Step) actEnd(c *cycle) *record.ThinkAct {
	calls := slices.SortedFunc(maps.Values(c.calls), func(a, b *record.ActTool) int {
		return cmp.Compare(*a.CallIndex, *b.CallIndex)
	})
	if slices.ContainsFunc(calls, func(t *record.ActTool) bool { return !t.State.Terminal() }) {
		return nil
	}

	end := &record.ThinkAct{
		RootPlanID: s.run.run.RootPlanID, StepID: s.id, Seq: c.record.Seq, Attempt: c.record.Attempt,
		State: new(record.Completed),
	}
	var results []string
	for _, t := range calls {
		if t.EndTime != nil && (end.ActEndTime == nil || t.EndTime.After(*end.ActEndTime)) {
			end.ActEndTime = t.EndTime
		}
		if began := c.began(t); began != nil && (end.ActStartTime == nil || began.Before(*end.ActStartTime)) {
			end.ActStartTime = began
		}
		results = append(results, *t.Name+": "+tool.Cut(resultOf(t).Text, maxActionResult))
	}

	if end.ActStartTime == nil { // none of them was made
		end.ActStartTime = end.ActEndTime
	}
	if len(results) > 0 {
		end.ActionResult = new(strings.Join(results, "\n"))
	}
	return end
}

// began returns when the first attempt of a call began; nil: none did.
func (c *cycle) began(t *record.ActTool) *time.Time {
	for _, a := range c.past[t.ToolCallID] {
		if a.StartTime != nil {
			return a.StartTime
		}
	}
	return t.StartTime
}

// maxActionResult bounds what the cycle itself says of the result of a call, which has it whole.
const maxActionResult = 500

// newInput returns the messages that the last request did not have: those after the answer to it. If
// the request does not begin as the last one did, all are new.
func (s *Step) newInput(messages []model.Message) []model.Message {
	known := len(s.last)
	if known == 0 || len(messages) <= known || !reflect.DeepEqual(s.last, messages[:known]) {
		return messages
	}

	fresh := messages[known:]
	if fresh[0].Role == model.RoleAssistant { // the answer stands in its cycle
		fresh = fresh[1:]
	}
	return fresh
}

// recordedInput returns what is recorded of a request: its new messages as JSON, and the number of characters of the
// whole request.
func (s *Step) recordedInput(messages []model.Message) (newMessages *string, totalChars *int64) {
	fresh := s.newInput(messages)
	if len(fresh) == 0 {
		fresh = []model.Message{}
	}
	b, err := json.Marshal(fresh)
	if err != nil { // only invalid raw JSON gets here: record why instead of failing the call
		b = []byte(err.Error())
	}
	return new(string(b)), new(charsOf(messages))
}

func charsOf(messages []model.Message) (count int64) {
	for _, m := range messages {
		for _, p := range m.Parts {
			count += int64(utf8.RuneCountInString(p.Text))
			if p.Call != nil {
				count += int64(utf8.RuneCountInString(p.Call.Arguments))
			}
			if p.Result != nil {
				count += int64(utf8.RuneCountInString(p.Result.Text))
			}
		}
	}
	return count
}

// resultOf returns a result that is on record.
func resultOf(row *record.ActTool) tool.Result {
	r := tool.Result{Failed: *row.State != record.Completed, Text: optional.Value(row.Result)}
	var kept struct{ Summary string }
	if json.Unmarshal(row.Metadata, &kept) == nil { // without a summary there is nothing
		r.Summary = kept.Summary
	}
	return r
}
