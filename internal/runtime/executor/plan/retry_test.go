package plan_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// TestRetryOfOperations: a retry makes the operations of a task again that failed, and no others.
func TestRetryOfOperations(t *testing.T) {
	t.Parallel()
	for name, abort := range map[string]bool{"aborted": true, "gone on": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			var said, tried atomic.Int64
			h := build(t, role("words.*"), says(planned(
				step("words.say", object{"word": "a"}), step("words.try", object{"word": "b"}),
				step("words.say", object{"word": "c"}),
			)), []tool.Tool{
				tool.Func("words.say", "Says.", func(_ context.Context, in word) (string, error) {
					said.Add(1)
					return in.Word, nil
				}),
				tool.Func("words.try", "Tries.", func(_ context.Context, in word) (string, error) {
					if tried.Add(1); !mended.Load() {
						return "", errors.New("away")
					}
					return in.Word, nil
				}),
			})

			h.Work(h.Engine)
			id := start(h, object{"task": "Do it", "constraints": object{"abort_on_error": abort}})
			if d := ended(h, id); *d.plan.Record.State != record.Failed {
				t.Fatalf("it is %s", *d.plan.Record.State)
			}

			mended.Store(true)
			if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
				t.Fatal(err)
			}
			h.Await(id, record.Completed)
			d := ended(h, id)
			d.want("operations", d.operations(), "words.say COMPLETED a\nwords.try COMPLETED b\nwords.say COMPLETED c")

			if said.Load() != 2 || tried.Load() != 2 || len(h.Model.Requests()) != 1 {
				t.Errorf("said %d, tried %d, asked %d times", said.Load(), tried.Load(), len(h.Model.Requests()))
			}
			if last := d.thoughts[len(d.thoughts)-1]; text(last.Content) !=
				"Task completed successfully. Executed 3 operations. Artifacts: []" {
				t.Errorf("it concludes %q", text(last.Content))
			}
		})
	}
}
