package store_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestFieldsAreRead checks that the reads return every field as it was written. The sections of a
// statement share columns by their place, so a field could take the place of another.
func TestFieldsAreRead(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := storetest.OpenURL(t, pg.URL)
	root, sub := record.NewPlanID(), record.NewSubPlanID()
	step, call := record.NewStepID(), record.NewToolCallID()

	plan := &record.Plan{
		RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: &call, State: new(record.Running),
	}
	agent := &record.AgentExecution{RootPlanID: root, StepID: step, PlanID: root, State: new(record.Paused)}
	cycle := &record.ThinkAct{RootPlanID: root, StepID: step, Seq: 3, State: new(record.Failed)}
	tool := &record.ActTool{RootPlanID: root, StepID: step, Seq: 3, ToolCallID: call, State: new(record.Blocked)}
	wait := &record.Wait{RootPlanID: root, PlanID: sub, WaitID: record.NewWaitID(), Type: new(record.WaitPlanValidation)}

	fillFields(t, plan, "exception", "startedBy")
	fillFields(t, agent)
	fillFields(t, cycle, "forkedFrom") // copies would not be in the figures, nor be the open wait
	fillFields(t, tool, "forkedFrom")
	fillFields(t, wait, "forkedFrom", "subject", "subjectSha256", "decisionText", "stepId", "toolCallId", "state", "decision",
		"decidedBy", "by", "endTime", "expiresAt")
	storetest.Write(t, s, plan, agent, cycle, tool, wait)

	check := func(s *store.Store) {
		t.Helper()
		p := storetest.PlanTree(t, s, sub)
		st, detail := storetest.PlanTree(t, s, root).Steps[0], storetest.StepDetail(t, s, step)
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
				t.Errorf("%s (-written +read):\n%s", name, diff)
			}
		}

		for name, f := range map[string]int64{"tree": st.Figures.InputTokens, "detail": detail.Figures.InputTokens} {
			if f != *cycle.InputTokens {
				t.Errorf("%s: %d input tokens", name, f)
			}
		}
		if diff := cmp.Diff(st.Figures, detail.Figures); diff != "" || st.Figures.CostUSD == nil ||
			st.Figures.ToolCalls != 1 || st.Figures.Failures != 1 ||
			st.CompletedCycles != 1 || st.LatestRound != 4 || *st.LatestToolName != *tool.Name ||
			*st.LatestToolArgs != *tool.Parameters {
			t.Errorf("roll-ups of the step: %+v (-tree +detail):\n%s", st, diff)
		}
	}

	check(s)
	// Some poolers need this mode. All values come as text then.
	check(storetest.OpenURL(t, withParam(t, pg.URL, "default_query_exec_mode", "simple_protocol")))
}

// fillFields sets every empty field of a change that clients send, with some exceptions. Each field
// gets a value of its own.
func fillFields(t *testing.T, c record.Change, except ...string) {
	t.Helper()
	for i, f := range field.Fields(c.Kind()) {
		v := f.In(c)
		if f.Key || f.Role == field.Revision || !f.Sent() || !v.IsZero() || slices.Contains(except, f.Name) {
			continue
		}

		var value any
		switch f.Type {
		case field.Text:
			value = new(f.Name + " of " + string(c.Kind()))
			if f.Name == "traceId" {
				value = new(strings.Repeat("1", 32))
			}
		case field.Int:
			value = new(int64(100 + i))
		case field.Float:
			value = new(float64(i) / 4)
		case field.Time:
			value = new(at(0).Add(time.Duration(i) * time.Microsecond))
		case field.Texts:
			value = []string{f.Name, "too"}
		case field.JSON:
			value = json.RawMessage(fmt.Sprintf(`{"%s":%d}`, f.Name, i))
			if f.IsList() {
				value = json.RawMessage(`[{"label":"x"}]`)
			}
		default:
			t.Fatalf("a field of type %d", f.Type)
		}

		v.Set(reflect.ValueOf(value))
	}
}
