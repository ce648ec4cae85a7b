package dag_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/executor/dag"
	"github.com/actlog/actlog/internal/scriptmodel"
)

// E9, E13, E14: the worker is killed before and after each write of a graph, and each write fails: in waves, with
// eager nodes, and with a node that fails. The answer, the steps, the graph and the log stay the same.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	const four = `{"nodes":[{"id":"a","name":"A"},{"id":"b","name":"B","dependencies":["a"]},{"id":"c","name":"C","dependencies":["a"]},{"id":"d","name":"D","dependencies":["b","c"]}]}`
	for name, tt := range map[string]struct {
		scheduling string
		scenes     []scriptmodel.Scene
		want       string
	}{
		"waves":  {"waves", nil, "COMPLETED \"done\" Four nodes\n"},
		"eager":  {"eager", nil, "COMPLETED \"done\" Four nodes\n"},
		"failed": {"waves", []scriptmodel.Scene{scene(`"B"`, fails)}, "FAILED \"\" Four nodes\n2 of 4 nodes completed.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			carry := func(t *testing.T, disturb func(*enginetest.House)) string {
				t.Helper()
				scenes := slices.Concat([]scriptmodel.Scene{planned(four), scene("You write titles", says("Four nodes"))}, tt.scenes, []scriptmodel.Scene{nodes()})
				h := enginetest.Build(t, enginetest.Plans{Scenes: scenes, Executors: []engine.Executor{dag.Executor{}}})
				disturb(h)
				h.Work(h.Engine)
				p := h.Ended(start(h, object{"prompt": "Go.", "scheduling": tt.scheduling}))
				var b strings.Builder
				fmt.Fprintf(&b, "%s %q %s\n%s\n%d nodes", *p.Record.State, text(p.Record.Summary), text(p.Record.Title), text(p.Record.ErrorMessage), len(graphOf(h, p.Record.CurrentPlanID).Nodes))
				for _, st := range p.Steps {
					if st.Record.StepIndex == nil {
						t.Fatalf("a step has no index: %+v", st.Record)
					}
					fmt.Fprintf(&b, "\n%d %s %s %q %s", *st.Record.StepIndex, *st.Record.AgentName, *st.Record.State, text(st.Record.Result), st.Record.Metadata)
				}
				lines := logOf(h, p.Record.CurrentPlanID)
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
