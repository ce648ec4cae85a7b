package mcp_test

import (
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// W1: find_runs, failures and read_run say the same of each run.
func TestCauses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	all := storetest.CauseCases(t, "run-")
	for _, run := range all {
		storetest.Write(t, s.store, run.Changes...)
	}
	c := s.connect(false)
	found := ask[runs](c, "find_runs", object{"limit": 100})

	for _, run := range all {
		t.Run(run.Name, func(t *testing.T) {
			i := slices.IndexFunc(found.Runs, func(r struct {
				PlanID, Title, State string
				DurationMs           int64
				CostUSD              float64
				InputTokens, Failed  int64
				Cause                *cause
			}) bool {
				return r.PlanID == run.Root
			})

			item := found.Runs[i]
			why := ask[failures](c, "failures", object{"planId": run.Root, "limit": 50})
			tree := ask[rows](c, "read_run", object{"planId": run.Root})
			if int(item.Failed) != run.Failed || why.Total != run.Failed || len(why.Failures) != run.Failed ||
				why.Recovered != run.Recovered {
				t.Errorf("find_runs counts %d; failures are %+v, want %d, recovered %t", item.Failed, why, run.Failed,
					run.Recovered)
			}

			if run.At == "" {
				if item.Cause != nil || tree.Cause != nil {
					t.Errorf("the cause is %+v, %+v", item.Cause, tree.Cause)
				}
				return
			}

			want := run.Kind + run.Text
			if run.Kind != "" && run.Text != "" {
				want = run.Kind + ": " + run.Text
			}

			for door, got := range map[string]*cause{"find_runs": item.Cause, "read_run": tree.Cause} {
				if got == nil || got.At != run.At || got.State != string(run.State) || got.Error != want ||
					got.Recovered != run.Recovered {
					t.Errorf("%s says %+v, want %s %s %q, recovered %t", door, got, run.At, run.State, want, run.Recovered)
				}
			}
			if !run.Asks && (why.Failures[0].At != run.At || why.Failures[0].Error != want) {
				t.Errorf("the first failure is %+v, want %s %q", why.Failures[0], run.At, want)
			}
		})
	}
}

// TestLeftBehind: what goes on in a run that has ended is shown as left behind, by each tool that names its row. On
// record it is as it was written.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	running := new(record.Running)
	for root, state := range map[string]record.State{"ended": record.Failed, "live": record.Running} {
		storetest.Write(t, s.store,
			&record.Plan{RootPlanID: root, CurrentPlanID: root, State: &state},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-s", State: running},
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", Seq: 0, State: running},
			&record.ActTool{RootPlanID: root, StepID: root + "-s", Seq: 0, ToolCallID: "c", State: running},
			&record.Plan{
				RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new("c"), State: running,
			},
			&record.Wait{RootPlanID: root, PlanID: root, WaitID: root + "-w", State: new(record.Waiting)},
		)
	}

	c := s.connect(false)
	for root, want := range map[string][2]string{"ended": {"LEFT_BEHIND", "LEFT_BEHIND"}, "live": {"RUNNING", "WAITING"}} {
		tree := ask[rows](c, "read_run", object{"planId": root})
		if len(tree.Rows) != 6 {
			t.Fatalf("%s has %d rows", root, len(tree.Rows))
		}
		for _, r := range tree.Rows[1:] {
			state := want[0]
			if r.Kind == "wait" {
				state = want[1]
			}
			if r.State != state {
				t.Errorf("read_run says that %s is %s, want %s", r.At, r.State, state)
			}
		}

		did := ask[step](c, "read_step", object{"planId": root, "at": "step:" + root + "-s"})
		called := did.Cycles[0].Calls[0]
		for _, p := range []place{did.place, did.Cycles[0].place, called.place, called.Below[0]} {
			if p.State != want[0] {
				t.Errorf("read_step says that %s is %s, want %s", p.At, p.State, want[0])
			}
		}

		said := ask[row](c, "read_row", object{"planId": root, "at": "step:" + root + "-s"})
		if said.State != want[0] || said.Facts["state"] != "RUNNING" {
			t.Errorf("read_row says that it is %s, and on record %v", said.State, said.Facts["state"])
		}
	}
}
