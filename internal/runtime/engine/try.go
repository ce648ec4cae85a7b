package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/modelcall"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// TryExecutor is the kind of the executor whose runs ask a model once.
const TryExecutor = "try"

// TryInput is the input of a run of [TryExecutor].
type TryInput struct {
	Model       string           `json:"model"` // its name in the configuration
	Messages    []model.Message  `json:"messages"`
	Tools       []model.ToolSpec `json:"tools,omitempty"` // are offered, and not called
	Temperature *float64         `json:"temperature,omitempty"`
	MaxTokens   int64            `json:"maxTokens,omitempty"`
}

// TryRequest asks for a model call of a plan to be made again, with a model of the configuration.
type TryRequest struct {
	PlanID string
	At     string // the cycle whose model is asked again: cycle:STEP/SEQ
	Model  string // its name in the configuration
	// Changes are SystemPrompt, Temperature, MaxTokens and Tools; the others are not for a model call.
	Changes Changes
	// Starter, IdempotencyKey and Body are as in [Request].
	Starter, IdempotencyKey string
	Body                    []byte
	By                      runstore.Who
}

// Try starts a run that makes a model call of a plan again, whoever recorded that, and no tool call. The error is a
// [*record.InvalidError] that names the field, [record.ErrNotFound] if there is no such plan, [modelcall.ErrNoInput],
// [modelcall.ErrTooLong], a [*RunError] if the tools of the agent cannot be had, or one of [Engine.Start].
func (e *Engine) Try(ctx context.Context, r TryRequest) (Started, error) {
	parts, release := e.config.Parts()
	defer release()
	if err := r.check(parts); err != nil {
		return Started{}, err
	}

	t, err := e.trying(ctx, parts, r)
	if err != nil {
		return Started{}, err
	}
	if err := t.change(r.Changes); err != nil {
		return Started{}, err
	}
	input, err := json.Marshal(t.input)
	switch {
	case err != nil:
		return Started{}, fmt.Errorf("encode what a model is asked: %w", err)
	case len(input) > record.MaxTextBytes:
		return Started{}, modelcall.ErrTooLong
	}

	return e.Start(ctx, Request{
		Executor: TryExecutor, Input: input, Project: t.project, Starter: r.Starter, IdempotencyKey: r.IdempotencyKey,
		Body: slices.Concat([]byte(r.PlanID+"\n"), r.Body), ForkedFrom: r.PlanID, ForkedAt: r.At, By: r.By,
	})
}

func (r *TryRequest) check(parts Parts) error {
	if r.Model == "" {
		return NoInput("model")
	}
	if _, known := parts.Model(r.Model); !known {
		unknown := &UnknownError{Kind: "model", Name: r.Model}
		for _, m := range Models(parts) {
			unknown.There = append(unknown.There, m.Name)
		}
		return BadInput("model", unknown.Error())
	}
	return r.Changes.check(parts)
}

// trying is a model call that is to be made again.
type trying struct {
	engine  *Engine
	parts   Parts
	cycle   *store.Detail
	step    *record.AgentExecution
	project string // of the run; empty: it was only recorded
	input   TryInput
}

// trying reads what a model was asked.
func (e *Engine) trying(ctx context.Context, parts Parts, r TryRequest) (*trying, error) {
	root, _, err := e.store.PlanPlace(ctx, "", r.PlanID)
	if err != nil {
		return nil, fmt.Errorf("try a call of plan %s: %w", r.PlanID, err)
	}
	key, ok := CycleKey(root, r.At)
	if !ok {
		return nil, BadInput("at", "is no address of a cycle, such as cycle:STEP/SEQ")
	}

	t := &trying{engine: e, parts: parts, input: TryInput{Model: r.Model}}
	t.cycle, err = e.store.Detail(ctx, key)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil, BadInput("at", "is no cycle of the plan")
	case err != nil:
		return nil, err
	}

	step, err := e.store.Row(ctx, record.Key{Kind: record.KindAgentExecution, Root: root, ID: key.Parent})
	if err != nil {
		return nil, fmt.Errorf("read step %s: %w", key.Parent, err)
	}
	t.step = step.(*record.AgentExecution)

	_, err = e.store.Reader.RunStands(ctx, root, root)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return t, t.recorded()
	case err != nil:
		return nil, err
	}
	plan, err := e.store.Row(ctx, record.Key{Kind: record.KindPlan, Root: root, ID: root})
	if err != nil {
		return nil, fmt.Errorf("read plan %s: %w", root, err)
	}
	t.project = optional.Value(plan.(*record.Plan).Project)
	return t, t.carried(ctx)
}

// CycleKey returns the key of a cycle of a tree from its address, cycle:STEP/SEQ.
func CycleKey(rootPlanID, address string) (key record.Key, ok bool) {
	path, isCycle := strings.CutPrefix(address, "cycle:")
	step, place, _ := strings.Cut(path, "/")
	id, err := url.PathUnescape(step)
	seq, notSeq := strconv.ParseInt(place, 10, 32)
	ok = isCycle && err == nil && notSeq == nil && place == strconv.FormatInt(seq, 10) && !strings.Contains(id, "\x00")
	return record.Key{Kind: record.KindThinkAct, Root: rootPlanID, Parent: id, Seq: seq}, ok
}

// recorded reads a call that somebody else recorded.
func (t *trying) recorded() error {
	call, err := modelcall.Recorded(t.cycle.Record.(*record.ThinkAct))
	if err != nil {
		return err
	}
	own := t.parts.ModelDefinition(t.input.Model)

	t.input.Messages, t.input.Tools = call.Messages, call.Tools
	t.input.Temperature, t.input.MaxTokens = own.Temperature, own.MaxTokens

	if call.Temperature != nil {
		t.input.Temperature = call.Temperature
	}
	if call.MaxTokens > 0 {
		t.input.MaxTokens = call.MaxTokens
	}
	return nil
}

// carried reads a call that a run of the runtime made. What it was offered, and how it was asked, is what the agent of
// the step has today by the definition of the run.
func (t *trying) carried(ctx context.Context) error {
	if err := t.converse(ctx); err != nil {
		return err
	}
	own := t.parts.ModelDefinition(t.input.Model)
	t.input.Temperature, t.input.MaxTokens = own.Temperature, own.MaxTokens

	pinned, err := t.engine.store.Reader.RunDefinition(ctx, t.step.RootPlanID, t.step.PlanID)
	if errors.Is(err, record.ErrNotFound) { // the plan is a copy, or of an executor without definitions
		return nil
	}
	if err != nil {
		return err
	}
	d, err := AgentIn(pinned.Body, pinned.Changes, optional.Value(t.step.AgentName))
	if d == nil || err != nil {
		return err
	}

	first := t.parts.ModelDefinition(d.Model.Name)
	same := d.Model.Name == t.input.Model
	if same || !reflect.DeepEqual(d.Model.Temperature, first.Temperature) { // as with [Thinking.by]
		t.input.Temperature = d.Model.Temperature
	}
	if same {
		t.input.MaxTokens = d.Model.MaxTokens
	}
	return t.offer(ctx, pinned.Body, *d)
}

// maxEarlier bounds what is read of the cycles before one whose request is put together again, in bytes.
const maxEarlier = 64 << 20

// converse puts together what the model of the cycle was asked: cycles keep only what is new in their requests, see
// [Step.newInput].
func (t *trying) converse(ctx context.Context) error {
	last := t.cycle.Record.(*record.ThinkAct)
	if last.ThinkInput == nil {
		return modelcall.ErrNoInput
	}

	var w wholeRequest
	read := 0
	reader := t.engine.store.Reader
	err := reader.EarlierCycles(ctx, last.RootPlanID, last.StepID, last.Seq, func(c *record.ThinkAct) error {
		if c.Seq < w.next { // the read began again
			w, read = wholeRequest{}, 0
		}
		if read += len(optional.Value(c.ThinkInput)) + len(c.Message); read > maxEarlier {
			return modelcall.ErrTooLong
		}
		return w.add(c)
	})
	if err != nil {
		return err
	}

	if err := w.add(last); err != nil {
		return err
	}

	t.input.Messages = w.asked
	m, _ := t.parts.Model(t.input.Model) // is there
	if m.Name() != optional.Value(t.step.ModelName) {
		for i := range t.input.Messages { // what only the model understands that said it
			t.input.Messages[i].Provider, t.input.Messages[i].Raw = "", nil
		}
	}
	return nil
}

// offer adds the tools that an agent has.
func (t *trying) offer(ctx context.Context, pinned json.RawMessage, d define.Definition) error {
	run, err := t.engine.store.Reader.RunDetail(ctx, t.step.PlanID)
	if err != nil {
		return err
	}
	var more []tool.Tool
	if x, ok := t.engine.executors[run.Executor].(Offering); ok {
		var offers bool
		if more, offers, err = x.Offered(pinned, d); err != nil || !offers {
			return err
		}
	}

	all, err := t.parts.Tools(ctx, d.MCPServers)
	if err != nil {
		return Fail("tools", "The tools of the agent cannot be had: %s", t.parts.Redact(err.Error()))
	}
	all = append(all, t.engine.ownTools(t.parts, d.Tools)...)
	t.input.Tools = specsOf(append(d.Select(all), more...))
	return nil
}

// specsOf returns tools as a model is offered them.
func specsOf(tools []tool.Tool) (all []model.ToolSpec) {
	for _, each := range tools {
		s := each.Spec()
		all = append(all, model.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema})
	}
	return all
}

// change changes what the model is asked.
func (t *trying) change(c Changes) error {
	if c.SystemPrompt != nil {
		isSystem := func(m model.Message) bool { return m.Role == model.RoleSystem }
		t.input.Messages = slices.DeleteFunc(t.input.Messages, isSystem)
		if *c.SystemPrompt != "" {
			t.input.Messages = slices.Insert(t.input.Messages, 0, model.System(*c.SystemPrompt))
		}
	}
	if c.Temperature != nil {
		t.input.Temperature = c.Temperature
	}
	if c.MaxTokens != nil {
		t.input.MaxTokens = *c.MaxTokens
	}
	if c.Tools == nil {
		return nil
	}

	var some []model.ToolSpec
	for _, name := range *c.Tools {
		at := slices.IndexFunc(t.input.Tools, func(s model.ToolSpec) bool { return s.Name == name })
		if at < 0 {
			return BadInput("changes.tools", fmt.Sprintf("%q is none of the tools that were offered: %s", shortText(name),
				namesOf(t.input.Tools)))
		}
		some = append(some, t.input.Tools[at])
	}
	t.input.Tools = some
	return nil
}

func namesOf(tools []model.ToolSpec) string {
	if len(tools) == 0 {
		return "none is on record"
	}
	names := make([]string, min(len(tools), maxThere))
	for i := range names {
		names[i] = tools[i].Name
	}
	if len(tools) > maxThere {
		names = append(names, "and others")
	}
	return strings.Join(names, ", ")
}
