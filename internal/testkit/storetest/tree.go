package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// At returns a time, so many seconds after the start of the runs in these tests.
func At(second int) *time.Time {
	return new(time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC))
}

// WriteTree writes a tree whose steps have ended: two steps, a sub-plan with a step, two tool
// calls with the same id, and a row of every kind beside the steps. Ids begin with root.
func WriteTree(t testing.TB, s *store.Store, root string, state record.State) {
	t.Helper()
	call := func(step string, seq int64, id string, state record.State) *record.ActTool {
		return &record.ActTool{
			RootPlanID: root, StepID: root + step, Seq: seq, ToolCallID: root + id, Name: new("fetch"), State: &state,
			StartTime: At(10), EndTime: At(12), Result: new("42"),
		}
	}

	Write(t, s,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("old"), State: &state, StartTime: At(1), EndTime: At(30),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-a", StepIndex: new(int64(0)), StartTime: At(8),
			State: new(record.Completed),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-b", StepIndex: new(int64(1)), StartTime: At(2),
			State: new(record.Completed),
		},
		&record.ThinkAct{
			RootPlanID: root, StepID: root + "-a", Seq: 0, InputTokens: new(int64(7)), CostUSD: new(0.5),
			State: new(record.Completed), ThinkInput: new("in"),
		},
		call("-a", 0, "-t", record.Completed),
		call("-b", 1, "-t", record.Failed),
		call("-a", 2, "-u", record.Completed),
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new(root + "-t"),
			State: new(record.Completed), StartTime: At(11),
		},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "-lost", ParentPlanID: &root, ToolCallID: new("lost"),
			State: new(record.Completed), StartTime: At(12),
		},
		&record.AgentExecution{RootPlanID: root, PlanID: root + "-sub", StepID: root + "-c", State: new(record.Completed)},
		call("-c", 0, "-v", record.Completed),
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w"},
		&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "th"},
		&record.Artifact{RootPlanID: root, PlanID: root, Name: "ar"},
		&record.Source{RootPlanID: root, PlanID: root, SourceID: "so"},
	)
}

// EveryKind returns a change of each kind in a tree, all of plan planID.
func EveryKind(root, planID string) []record.Change {
	return []record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: planID, Title: new("changed")},
		&record.AgentExecution{RootPlanID: root, PlanID: planID, StepID: "s", Result: new("faked")},
		&record.ThinkAct{RootPlanID: root, StepID: "s", Message: json.RawMessage(`{"role":"assistant"}`)},
		&record.ActTool{
			RootPlanID: root, StepID: "s", ToolCallID: "t", Policy: json.RawMessage(`{}`), State: new(record.Completed),
		},
		&record.Thought{RootPlanID: root, PlanID: planID, ThoughtID: "h", Content: new("x")},
		&record.Artifact{RootPlanID: root, PlanID: planID, Name: "a", Value: json.RawMessage(`1`)},
		&record.Source{RootPlanID: root, PlanID: planID, SourceID: "q", URI: new("file:x")},
		&record.Wait{RootPlanID: root, PlanID: planID, WaitID: "w", State: new(record.Approved)},
	}
}

// Dump returns all that the reads return about a tree, without row numbers, and with ROOT for
// the id of the root.
func Dump(t testing.TB, s *store.Store, root string) string {
	t.Helper()
	p, _, err := s.PlanTree(t.Context(), root, root)
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	var steps []string
	var visit func(*tree.Plan)
	visit = func(p *tree.Plan) {
		p.ID = 0
		if p.ToolCall != nil {
			p.ToolCall.ID = 0
		}
		for _, st := range p.Steps {
			st.ID = 0
			steps = append(steps, st.Record.StepID)
		}

		for c := range p.Children() {
			visit(c)
		}
	}
	visit(p)

	encode := func(v any) {
		b, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		out.WriteByte('\n')
	}

	encode(p)
	for _, id := range steps {
		st, err := s.StepDetail(t.Context(), root, id)
		if err != nil {
			t.Fatal(err)
		}
		st.ID = 0
		for _, c := range st.Cycles {
			c.ID = 0
			for _, tool := range c.ToolCalls {
				tool.ID = 0
			}
		}
		encode(st)
	}
	return strings.ReplaceAll(out.String(), root, "ROOT")
}

// TreeTables are the tables that hold the rows of trees.
var TreeTables = []string{
	"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "thought", "artifact",
	"source_reference", "wait_state",
}

// RowKeys returns the keys of changes in the form of StoredKeys.
func RowKeys(changes []record.Change) (all []string) {
	for _, c := range changes {
		key := c.Key()
		all = append(all, strings.Join([]string{string(key.Kind), key.Root, key.Parent, fmt.Sprint(key.Seq), key.ID}, " "))
	}
	slices.Sort(all)
	return all
}

// StoredKeys returns the keys of all rows of a tree.
func StoredKeys(t testing.TB, s *store.Store, root string) []string {
	t.Helper()
	all := Lines(t, s.DB(), `
		SELECT concat_ws(' ', 'plan', root_plan_id, '', 0, current_plan_id) FROM actlog.plan_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'agentExecution', root_plan_id, '', 0, step_id) FROM actlog.agent_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'thinkAct', root_plan_id, step_id, seq, '') FROM actlog.think_act_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'actTool', root_plan_id, step_id, seq, tool_call_id) FROM actlog.act_tool_info WHERE root_plan_id = $1`, root)
	slices.Sort(all)
	return all
}
