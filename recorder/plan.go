package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// PlanInfo is what is known of a plan when it starts. What is left at its zero
// value is not told.
type PlanInfo struct {
	// ID is an id of your own, at most [record.MaxIDBytes] bytes. Default: a new
	// one. Starting a plan of the same id again updates what is on record.
	ID string
	// Root makes a root plan even where ctx carries the link of a tool call.
	Root bool

	Name        string // the kind of plan, for filters and reports
	Title       string
	UserRequest string // the user's own words
	// Steps are those that are known beforehand. They are on record as IDLE
	// together with the plan, in this order; [Plan.Steps] gives their handles.
	Steps []StepInfo

	Project, Environment, Release string // defaults: [Options]
	UserID                        string
	ConversationID                string
	Tags                          []string
	Executor                      string // what executes the plan: a framework, a version
	Model                         string
	TraceID                       string
	Metadata                      map[string]any // a JSON object
}

// Plan is the handle of a plan.
type Plan struct {
	t            teller
	link         Link
	conversation string
	start        time.Time
	whole        bool // made by StartPlan, so it knows which steps are new
	planned      []*Step

	mu        sync.Mutex
	steps     map[string]*stepState
	nextIndex int64
}

// StartPlan puts a plan on record as RUNNING. In the context of a tool call (one
// that [Cycle.StartTool] or [Extract] gave) it is the sub-plan of that call; in
// one without a link it is a root plan. In the context of a plan or step outside
// any tool call it is an error, an [*record.InvalidError], and nothing is told:
// a sub-plan hangs under a tool call, so start one, or say [PlanInfo.Root].
//
// The context that it gives carries the plan's link.
func (r *Recorder) StartPlan(ctx context.Context, info PlanInfo) (context.Context, *Plan, error) {
	parent, linked := LinkFrom(ctx)
	linked = linked && !info.Root
	p := &Plan{t: teller{rec: r}, conversation: info.ConversationID, start: r.now(), whole: true, steps: map[string]*stepState{}}
	if linked {
		p.link = Link{RootPlanID: parent.RootPlanID, PlanID: cmp.Or(info.ID, record.NewSubPlanID())}
		p.link.Project = cmp.Or(info.Project, parent.Project, r.options.Project)
	} else {
		id := cmp.Or(info.ID, record.NewPlanID())
		p.link = Link{RootPlanID: id, PlanID: id, Project: cmp.Or(info.Project, r.options.Project)}
	}
	ctx = ContextWithLink(ctx, p.link)
	what := doing{"starting", p}

	metadata, unencoded := metadataOf(info.Metadata)
	row := &record.Plan{
		RootPlanID:     p.link.RootPlanID,
		CurrentPlanID:  p.link.PlanID,
		Rev:            new(r.nextRev()),
		Executor:       said(info.Executor),
		Name:           said(info.Name),
		Title:          said(info.Title),
		UserRequest:    said(info.UserRequest),
		Project:        said(p.link.Project),
		UserID:         said(info.UserID),
		Tags:           slices.Clone(info.Tags),
		Environment:    said(cmp.Or(info.Environment, r.options.Environment)),
		Release:        said(cmp.Or(info.Release, r.options.Release)),
		ConversationID: said(info.ConversationID),
		TraceID:        said(info.TraceID),
		State:          new(record.Running),
		StartTime:      new(p.start), // a sink that keeps it must not keep the handle, see heart
		ModelName:      said(info.Model),
		Metadata:       metadata,
	}
	if linked {
		row.ParentPlanID, row.ToolCallID = &parent.PlanID, said(parent.ToolCallID)
	}
	changes := []record.Change{row}
	for _, planned := range info.Steps {
		step, told, err := p.newStep(planned)
		p.planned = append(p.planned, step)
		changes = append(changes, told)
		unencoded = errors.Join(unencoded, err)
	}
	if linked && parent.ToolCallID == "" {
		return ctx, p, fmt.Errorf("%s: %w", what, &record.InvalidError{
			Code: record.CodeInvalidRelation, Field: "toolCallId",
			Reason: "is required within plan " + parent.PlanID + ": use the context of a tool call, or PlanInfo.Root",
		})
	}
	if _, _, err := record.Clean(row); err != nil {
		// Its steps must not go on record without it: where the plan names its own
		// parent they would be the parent's.
		return ctx, p, fmt.Errorf("%s: %w", what, err)
	}
	p.t.untold = changes // before anyone asks whether it is on record
	row.LastSeenAt = r.heart.begin(p)
	return ctx, p, withUnencoded(what, unencoded, p.t.tell(ctx, what))
}

// onRecord tells whether the start of the plan was told, or told elsewhere.
func (p *Plan) onRecord() bool {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return !p.whole || !slices.ContainsFunc(p.t.untold, func(c record.Change) bool { return c.Key() == p.key() })
}

// OpenPlan gives the handle of a plan that is on record already, started here or
// elsewhere, and tells nothing: to work on its steps in another process, to add a
// source from within a tool, to decide a wait. RootPlanID may be left out where
// the plan is a root. It has a heartbeat from the first step on that is started
// with this handle.
func (r *Recorder) OpenPlan(link Link) *Plan {
	return &Plan{
		t:     teller{rec: r},
		link:  Link{RootPlanID: cmp.Or(link.RootPlanID, link.PlanID), PlanID: link.PlanID, Project: link.Project},
		steps: map[string]*stepState{},
	}
}

func (p *Plan) name() string { return "plan " + p.link.PlanID }

func (p *Plan) key() record.Key {
	return record.Key{Kind: record.KindPlan, Root: p.link.RootPlanID, ID: p.link.PlanID}
}

// ID is the plan's id.
func (p *Plan) ID() string { return p.link.PlanID }

// Link is the plan's link. Its RootPlanID is the ID of a root plan.
func (p *Plan) Link() Link { return p.link }

// takeUp lets a plan that was begun elsewhere have a heartbeat from here, too.
func (p *Plan) takeUp() []record.Change {
	row := &record.Plan{RootPlanID: p.link.RootPlanID, CurrentPlanID: p.link.PlanID}
	if _, _, err := record.Clean(row); err != nil || p.t.hasEnded() {
		return nil // its step is refused as well; or there is nothing to live for
	}
	if row.LastSeenAt = p.t.rec.heart.begin(p); row.LastSeenAt == nil {
		return nil
	}
	return []record.Change{row}
}

// Steps gives the handles of [PlanInfo.Steps], in that order: [Step.Start] starts
// one.
func (p *Plan) Steps() []*Step { return append([]*Step(nil), p.planned...) }

// SetState tells that the plan is in another state that does not end it, such as
// [record.Paused].
func (p *Plan) SetState(ctx context.Context, state record.State) error {
	what := doing{"setting the state of", p}
	if err := checkLive(what, state); err != nil {
		return err
	}
	return p.t.send(ctx, what, &record.Plan{
		RootPlanID: p.link.RootPlanID, CurrentPlanID: p.link.PlanID, Rev: new(p.t.rec.nextRev()), State: &state,
	})
}

// Exception records a failure that the executor API answers instead of the plan,
// once, to the first who asks within 10 minutes. It does not end the plan.
func (p *Plan) Exception(ctx context.Context, message string) error {
	ctx, cancel := p.t.rec.endContext(ctx)
	defer cancel()
	return p.t.send(ctx, doing{"recording an exception of", p}, &record.Plan{
		RootPlanID: p.link.RootPlanID, CurrentPlanID: p.link.PlanID, Rev: new(p.t.rec.nextRev()), Exception: &message,
	})
}

// PlanResult is how a plan ended.
type PlanResult struct {
	Summary string
	// Err makes the state FAILED, or CANCELLED where it is [context.Canceled].
	Err error
	// State, where it is given, counts instead of the one that follows from Err.
	State record.State
}

// End records how the plan ended, even after ctx was cancelled. The first end
// counts; to call it again after an error tries again to record that.
func (p *Plan) End(ctx context.Context, result PlanResult) error {
	what := doing{"ending", p}
	if err := checkEnd(what, result.State); err != nil {
		return err
	}
	p.t.rec.heart.end(p.key())
	return p.t.end(ctx, what, func() []record.Change {
		o := outcomeOf(result.State, result.Err)
		return []record.Change{&record.Plan{
			RootPlanID: p.link.RootPlanID, CurrentPlanID: p.link.PlanID, Rev: new(p.t.rec.nextRev()),
			State: &o.state, ErrorMessage: o.message, ErrorKind: o.kind,
			EndTime: new(notBefore(p.t.rec.now(), p.start)), Summary: said(result.Summary),
		}}
	})
}

// Fail ends the plan with err and gives err back, joined by what the recording
// itself met: return plan.Fail(ctx, err).
func (p *Plan) Fail(ctx context.Context, err error) error {
	return failed(err, p.End(ctx, PlanResult{Err: err, State: failState(err)}))
}

// Close is the net below End: defer it right after the start. It does nothing
// after End or Fail. Else it records FAILED with the panic that it finds, which
// goes on, or INTERRUPTED. Within another deferred function it finds no panic.
func (p *Plan) Close(ctx context.Context) error {
	return p.t.close(ctx, recover(), func(ctx context.Context, err error) error { return p.End(ctx, PlanResult{Err: err}) })
}

// where gives the step and tool call of this plan that ctx is in.
func (p *Plan) where(ctx context.Context) (stepID, toolCallID *string) {
	link, _ := LinkFrom(ctx)
	if link.RootPlanID != p.link.RootPlanID || link.PlanID != p.link.PlanID {
		return nil, nil
	}
	return said(link.StepID), said(link.ToolCallID)
}
