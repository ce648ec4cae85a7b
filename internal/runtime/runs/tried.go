package runs

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/modelcall"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Tried is what came of a model call that was made again.
type Tried struct {
	PlanID string           `json:"planId"` // of the run that made it
	At     string           `json:"at"`     // the cycle that it was made again of
	Before modelcall.Answer `json:"before"`
	After  modelcall.Answer `json:"after"`
}

// ReadTried reads what came of a run that was completed and made a model call of another plan again.
func ReadTried(ctx context.Context, reader *runstore.Reader, d *runstore.RunDetail) (t Tried, err error) {
	t.PlanID, t.At = d.Plan.CurrentPlanID, optional.Value(d.RunForkedAt)
	root, _, err := reader.PlanPlace(ctx, "", optional.Value(d.RunForkedFrom))
	if err != nil {
		return t, fmt.Errorf("read what plan %s had answered before: %w", optional.Value(d.RunForkedFrom), err)
	}
	key, _ := engine.CycleKey(root, t.At)
	if t.Before, err = answerOf(ctx, reader, key); err != nil {
		return t, err
	}

	tree, _, err := reader.PlanTree(ctx, t.PlanID, t.PlanID)
	if err != nil {
		return t, err
	}
	for _, step := range tree.Steps {
		key := record.Key{Kind: record.KindThinkAct, Root: t.PlanID, Parent: step.Record.StepID}
		if t.After, err = answerOf(ctx, reader, key); err != nil {
			return t, err
		}
	}
	return t, nil
}

// answerOf reads what the model of a cycle answered.
func answerOf(ctx context.Context, reader *runstore.Reader, key record.Key) (a modelcall.Answer, err error) {
	d, err := reader.Detail(ctx, key)
	if err != nil {
		return a, fmt.Errorf("read the answer of cycle %s/%d: %w", key.Parent, key.Seq, err)
	}

	var calls []*record.ActTool
	for _, row := range d.Calls {
		call := row.Record.(*record.ActTool)
		if len(optional.Value(call.Parameters)) > store.BriefChars { // they may be cut
			whole, err := reader.Row(ctx, call.Key())
			if err != nil {
				return a, err
			}
			call = whole.(*record.ActTool)
		}
		calls = append(calls, call)
	}
	return modelcall.AnswerOf(d.Record.(*record.ThinkAct), calls), nil
}
