package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// ender ends a step as SKIPPED and its run as CANCELLED, after a call that a human approved before.
type ender struct{}

func (ender) Kind() string { return "ender" }

func (ender) Prepare(_ engine.Parts, r engine.Request) (engine.Prepared, error) {
	return engine.Prepared{Input: r.Input}, nil
}

func (ender) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	s, err := run.Step(ctx, 0, engine.StepInfo{})
	if err != nil {
		return engine.Result{}, err
	}
	tools, err := run.Tools(ctx, nil, nil)
	if err != nil {
		return engine.Result{}, err
	}

	set, err := tool.NewSet(tools...)
	if err != nil {
		return engine.Result{}, err
	}
	calls := []model.ToolCall{{Name: "pay", Arguments: "{}"}, {Name: "moon", Arguments: "{}"}}
	if _, err := s.Act(ctx, 0, calls, engine.Thinking{Tools: set, Approved: true}); err != nil {
		return engine.Result{}, err
	}

	state, _ := s.Called(0, 0)
	_, kind := s.Called(0, 1)
	if none, _ := s.Called(0, 2); state != record.Completed || kind != engine.NoSuchTool || none != "" {
		return engine.Result{}, &engine.RunError{Kind: "test", Message: string(state) + " " + kind}
	}

	s.End("", &engine.RunError{Kind: "rejected", Message: "no", State: record.Skipped})
	if _, _, err := s.Ended(); engine.OfRun(err) || !engine.OfRun(&engine.RunError{Kind: engine.LimitTime}) ||
		!engine.OfRun(errors.New("away")) {
		return engine.Result{}, errors.New("of which run?")
	}
	return engine.Result{}, &engine.RunError{Kind: "rejected", Message: "not wanted", State: record.Cancelled}
}

// TestEndInState checks that a failure says how a step and a run end, and that calls which were approved before
// wait for nobody.
func TestEndInState(t *testing.T) {
	t.Parallel()
	pay := tool.Func("pay", "Pays.", func(context.Context, struct{}) (string, error) {
		return "paid", nil
	}, tool.WithPolicy(tool.Policy{Approval: true}))
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "nobody asks", Turns: []scriptmodel.Turn{{Content: "."}}}},
		Tools:  []tool.Tool{pay}, Executors: []engine.Executor{ender{}},
	})

	h.Work(h.Engine)
	started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "ender", Input: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}

	p := h.Ended(started.PlanID)
	if st := h.Step(p).Record; *p.Record.State != record.Cancelled || enginetest.Text(p.Record.ErrorKind) != "rejected" ||
		*st.State != record.Skipped || enginetest.Text(st.ErrorMessage) != "no" {
		t.Errorf("%s %q, the step %s", *p.Record.State, enginetest.Text(p.Record.ErrorMessage), *st.State)
	}
}
