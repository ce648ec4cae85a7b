package tree_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// grow builds a tree from lines: "plan r FAILED", "step s r FAILED" (of a plan), "cycle s/0 COMPLETED 3" (ended at a
// second), "call s/0/c FAILED 2", and "plan p FAILED by s/0/c" (started by a call).
func grow(t *testing.T, text string) *tree.Plan {
	t.Helper()
	var plans []*tree.Plan
	var steps []*tree.Step
	var cycles []*tree.Cycle
	calls := map[string]*tree.ToolCall{}
	var all []*tree.ToolCall

	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	second := func(words []string, i int) *time.Time {
		if len(words) > i {
			return at(number(words[i]))
		}
		return nil
	}

	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		w := strings.Fields(line)
		switch w[0] {
		case "plan":
			p := &tree.Plan{Record: record.Plan{RootPlanID: root, CurrentPlanID: w[1], State: new(record.State(w[2]))}}
			if len(w) > 4 {
				p.ToolCall = calls[w[4]]
				p.Record.ParentPlanID, p.Record.ToolCallID = new(root), &w[4]
			}
			plans = append(plans, p)
		case "step":
			steps = append(steps, &tree.Step{
				Record: record.AgentExecution{
					RootPlanID: root, StepID: w[1], PlanID: w[2], StepIndex: new(int64(i)), State: new(record.State(w[3])),
				},
			})
		case "cycle":
			step, rest, _ := strings.Cut(w[1], "/")
			cycles = append(cycles, &tree.Cycle{
				Record: record.ThinkAct{
					StepID: step, Seq: int64(number(rest)), State: new(record.State(w[2])), ThinkEndTime: second(w, 3),
				},
			})
		case "call":
			parts := strings.Split(w[1], "/")
			c := &tree.ToolCall{
				Record: record.ActTool{
					StepID: parts[0], Seq: int64(number(parts[1])), ToolCallID: parts[2], State: new(record.State(w[2])),
					EndTime: second(w, 3),
				},
			}
			calls[w[1]], all = c, append(all, c)
		default:
			t.Fatalf("line = %v", line)
		}
	}

	p := tree.Build(root, plans, steps)
	tree.Nest(steps, cycles, all)
	return p
}

// paths returns the ids on the way to each row of a tree.
func paths(p *tree.Plan) map[tree.Node]string {
	all := map[tree.Node]string{}
	var plan func(p *tree.Plan, above string)
	plan = func(p *tree.Plan, above string) {
		above += p.Record.CurrentPlanID
		all[tree.Node{Plan: p}] = above
		for _, s := range p.Steps {
			inStep := above + " " + s.Record.StepID
			all[tree.Node{Step: s}] = inStep
			by, others := s.Started()

			for _, c := range s.Cycles {
				inCycle := fmt.Sprint(inStep, " ", c.Record.Seq)
				all[tree.Node{Cycle: c}] = inCycle
				for _, t := range c.ToolCalls {
					inCall := inCycle + " " + t.Record.ToolCallID
					all[tree.Node{Call: t}] = inCall
					for _, sub := range by[t] {
						plan(sub, inCall+" ")
					}
				}
			}
			for _, sub := range others {
				plan(sub, inStep+" ")
			}
		}

		for _, sub := range p.SubPlans {
			plan(sub, above+" ")
		}
	}

	plan(p, "")
	return all
}

// id returns the id of a row.
func id(n tree.Node) string {
	switch {
	case n.Plan != nil:
		return n.Plan.Record.CurrentPlanID
	case n.Step != nil:
		return n.Step.Record.StepID
	case n.Cycle != nil:
		return fmt.Sprint(n.Cycle.Record.Seq)
	case n.Call != nil:
		return n.Call.Record.ToolCallID
	}
	return n.Wait.WaitID
}

// TestExplain: what failed, and which of it is the cause. More trees, with errors, are in storetest.CauseCases.
func TestExplain(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		tree      string
		want      []string // the cause first, unless there is none
		none      bool
		recovered bool
	}{
		"nothing failed": {tree: "plan root COMPLETED\nstep s root COMPLETED", none: true},
		"the call in the deepest plan": {tree: `plan root FAILED
			step a root FAILED
			cycle a/0 COMPLETED
			call a/0/c FAILED 9
			plan sub FAILED by a/0/c
			step b sub FAILED
			cycle b/0 COMPLETED
			call b/0/d FAILED 5`, want: []string{"root a 0 c sub b 0 d"}},
		"the last one of which all above failed": {tree: `plan root FAILED
			step a root FAILED
			cycle a/0 COMPLETED
			call a/0/c FAILED 1
			call a/0/d FAILED 3
			call a/0/e FAILED 2
			step b root COMPLETED
			cycle b/0 FAILED 8`, want: []string{"root a 0 d", "root a 0 e", "root b 0", "root a 0 c"}},
		"recovered": {tree: `plan root COMPLETED
			step a root COMPLETED
			cycle a/0 FAILED 1
			cycle a/1 FAILED 2`, want: []string{"root a 0", "root a 1"}, recovered: true},
		"recovered so far": {tree: `plan root RUNNING
			step a root RUNNING
			cycle a/0 COMPLETED 1
			call a/0/c FAILED 1
			cycle a/1 RUNNING`, want: []string{"root a 0 c"}, none: true},
		"a step that failed by itself": {tree: `plan root FAILED
			step a root COMPLETED
			cycle a/0 FAILED 1
			step b root FAILED`, want: []string{"root b", "root a 0"}},
		"the plan alone": {tree: "plan root INTERRUPTED\nstep a root COMPLETED", want: []string{"root"}},
		"a plan of an unknown call": {
			tree: "plan root FAILED\nstep a root FAILED\nplan sub FAILED by gone", want: []string{"root a sub"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grown := grow(t, tt.tree)
			found, at := tree.Explain(grown), paths(grown)
			var got []string
			for _, f := range found.Failures {
				got = append(got, at[f.Node()])
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}

			var way []string
			for _, n := range found.Path {
				way = append(way, id(n))
			}
			cause := strings.Join(way, " ")
			if found.Recovered != tt.recovered || (found.Cause == nil) != tt.none || found.Cause != nil && cause != tt.want[0] {
				t.Errorf("the cause is %q, recovered %t", cause, found.Recovered)
			}
		})
	}
}

// TestExplainDeepTrees: trees as deep and as large as they may be are explained.
func TestExplainDeepTrees(t *testing.T) {
	t.Parallel()
	deep := "plan root FAILED"
	above := "root"
	for i := range 3_000 {
		s, p := fmt.Sprint("s", i), fmt.Sprint("p", i)
		deep += fmt.Sprintf("\nstep %s %s FAILED\ncycle %s/0 COMPLETED\ncall %s/0/c%d FAILED\nplan %s FAILED by %s/0/c%d", s,
			above, s, s, i, p, s, i)
		above = p
	}

	found := tree.Explain(grow(t, deep))
	if n := found.Cause.Node(); n.Plan == nil || n.Plan.Record.CurrentPlanID != above || len(found.Failures) != 1 {
		t.Errorf("the cause is %s, of %d failures", id(found.Cause.Node()), len(found.Failures))
	}
}
