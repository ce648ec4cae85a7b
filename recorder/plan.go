package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// PlanInfo is what is known of a plan when it starts. Fields with their zero value are not
// reported.
type PlanInfo struct {
	// ID is an id of your own, at most [record.MaxIDBytes] bytes. Default: a new one. Starting a
	// plan of the same id again updates what is on record.
	ID string
	// Root makes a root plan even if ctx carries the link of a tool call.
	Root bool

	Name        string // the kind of plan, for filters and reports
	Title       string
	UserRequest string // the user's own words
	// Steps are those that are known beforehand. They are recorded as IDLE together with the plan,
	// in this order. [Plan.Steps] returns their handles.
	Steps []StepInfo

	Project, Environment, Release string // defaults: [Options]
	UserID                        string
	ConversationID                string
	Tags                          []string
	Executor                      string // what executes the plan: a framework, a version
	Model                         string
	TraceID                       string
	Metadata                      map[string]any // a JSON object
	// StartedBy is the tool call that started a root plan, if the runtime of Actlog made it. Default: that of ctx (see
	// [record.StartedByFrom]), else that of the environment, in which the commands of tools find ACTLOG_PLAN_ID and
	// ACTLOG_TOOL_CALL_ID. A sub-plan has none.
	StartedBy *record.StartedBy
}

// Plan is the handle of a plan.
type Plan struct {
	reporter
	link         Link
	conversation string
	start        time.Time
	knowsSteps   bool // a step that the handle does not know is a new one
	planned      []*Step

	mu        sync.Mutex
	steps     map[string]*stepState
	nextIndex int64
}

// StartPlan records a plan as RUNNING. In the context of a tool call, as [Cycle.StartTool] and
// [Extract] return it, the plan is the sub-plan of that call. In a context without a link it is a
// root plan. A link does not say whether its call still runs: a tool that starts work in the
// background may return before the sub-plan starts. In the context of a plan or step outside any tool call StartPlan
// returns an
// [*record.InvalidError] and writes nothing: a sub-plan hangs under a tool call, so start one, or
// set [PlanInfo.Root].
//
// The context that it returns carries the plan's link.
func (r *Recorder) StartPlan(ctx context.Context, info PlanInfo) (context.Context, *Plan, error) {
	parent, linked := LinkFrom(ctx)
	if info.Root {
		parent, linked = Link{}, false
	}
	link := Link{
		RootPlanID: parent.RootPlanID, PlanID: info.ID, Project: cmp.Or(info.Project, parent.Project, r.options.Project),
	}
	if linked {
		link.PlanID = cmp.Or(link.PlanID, record.NewSubPlanID())
	} else {
		link.PlanID = cmp.Or(link.PlanID, record.NewPlanID())
		link.RootPlanID = link.PlanID
	}

	p := &Plan{
		reporter: reporter{rec: r}, link: link, conversation: info.ConversationID, start: r.now(),
		knowsSteps: true, steps: map[string]*stepState{},
	}
	p.handle = p
	ctx = ContextWithLink(ctx, p.link)
	what := action{"start", p}

	metadata, encodeErr := metadataOf(info.Metadata)
	row := p.row()
	row.Executor = optional(info.Executor)
	row.Name = optional(info.Name)
	row.Title = optional(info.Title)
	row.UserRequest = optional(info.UserRequest)
	row.Project = optional(p.link.Project)

	row.UserID = optional(info.UserID)
	row.Tags = slices.Clone(info.Tags)
	row.Environment = optional(cmp.Or(info.Environment, r.options.Environment))
	row.Release = optional(cmp.Or(info.Release, r.options.Release))
	row.ConversationID = optional(info.ConversationID)
	row.TraceID = optional(info.TraceID)

	row.State = new(record.Running)
	row.StartTime = new(p.start) // a copy: a sink that keeps the row must not keep the handle, see heart
	row.ModelName = optional(info.Model)
	row.Metadata = metadata
	if linked {
		row.ParentPlanID, row.ToolCallID = &parent.PlanID, optional(parent.ToolCallID)
	} else if by, ok := startedBy(ctx, info); ok {
		row.StartedBy = by.JSON()
	}

	changes := []record.Change{row}
	for _, planned := range info.Steps {
		step, stepRow, err := p.newStep(planned)
		p.planned = append(p.planned, step)
		changes = append(changes, stepRow)
		encodeErr = errors.Join(encodeErr, err)
	}

	if linked && parent.ToolCallID == "" {
		return ctx, p, fmt.Errorf("%s: %w", what, &record.InvalidError{
			Code: record.CodeInvalidRelation, Field: "toolCallId",
			Reason: "is required within plan " + parent.PlanID + ": use the context of a tool call, or PlanInfo.Root",
		})
	}
	if _, _, err := field.Clean(row); err != nil {
		// The steps must not go on record without the plan. If the plan names itself as its
		// parent, they would become the parent's.
		return ctx, p, fmt.Errorf("%s: %w", what, err)
	}

	p.unsent = changes // before a heartbeat can see the handle and ask whether it is on record
	row.LastSeenAt = r.heart.add(p)
	return ctx, p, withEncodeError(what, encodeErr, p.report(ctx, what))
}

// startedBy returns the tool call of the runtime that started a root plan, if one did.
func startedBy(ctx context.Context, info PlanInfo) (by record.StartedBy, ok bool) {
	if info.StartedBy != nil {
		return *info.StartedBy, true
	}
	if by, ok := record.StartedByFrom(ctx); ok {
		return by, true
	}

	by = record.StartedBy{PlanID: os.Getenv("ACTLOG_PLAN_ID"), ToolCallID: os.Getenv("ACTLOG_TOOL_CALL_ID")}
	return by, by.PlanID != ""
}

// OpenPlan returns a handle of a plan that is on record already, started here or elsewhere, and
// sends nothing. Use it to add a source from within a tool, to decide a wait, or to start a step
// of the plan in another process. To go on with a whole run use [Recorder.ContinuePlan].
// link.RootPlanID may be empty for a root plan. The plan has a heartbeat from the first step on
// that is started with this handle.
func (r *Recorder) OpenPlan(link Link) *Plan {
	p := &Plan{
		reporter: reporter{rec: r},
		link:     Link{RootPlanID: cmp.Or(link.RootPlanID, link.PlanID), PlanID: link.PlanID, Project: link.Project},
		steps:    map[string]*stepState{},
	}
	p.handle = p
	return p
}

// PlanRef says which plan [Recorder.ContinuePlan] goes on with, and where.
type PlanRef struct {
	// Link is the plan's. RootPlanID may be empty for a root plan.
	Link           Link
	ConversationID string    // for new steps
	StartTime      time.Time // as it is on record: the end is never before it
	// NextIndex is the StepIndex of the next new step: more than any on record. Default: 0, for a
	// plan without steps.
	NextIndex int64
}

// ContinuePlan returns a handle of a plan whose start is on record, in order to go on with its
// run: after the process that started it was killed, for example. It sends nothing. The handle
// then behaves like one that [Recorder.StartPlan] returned. The plan has a heartbeat from now on,
// and its first sign of life is sent with the first call on the handle or below it.
//
// Steps that are on record are opened with [Plan.OpenStep]. [Plan.StartStep] takes any other step
// for a new one. The context that ContinuePlan returns carries the plan's link.
func (r *Recorder) ContinuePlan(ctx context.Context, ref PlanRef) (context.Context, *Plan) {
	p := r.OpenPlan(ref.Link)
	p.conversation, p.start = ref.ConversationID, ref.StartTime
	p.nextIndex, p.knowsSteps = ref.NextIndex, true

	sign := p.firstSign()
	p.reporter.mu.Lock() // a heartbeat may look at the handle already
	p.unsent = sign
	p.reporter.mu.Unlock()
	return ContextWithLink(ctx, p.link), p
}

// firstSign lets a plan that was started elsewhere have a heartbeat from here, and returns its
// first sign of life.
func (p *Plan) firstSign() []record.Change {
	row := &record.Plan{RootPlanID: p.link.RootPlanID, CurrentPlanID: p.link.PlanID}
	if _, _, err := field.Clean(row); err != nil || p.hasEnded() {
		return nil // the record refuses what is below it as well; or the run is over
	}
	if row.LastSeenAt = p.rec.heart.add(p); row.LastSeenAt == nil {
		return nil
	}
	return []record.Change{row}
}

// onRecord reports whether the plan's start was sent, from here or elsewhere.
func (p *Plan) onRecord() bool {
	p.reporter.mu.Lock()
	defer p.reporter.mu.Unlock()
	return !slices.ContainsFunc(p.unsent, func(c record.Change) bool {
		row, ok := c.(*record.Plan)
		return ok && row.StartTime != nil
	})
}

func (p *Plan) name() string { return "plan " + p.link.PlanID }

func (p *Plan) key() record.Key {
	return record.Key{Kind: record.KindPlan, Root: p.link.RootPlanID, ID: p.link.PlanID}
}

// row returns a change of the plan's row that says nothing yet.
func (p *Plan) row() *record.Plan {
	return &record.Plan{RootPlanID: p.link.RootPlanID, CurrentPlanID: p.link.PlanID, Rev: new(p.rec.nextRev())}
}

// ID is the plan's id.
func (p *Plan) ID() string { return p.link.PlanID }

// Link is the plan's link. Its RootPlanID is the ID of a root plan.
func (p *Plan) Link() Link { return p.link }

// Steps returns the handles of [PlanInfo.Steps], in that order. [Step.Start] starts one.
func (p *Plan) Steps() []*Step { return slices.Clone(p.planned) }

// SetState records another state that does not end the plan, such as [record.Paused]. After the end
// the error wraps [record.ErrEnded].
func (p *Plan) SetState(ctx context.Context, state record.State) error {
	row := p.row()
	row.State = &state
	return p.setState(ctx, p, state, row)
}

// Exception records a failure that the executor API returns instead of the plan, once, to the
// first request within 10 minutes. It does not end the plan.
func (p *Plan) Exception(ctx context.Context, message string) error {
	ctx, cancel := p.rec.endContext(ctx)
	defer cancel()
	row := p.row()
	row.Exception = &message
	return p.send(ctx, action{"record an exception of", p}, row)
}

// PlanResult is how a plan ended.
type PlanResult struct {
	Summary string
	// Err makes the state FAILED, or CANCELLED if it is [context.Canceled].
	Err error
	// State, if set, counts instead of the one that follows from Err.
	State record.State
}

// End records how the plan ended, even after ctx was cancelled. The first end counts. After an
// error, call it again to record that end.
func (p *Plan) End(ctx context.Context, result PlanResult) error {
	return p.end(ctx, action{"end", p}, result.State, result.Err, func(o outcome) record.Change {
		p.rec.heart.remove(p.key())
		row := p.row()
		row.State = &o.state
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.EndTime = new(notBefore(p.rec.now(), p.start))
		row.Summary = optional(result.Summary)
		return row
	})
}

// Fail ends the plan with err and returns err, joined by the error of recording it, if any:
// return plan.Fail(ctx, err).
func (p *Plan) Fail(ctx context.Context, err error) error {
	return failed(err, p.End(ctx, PlanResult{Err: err, State: failState(err)}))
}

// Close is the safety net below End: defer it right after the start. It does nothing after End or
// Fail. Otherwise it records FAILED with the panic that it finds, which goes on, or INTERRUPTED.
// Inside another deferred function it finds no panic.
func (p *Plan) Close(ctx context.Context) error {
	return p.close(ctx, recover(), func(ctx context.Context, err error) error { return p.End(ctx, PlanResult{Err: err}) })
}

// within returns the step and tool call of this plan that ctx is in.
func (p *Plan) within(ctx context.Context) (stepID, toolCallID *string) {
	link, _ := LinkFrom(ctx)
	if link.RootPlanID != p.link.RootPlanID || link.PlanID != p.link.PlanID {
		return nil, nil
	}
	return optional(link.StepID), optional(link.ToolCallID)
}
