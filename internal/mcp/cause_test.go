package mcp_test

import (
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/storetest"
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
			item, why, tree := found.Runs[i], ask[failures](c, "failures", object{"planId": run.Root, "limit": 50}), ask[rows](c, "read_run", object{"planId": run.Root})
			if int(item.Failed) != run.Failed || why.Total != run.Failed || len(why.Failures) != run.Failed || why.Recovered != run.Recovered {
				t.Errorf("find_runs counts %d; failures are %+v, want %d, recovered %t", item.Failed, why, run.Failed, run.Recovered)
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
				if got == nil || got.At != run.At || got.State != string(run.State) || got.Error != want || got.Recovered != run.Recovered {
					t.Errorf("%s says %+v, want %s %s %q, recovered %t", door, got, run.At, run.State, want, run.Recovered)
				}
			}
			if !run.Asks && (why.Failures[0].At != run.At || why.Failures[0].Error != want) {
				t.Errorf("the first failure is %+v, want %s %q", why.Failures[0], run.At, want)
			}
		})
	}
}
