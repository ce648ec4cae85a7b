package store_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// TestFieldsAreRead: every field that clients tell of what a read shows comes back
// as it was told. Sections of a statement share columns by their place.
func TestFieldsAreRead(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	root, sub, step, call := record.NewPlanID(), record.NewSubPlanID(), record.NewStepID(), record.NewToolCallID()
	plan := &record.Plan{RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: &call, State: new(record.Running)}
	agent := &record.AgentExecution{RootPlanID: root, StepID: step, PlanID: root, State: new(record.Paused)}
	cycle := &record.ThinkAct{RootPlanID: root, StepID: step, Seq: 3, State: new(record.Failed)}
	tool := &record.ActTool{RootPlanID: root, StepID: step, Seq: 3, ToolCallID: call, State: new(record.Blocked)}
	wait := &record.Wait{RootPlanID: root, PlanID: sub, WaitID: record.NewWaitID(), Type: new(record.WaitPlanValidation)}
	tellAll(t, plan, "exception")
	tellAll(t, agent)
	tellAll(t, cycle)
	tellAll(t, tool)
	tellAll(t, wait, "stepId", "toolCallId", "state", "decision", "decidedBy", "endTime", "expiresAt")
	write(t, s, plan, agent, cycle, tool, wait)
	check := func(s *store.Store) {
		t.Helper()
		p := planTree(t, s, sub)
		st, detail := planTree(t, s, root).Steps[0], stepDetail(t, s, step)
		for name, tt := range map[string]struct{ want, got any }{
			"plan":             {*plan, p.Record},
			"its tool call":    {*tool, p.ToolCall.Record},
			"its wait":         {*wait, *p.Wait},
			"step":             {*agent, st.Record},
			"detail of a step": {*agent, detail.Record},
			"its cycle":        {*cycle, detail.Cycles[0].Record},
			"its call":         {*tool, detail.Cycles[0].ToolCalls[0].Record},
		} {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Errorf("%s (-told +read):\n%s", name, diff)
			}
		}
		for name, f := range map[string]int64{"tree": st.Figures.InputTokens, "detail": detail.Figures.InputTokens} {
			if f != *cycle.InputTokens {
				t.Errorf("%s: %d input tokens", name, f)
			}
		}
		if diff := cmp.Diff(st.Figures, detail.Figures); diff != "" || st.Figures.CostUSD == nil || st.Figures.ToolCalls != 1 || st.Figures.Failures != 1 ||
			st.CompletedCycles != 1 || st.LatestRound != 4 || *st.LatestToolName != *tool.Name || *st.LatestToolArgs != *tool.Parameters {
			t.Errorf("roll-ups of the step: %+v; (-tree +detail):\n%s", st, diff)
		}
	}
	check(s)
	// Where a pooler wants it so, everything comes as text.
	text, err := url.Parse(pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := text.Query()
	q.Set("default_query_exec_mode", "simple_protocol")
	text.RawQuery = q.Encode()
	check(openURL(t, text.String()))
}

// tellAll fills what is not told yet of a change, but for some, each field with a
// value of its own.
func tellAll(t *testing.T, c record.Change, except ...string) {
	t.Helper()
	for i, f := range record.Fields(c.Kind()) {
		v := f.In(c)
		if f.Key || f.Name == "rev" || !f.Told() || !v.IsZero() || slices.Contains(except, f.Name) {
			continue
		}
		var value any
		switch f.Type {
		case record.Text:
			value = new(f.Name + " of " + string(c.Kind()))
		case record.Int:
			value = new(int64(100 + i))
		case record.Float:
			value = new(float64(i) / 4)
		case record.Time:
			value = new(at(0).Add(time.Duration(i) * time.Microsecond))
		case record.Texts:
			value = []string{f.Name, "too"}
		case record.JSON:
			value = json.RawMessage(fmt.Sprintf(`{"%s":%d}`, f.Name, i))
			if f.Name == "formInputs" {
				value = json.RawMessage(`[{"label":"x"}]`)
			}
		default:
			t.Fatalf("a field of type %d", f.Type)
		}
		v.Set(reflect.ValueOf(value))
	}
}
