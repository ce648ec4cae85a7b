package api_test

import (
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// W1: the list and the failures of each run say the same.
func TestCauses(t *testing.T) {
	t.Parallel()
	c := serve(t)
	all := storetest.CauseCases(t, "run-")
	for _, run := range all {
		storetest.Write(t, c.Store, run.Changes...)
	}

	items := map[any]any{}
	for _, item := range apitest.Lookup(t, c.Read("/api/v1/plans?limit=200"), "items").([]any) {
		items[item.(obj)["rootPlanId"]] = item
	}

	or := func(s string) any { // null for what is empty
		if s == "" {
			return nil
		}
		return s
	}
	for _, run := range all {
		t.Run(run.Name, func(t *testing.T) {
			item, failures := items[run.Root], c.Read("/api/v1/plans/"+run.Root+"/failures")
			expect(t, item, obj{"failed": run.Failed})
			expect(t, failures, obj{"recovered": run.Recovered, "cause": or(run.At), "items.#": run.Failed})
			if run.At == "" {
				expect(t, item, obj{"cause": nil})
				return
			}

			want := obj{
				"at": run.At, "state": string(run.State), "errorKind": or(run.Kind), "text": or(run.Text), "tool": or(run.Tool),
			}
			if !run.Asks {
				expect(t, lookup(t, failures, "items.0"), want)
			}
			want["recovered"] = run.Recovered
			expect(t, lookup(t, item, "cause"), want)
		})
	}
}
