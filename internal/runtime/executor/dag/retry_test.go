package dag_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// TestRetryOfNodes: a retry runs the nodes again that failed, and those that could not begin. Those that were completed
// are not run again, and the log says how it ended in the end.
func TestRetryOfNodes(t *testing.T) {
	t.Parallel()
	const two = `{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"},
		{"id":"a1","dependencies":["a"]},{"id":"b1","dependencies":["b"]}]}`
	for _, scheduling := range []string{"waves", "eager"} {
		t.Run(scheduling, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			a := scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
				if mended.Load() {
					return says("done"), nil
				}
				return fails, nil
			}}
			h, p := run(t, object{"prompt": "Go.", "scheduling": scheduling}, planned(two), scene(`"A"`, a), nodes())

			id := p.Record.CurrentPlanID
			for range 2 { // the first one fails as before
				before := len(h.Model.Requests())
				if *p.Record.State != record.Failed || states(p)["a1"] != "BLOCKED" {
					t.Fatalf("it is %s: %v", *p.Record.State, states(p))
				}
				if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
					t.Fatal(err)
				}

				for p = h.Plan(id); !p.Record.State.Terminal(); p = h.Plan(id) {
					continue
				}
				if asked := len(h.Model.Requests()) - before; !mended.Load() && asked != 1 {
					t.Errorf("a retry asked the model %d times", asked)
				}
				mended.Store(true)
			}

			got := states(p)
			delete(got, "planner")
			want := map[string]string{
				"a": "COMPLETED done", "b": "COMPLETED done", "a1": "COMPLETED done", "b1": "COMPLETED done",
			}

			if diff := cmp.Diff(want, got); diff != "" || *p.Record.State != record.Completed {
				t.Errorf("%s (-want +got):\n%s", *p.Record.State, diff)
			}
			if lines := logOf(h, id); lines[len(lines)-1] != "Execution completed. Status: completed" ||
				!slices.Contains(lines, "Execution completed. Status: failed") {
				t.Errorf("the log: %q", lines)
			}
		})
	}
}
