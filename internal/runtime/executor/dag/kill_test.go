package dag_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// E5, E9, E13, E14: the worker is killed before and after each write of a graph, and each write fails: in waves, with
// eager nodes, with a node that fails, and with a graph that was planned by another run. The answer, the steps, the
// graph and the log stay the same.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	const four = `{"nodes":[{"id":"a","name":"A"},{"id":"b","name":"B","dependencies":["a"]},{"id":"c","name":"C","dependencies":["a"]},{"id":"d","name":"D","dependencies":["b","c"]}]}`

	for name, tt := range map[string]struct {
		scheduling string
		stored     bool
		scenes     []scriptmodel.Scene
		want       string
	}{
		"waves": {"waves", false, nil, "COMPLETED \"done\" Four nodes\n"},
		"eager": {"eager", false, nil, "COMPLETED \"done\" Four nodes\n"},
		"failed": {
			"waves", false, []scriptmodel.Scene{scene(`"B"`, fails)}, "FAILED \"\" Four nodes\n2 of 4 nodes completed.\n",
		},
		"stored": {"waves", true, nil, "COMPLETED \"done\" Four nodes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			carry := func(t *testing.T, disturb func(*enginetest.House)) string {
				t.Helper()
				scenes := slices.Concat([]scriptmodel.Scene{planned(four), scene("You write titles", says("Four nodes"))},
					tt.scenes, []scriptmodel.Scene{nodes()})
				h := enginetest.Build(t, enginetest.Plans{Scenes: scenes, Executors: []engine.Executor{dag.Executor{}}})
				disturb(h)
				h.Work(h.Engine)

				input, draft := object{"prompt": "Go.", "scheduling": tt.scheduling}, "no draft"
				if tt.stored {
					draft = h.Ended(start(h, object{"prompt": "Go.", "draft": true})).Record.CurrentPlanID
					input = object{"plan_id": draft, "scheduling": tt.scheduling}
				}
				p := h.Ended(start(h, input))

				var b strings.Builder
				fmt.Fprintf(&b, "%s %q %s\n%s\n%d nodes", *p.Record.State, text(p.Record.Summary), text(p.Record.Title),
					text(p.Record.ErrorMessage), len(graphOf(h, p.Record.CurrentPlanID).Nodes))
				for _, st := range p.Steps {
					if st.Record.StepIndex == nil {
						t.Fatalf("a step has no index: %+v", st.Record)
					}
					fmt.Fprintf(&b, "\n%d %s %s %q %s", *st.Record.StepIndex, *st.Record.AgentName, *st.Record.State,
						text(st.Record.Result), st.Record.Metadata)
				}

				lines := strings.Split(strings.ReplaceAll(strings.Join(logOf(h, p.Record.CurrentPlanID), "\n"), draft, "DRAFT"),
					"\n")
				slices.Sort(lines) // nodes that run at the same time end in any order
				return b.String() + "\n" + strings.Join(lines, "\n")
			}

			want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("it came to another end:\n%s", got)
				}
			})
			if !strings.HasPrefix(want, tt.want) {
				t.Fatalf("undisturbed:\n%s", want)
			}
		})
	}
}
