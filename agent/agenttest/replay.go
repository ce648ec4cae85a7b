package agenttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/redact"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	ownparts "github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/record"
)

// Replay plays a recorded run against the workflows and agents of parts, and returns what differs, in the order of the
// run; nothing if today's code does what is on record. records are those of the run, as actlog export and GET
// /api/v1/plans/PLAN/records write them.
//
// The runtime does it in a database of the test's own. Models are not asked, and tools not executed: they answer what
// is on record at their place, whichever model it was that answered. So do the people that the run asked. Nothing waits
// for a time or an event: a wait ends at once, as on record. What somebody said to an agent at work is said to it in
// the same cycle. Runs below the run are played with it. Where today's code asks for what is not on record, that part
// of the run ends, and other parts go on. A run that was stopped or cut off, by a limit or by the end of its worker, is
// played as far as its record goes.
//
// A prompt that differs is a difference, and the recorded answer follows. A call that differs has no recorded result:
// another tool, other arguments, or one that was not made. Code of a workflow that has effects beside its facade has
// them.
//
// The run is one of an agent, with [agent.Request] or [agent.Talk], or of a workflow, with [agent.Flow]. The test fails
// at once for another one, and if parts cannot be registered.
func Replay(tb testing.TB, records io.Reader, parts agent.Parts) []Difference {
	tb.Helper()
	recorded, err := readRecording(records)
	if err != nil {
		tb.Fatalf("replay: records: %v", err)
	}

	p := &play{recorded: recorded, url: Database(tb), logf: tb.Logf, asked: map[string]string{}}
	ctx, cancel := context.WithTimeoutCause(tb.Context(), playTimeout, errTooLong)
	defer cancel()
	if err := p.run(ctx, parts); err != nil {
		tb.Fatalf("replay run %s: %v", recorded.root.CurrentPlanID, err)
	}
	return compare(recorded, p.now, p.asked)
}

// playTimeout bounds a replay, which takes a few milliseconds for each call.
const playTimeout = 10 * time.Minute

var errTooLong = fmt.Errorf("it did not come to its end within %s", playTimeout)

// play is one replay.
type play struct {
	recorded *recording
	url      string
	logf     func(format string, args ...any)
	now      *recording
	// asked are the questions that are not on record, by the ids of their calls.
	asked map[string]string
}

// run plays the run, and reads what came of it.
func (p *play) run(ctx context.Context, parts agent.Parts) (err error) {
	root := p.recorded.root
	redacts, err := redactor(parts)
	if err != nil {
		return err
	}
	work, err := p.recorded.work(parts)
	if err != nil {
		return err
	}

	answers := &answering{recording: p.recorded, redact: redacts}
	played, err := answers.played()
	if err != nil {
		return err
	}

	ctx = engine.ContextWithPlayed(ctx, played)
	a, err := agent.Open(ctx, p.url, agent.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()

	if err := a.Register(answers.parts(parts)); err != nil {
		return err
	}
	if _, err := a.Start(ctx, agent.Job{
		Work: work, ConversationID: optional.Value(root.ConversationID), Starter: replayer,
	}); err != nil {
		return err
	}

	worked := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() { worked <- a.Work(ctx) }()
	err = p.follow(ctx, a)
	stop()
	if err := errors.Join(err, <-worked); err != nil {
		return err
	}
	return p.read(context.WithoutCancel(ctx))
}

// replayer is who starts the run, and who decides what nobody is on record for.
const replayer = "agenttest"

// redactor returns what replaces texts as the runtime does with these parts.
func redactor(parts agent.Parts) (func(string) string, error) {
	own, err := redact.New(parts.Redact...)
	if err != nil {
		return nil, fmt.Errorf("redact: %w", err)
	}
	current, _ := parts.Config.(define.Configuration) // nil: there is none
	source := ownparts.NewSource(slog.New(slog.DiscardHandler))
	source.Set(current, ownparts.Own{Servers: parts.MCPServers, Redactor: own})
	return source.Redact, nil
}

// follow lets the run go on until it ends, or nothing is on record of what it waits for.
func (p *play) follow(ctx context.Context, a *agent.Runtime) error {
	done := map[string]bool{}
	for {
		run, err := a.Wait(ctx, p.recorded.root.CurrentPlanID)
		if err != nil {
			return err
		}

		waits := slices.DeleteFunc(run.Waits, func(w agent.Wait) bool { return done[w.WaitID] })
		if run.State.Terminal() || len(waits) == 0 {
			return nil
		}
		for _, w := range waits {
			done[w.WaitID] = true
			if err := p.decide(ctx, a, w); err != nil {
				return err
			}
		}
	}
}

// decide decides about a wait as somebody did on record.
func (p *play) decide(ctx context.Context, a *agent.Runtime, w agent.Wait) error {
	known := p.recorded.waits[w.WaitID]
	d := agent.Decision{By: replayer}
	switch {
	case known == nil && slices.Contains(w.Decisions, agent.Approve):
		p.asked[w.ToolCallID] = w.Title
		d.Decision = agent.Approve
	case known == nil || known.Decision == nil:
		p.logf("replay: nobody answered %q on record, so what follows is not played", w.Title)
		return nil
	default:
		d.Decision, d.Text = *known.Decision, optional.Value(known.DecisionText)
		d.By, d.Claim = cmp.Or(optional.Value(known.DecidedBy), replayer), optional.Value(known.By)
		d.Values = valuesOf(known)
	}

	err := a.Decide(ctx, w.PlanID, w.WaitID, d)
	if _, invalid := errors.AsType[*record.InvalidError](err); invalid { // it asks for something else
		p.logf("replay: %q is not answered as on record, so what follows is not played: %v", w.Title, err)
		return nil
	}
	return err
}

// valuesOf returns the answers to a form; nil: there are none.
func valuesOf(w *record.Wait) map[string]any {
	var form []map[string]string
	if json.Unmarshal(w.FormInputs, &form) != nil { // there is none
		return nil
	}

	values := map[string]any{}
	for _, f := range form {
		values[cmp.Or(f["name"], f["label"])] = f["value"]
	}
	if d := optional.Value(w.Decision); d != agent.Submit && d != agent.Accept {
		return nil
	}
	return values
}

// read reads what is on record of the run that was played.
func (p *play) read(ctx context.Context) error {
	s, err := store.Open(ctx, store.Config{DatabaseURL: p.url})
	if err != nil {
		return err
	}

	p.now = &recording{rows: map[record.Key]*field.Row{}}
	id := p.recorded.root.CurrentPlanID
	err = errors.Join(s.Export(ctx, id, id, p.now.add), s.Close(ctx))
	if err != nil {
		return err
	}
	return p.now.index()
}

// played returns the recording as the runtime plays it.
func (a *answering) played() (*engine.Played, error) {
	p := &engine.Played{
		PlanID: a.root.CurrentPlanID, Steps: map[string]bool{}, SubPlans: map[string]string{},
		Versions: map[string]*record.Thought{}, Messages: map[string]map[int64][]record.SteeringMessage{}, Tool: a.tool,
	}
	for id := range a.steps {
		p.Steps[id] = true
	}

	for id := range a.calls {
		if started := a.subPlan(id); started != nil {
			p.SubPlans[id] = started.CurrentPlanID
		}
	}
	for id, t := range a.thoughts {
		if optional.Value(t.Type) == record.ThoughtDecision {
			p.Versions[id] = t
		}
	}

	for at, c := range a.cycles {
		var read []record.SteeringMessage
		if c.Messages == nil {
			continue
		}
		if err := json.Unmarshal(c.Messages, &read); err != nil {
			return nil, fmt.Errorf("the messages of cycle:%s/%d cannot be read: %w", at.step, at.seq, err)
		}
		if p.Messages[at.step] == nil {
			p.Messages[at.step] = map[int64][]record.SteeringMessage{}
		}
		p.Messages[at.step][at.seq] = read
	}
	return p, nil
}

// work returns what the run was asked for.
func (r *recording) work(parts agent.Parts) (agent.Work, error) {
	name, request := optional.Value(r.root.Name), optional.Value(r.root.UserRequest)
	executor := optional.Value(r.root.Executor)
	_, isAgent := parts.Agents[name]
	_, isWorkflow := parts.Workflows[name]

	switch {
	case executor == "agent":
		return agent.Input{Executor: executor, Name: name, Input: map[string]any{
			"agent": name, "request": request, "history": r.before(),
		}}, nil
	case executor == "workflow" && isAgent && (!isWorkflow || r.isTalk()):
		var talk agent.Talk
		for _, m := range r.before() {
			talk.Messages = append(talk.Messages, workflow.Message{Role: m["role"], Content: m["content"]})
		}
		talk.Agent, talk.Message = name, request
		return talk, nil
	case executor == "workflow":
		var input any = request
		if json.Valid([]byte(request)) {
			input = json.RawMessage(request)
		}
		return agent.Flow{Workflow: name, Input: input}, nil
	}
	return nil, fmt.Errorf("it is of the executor %q: only runs of agents and workflows can be replayed", executor)
}

// isTalk reports whether an agent was asked, and no workflow: the whole run is one step of it.
func (r *recording) isTalk() bool {
	steps := r.stepsOf(r.root.CurrentPlanID)
	return len(steps) == 1 && optional.Value(steps[0].AgentName) == optional.Value(r.root.Name)
}

// before returns the texts that the agent of the run knew before it was asked.
func (r *recording) before() (texts []map[string]string) {
	steps := r.stepsOf(r.root.CurrentPlanID)
	if len(steps) == 0 {
		return nil
	}
	first := r.cycles[cycleAt{steps[0].StepID, 0}]
	if first == nil {
		return nil
	}

	messages := messagesOf(first)
	for i, m := range messages {
		spoken := (m.Role == model.RoleUser || m.Role == model.RoleAssistant) && len(m.Calls()) == 0 && m.Text() != ""
		if i < len(messages)-1 && spoken { // the last one is the request
			texts = append(texts, map[string]string{"role": string(m.Role), "content": m.Text()})
		}
	}
	return texts
}
