package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// changeRows adds what is changed of copied rows.
func (f *forking) changeRows() error {
	for _, address := range slices.Sorted(maps.Keys(f.request.Changes.Rows)) {
		to, ok := f.copied[address]
		if !ok {
			return BadInput("changes.rows", shortText(address)+" is no row before that at which the fork begins")
		}

		change := f.request.Changes.Rows[address]
		_, path, _ := strings.Cut(address, ":")
		stepID, rest, _ := strings.Cut(path, "/")
		place, _, _ := strings.Cut(rest, "/")
		seq, _ := strconv.ParseInt(place, 10, 64) // it is that of a row
		if change.Result != nil {
			f.out.After = append(f.out.After, &record.ActTool{
				RootPlanID: f.root, StepID: to.stepID, Seq: seq, ToolCallID: to.id,
				Result: new(f.parts.Redact(*change.Result)), Metadata: json.RawMessage(`{}`), // had a summary of the other one
			})
			continue
		}

		answer, err := f.answer(runstore.Cycle{StepID: stepID, Seq: seq}, *change.ThinkOutput)
		if err != nil {
			return err
		}
		answer.StepID = to.stepID
		f.out.After = append(f.out.After, answer)
	}
	return nil
}

// answer returns a cycle with another text that its model said. Its calls stay.
func (f *forking) answer(c runstore.Cycle, text string) (*record.ThinkAct, error) {
	var m model.Message
	raw, ok := f.original.Messages[c]
	if !ok {
		return nil, BadInput("changes.rows", fmt.Sprintf("cycle:%s/%d has no answer of a model", c.StepID, c.Seq))
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("read the message of cycle %s/%d: %w", c.StepID, c.Seq, err)
	}

	text = f.parts.Redact(text)
	m.Provider, m.Raw = "", nil // it has the other text, too
	m.Parts = slices.DeleteFunc(m.Parts, func(p model.Part) bool { return p.Text != "" })
	if text != "" {
		m.Parts = slices.Insert(m.Parts, 0, model.Part{Text: text})
	}
	message, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the message of a model: %w", err)
	}
	return &record.ThinkAct{RootPlanID: f.root, Seq: c.Seq, ThinkOutput: &text, Message: message}, nil
}

// changeRequest changes what the run is asked for, in its input and in what is shown of it.
func (f *forking) changeRequest(run *runstore.NewRun, plan *record.Plan) error {
	if f.request.Changes.Request == nil {
		return nil
	}

	request := f.parts.Redact(*f.request.Changes.Request)
	member := "request"
	if x := f.engine.executors[run.Executor]; x != nil {
		member = AboutOf(x).Text
	}
	input, ok := withRequest(run.Input, member, request)
	if !ok {
		return BadInput("changes.request", "cannot be changed: the input of the run has no text of its own")
	}
	run.Input = input
	plan.UserRequest, plan.Title = &request, optional.Pointer(Title(request))
	return nil
}

// changeDefinition notes what is changed in the definition of the agent in whose step the fork goes on, and what a
// worker needs for that.
func (f *forking) changeDefinition(planID string, run *runstore.NewRun) error {
	member, patch := f.request.Changes.patch(f.parts)
	if member == "" || f.at.step.PlanID != planID {
		return nil
	}

	var all []definitionChange
	if run.Changes != nil {
		if err := json.Unmarshal(run.Changes, &all); err != nil {
			return fmt.Errorf("read the changes of run %s: %w", planID, err)
		}
	}
	before, err := changedDefinition(f.original.Definitions[run.Definition], run.Changes)
	if err != nil {
		return err
	}

	change := definitionChange{f.at.step.Agent, patch}
	after, changed, err := change.apply(before)
	switch {
	case err != nil:
		return err
	case changed == nil:
		return BadInput("changes."+member,
			"cannot be changed: step "+f.at.step.StepID+" is none of an agent with a definition")
	}

	if whole, isOne := asDefinition(before); isOne {
		gone := whole.Needs()
		run.Needs = slices.DeleteFunc(run.Needs, func(need string) bool { return slices.Contains(gone, need) })
		changed, _ = asDefinition(after)
	}
	run.Needs = slices.Compact(slices.Sorted(slices.Values(append(run.Needs, changed.Needs()...))))
	run.Changes, err = json.Marshal(append(all, change))
	return err
}
