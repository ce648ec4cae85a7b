package compare_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/door/web/compare"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is a run of steps, each an agent and the tools that it calls, one a cycle: "triage look read". A tool may have
// what it was asked: "look:a".
func run(root string, steps ...string) compare.Side {
	p := &tree.Plan{Record: record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)}}
	sums := compare.Sums{p.Record.Key(): {}}
	var all []*tree.Step
	var cycles []*tree.Cycle
	var calls []*tree.ToolCall
	for i, step := range steps {
		names := strings.Fields(step)
		s := &tree.Step{
			Record: record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: fmt.Sprint("s", i), StepIndex: new(int64(i)), AgentName: &names[0],
				State: new(record.Completed),
			},
		}
		sums[s.Record.Key()] = map[string]int64{}
		all = append(all, s)

		for seq, tool := range names[1:] {
			name, asked, _ := strings.Cut(tool, ":")
			c := &tree.Cycle{
				Record: record.ThinkAct{RootPlanID: root, StepID: s.Record.StepID, Seq: int64(seq), State: new(record.Completed)},
			}
			t := &tree.ToolCall{
				Record: record.ActTool{
					RootPlanID: root, StepID: s.Record.StepID, Seq: int64(seq), ToolCallID: fmt.Sprintf("%d%d", i, seq), Name: &name,
					State: new(record.Completed),
				},
			}
			sums[c.Record.Key()], sums[t.Record.Key()] = map[string]int64{"thinkOutput": hash(asked)},
				map[string]int64{"parameters": hash(asked)}
			cycles, calls = append(cycles, c), append(calls, t)
		}
	}

	tree.Nest(all, cycles, calls)
	return compare.Side{Outline: outline.Of(tree.Build(root, []*tree.Plan{p}, all)), Sums: sums}
}

func hash(s string) (n int64) {
	for _, c := range s {
		n = n*31 + int64(c)
	}
	return n
}

// drawn draws pairs, without what is in both and the same.
func drawn(a, b compare.Side, pairs []compare.Pair) string {
	var out strings.Builder
	for i := range pairs {
		p := &pairs[i]
		name := func(s compare.Side, row int) string {
			if row < 0 {
				return "-"
			}
			return s.Rows[row].At
		}
		if p.Different() {
			fmt.Fprintln(&out, name(a, p.A), name(b, p.B), p.Differs)
		}
	}
	return out.String()
}

func TestAlign(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		a, b []string
		want string
	}{
		"the same":      {[]string{"x look read"}, []string{"x look read"}, ""},
		"a cycle more":  {[]string{"x look read"}, []string{"x look list read"}, "- cycle:s0/1 []\n"},
		"an agent less": {[]string{"x", "y", "z"}, []string{"x", "z"}, "step:s1 - []\n"},
		"other agents":  {[]string{"x"}, []string{"y"}, "step:s0 - []\n- step:s0 []\n"},
		"another tool":  {[]string{"x look"}, []string{"x read"}, "call:s0/0/00 - []\n- call:s0/0/00 []\n"},
		"asked before":  {[]string{"x look:a look:b"}, []string{"x look:new look:a look:b"}, "- cycle:s0/0 []\n"},
		"asked for something else": {
			[]string{"x look:a"}, []string{"x look:b"},
			"cycle:s0/0 cycle:s0/0 [thinkOutput]\ncall:s0/0/00 call:s0/0/00 [parameters]\n",
		},
	} {
		a, b := run("a", tt.a...), run("b", tt.b...)
		if diff := cmp.Diff(tt.want, drawn(a, b, compare.Align(a, b))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestDiffers(t *testing.T) {
	t.Parallel()
	a, b := run("a", "x look"), run("b", "x look")
	step, cycle := &b.Rows[1].Step.Record, &b.Rows[2].Cycle.Record
	step.State = new(record.Failed)
	a.Rows[1].Step.Record.StartTime, a.Rows[1].Step.Record.EndTime = new(time.Unix(0, 0)), new(time.Unix(1, 0))
	step.StartTime, step.EndTime = new(time.Unix(0, 0)), new(time.Unix(3, 0))
	cycle.OutputTokens, cycle.CostUSD = new(int64(1)), new(0.1)
	delete(b.Sums, b.Rows[3].Call.Record.Key())

	pairs := compare.Align(a, b)
	if diff := cmp.Diff("step:s0 step:s0 [state time]\ncycle:s0/0 cycle:s0/0 [tokens cost]\n",
		drawn(a, b, pairs)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !pairs[3].Unread || pairs[2].Unread || pairs[0].Inside != 2 || pairs[0].Below != 3 {
		t.Errorf("pairs = %+v", pairs)
	}
}

// TestAlignIsWhole: each row of both runs stands in one pair, or below one that only one run has, in its order.
func TestAlignIsWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.StringMatching(`[xy]( [ab](:[12])?){0,5}`), 0, 5)
		a, b := run("a", steps.Draw(rt, "a")...), run("b", steps.Draw(rt, "b")...)
		nextA, nextB := 0, 0
		for _, p := range compare.Align(a, b) {
			if p.A >= 0 && p.A != nextA || p.B >= 0 && p.B != nextB {
				rt.Fatalf("%+v comes when %d and %d are next", p, nextA, nextB)
			}
			switch {
			case p.B < 0:
				nextA += a.Rows[p.A].Below + 1
			case p.A < 0:
				nextB += b.Rows[p.B].Below + 1
			default:
				nextA, nextB = nextA+1, nextB+1
			}
		}

		if nextA != len(a.Rows) || nextB != len(b.Rows) {
			rt.Fatalf("%d of %d, %d of %d", nextA, len(a.Rows), nextB, len(b.Rows))
		}
	})
}

// TestLines: what is shown of two texts is what they have, but for equal lines that are counted.
func TestLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`([ab ]{0,3}\n){0,14}[ab]{0,2}`)
		a, b := text.Draw(rt, "a"), text.Draw(rt, "b")
		of := func(side byte, whole string) {
			all, at := strings.SplitAfter(whole, "\n"), 0
			for _, l := range compare.Lines(a, b) {
				if l.Side != ' ' && l.Side != side {
					continue
				}

				at += l.Hidden
				if l.Hidden > 0 {
					continue
				}

				var line strings.Builder
				for _, w := range l.Words {
					line.WriteString(w.Text)
				}
				if line.String() != all[at] {
					rt.Fatalf("line %d is %q, want %q", at, line.String(), all[at])
				}
				at++
			}

			if strings.Join(all[at:], "") != "" {
				rt.Fatalf("%q is not shown", all[at:])
			}
		}

		of('-', a)
		of('+', b)
	})

	got := fmt.Sprint(compare.Lines("1\n2\n3\n4\n5\nsee old words\n", "1\n2\n3\n4\n5\nsee new words\n"))
	want := "[{32 [] 2} {32 [{3\n false}] 0} {32 [{4\n false}] 0} {32 [{5\n" +
		" false}] 0} {45 [{see  false} {old true} { words\n false}] 0} {43 [{see  false} {new true} { words\n false}] 0}]"
	if got != want {
		t.Errorf("fmt.Sprint:\n%s, want\n%s", got, want)
	}
}
