package outline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// grown are the flat rows of a tree.
type grown struct {
	plans  []*tree.Plan
	steps  []*tree.Step
	cycles []*tree.Cycle
	calls  []*tree.ToolCall
}

func (g *grown) plan(id string, state record.State, by *tree.ToolCall) *tree.Plan {
	p := &tree.Plan{Record: record.Plan{RootPlanID: "root", CurrentPlanID: id, State: &state}}
	if by != nil {
		p.ToolCall = by
		p.Record.ParentPlanID, p.Record.ToolCallID = new("root"), &by.Record.ToolCallID
	}
	g.plans = append(g.plans, p)
	return p
}

func (g *grown) step(id, plan string, state record.State) {
	g.steps = append(g.steps, &tree.Step{Record: record.AgentExecution{RootPlanID: "root", PlanID: plan, StepID: id,
		StepIndex: new(int64(len(g.steps))), State: &state,
		StartTime: new(time.Unix(int64(len(g.steps)), 0))}})
}

func (g *grown) call(step string, seq int64, id string, state record.State) *tree.ToolCall {
	g.cycles = append(g.cycles, &tree.Cycle{Record: record.ThinkAct{StepID: step, Seq: seq, State: new(record.Completed)}})
	c := &tree.ToolCall{Record: record.ActTool{StepID: step, Seq: seq, ToolCallID: id, State: &state}}
	g.calls = append(g.calls, c)
	return c
}

func (g *grown) outline() *outline.Outline {
	p := tree.Build("root", g.plans, g.steps)
	tree.Nest(g.steps, g.cycles, g.calls)
	return outline.Of(p)
}

// drawn draws an outline, without the rows under folded ones.
func drawn(o *outline.Outline, folded map[int]bool) string {
	var b strings.Builder
	for _, i := range o.Visible(folded) {
		r := &o.Rows[i]
		fmt.Fprintf(&b, "%s%s %d/%d", strings.Repeat(" ", r.Depth), r.At, r.Place, r.Siblings)

		if r.Failures > 0 {
			fmt.Fprintf(&b, " ✗%d", r.Failures)
		}
		if r.Number > 0 {
			fmt.Fprintf(&b, " no %d", r.Number)
		}
		if folded[i] {
			fmt.Fprintf(&b, " +%d", r.Below)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestOutline: rows stand below what they belong to; a sub-plan below its call; failures are counted above, and the
// cause is the first.
func TestOutline(t *testing.T) {
	t.Parallel()
	var g grown
	root := g.plan("root", record.Failed, nil)
	g.step("a", "root", record.Completed)
	g.call("a", 0, "x y", record.Failed)
	g.step("b", "root", record.Failed)

	sub := g.plan("sub", record.Failed, g.call("b", 0, "c/d", record.Failed))
	g.step("s", "sub", record.Failed)
	g.call("s", 3, "e", record.Failed)
	g.plan("lost", record.Completed, &tree.ToolCall{Record: record.ActTool{StepID: "gone", ToolCallID: "gone"}})
	root.Waits = []*record.Wait{
		{WaitID: "1"}, {WaitID: "2", StepID: new("a")}, {WaitID: "3", StepID: new("a"), ToolCallID: new("x y")},
	}
	sub.Waits = []*record.Wait{{WaitID: "4", StepID: new("a")}} // of another plan
	o := g.outline()

	want := `plan:root 1/1 ✗2
 step:a 1/3 ✗1
  cycle:a/0 1/3 ✗1
   call:a/0/x%20y 1/1 no 2
    wait:3 1/1
  plan:lost 2/3
  wait:2 3/3
 step:b 2/3 ✗1
  cycle:b/0 1/1 ✗1
   call:b/0/c%2Fd 1/1 ✗1
    plan:sub 1/1 ✗1
     step:s 1/2 ✗1
      cycle:s/3 1/1 ✗1
       call:s/3/e 1/1 no 1
     wait:4 2/2
 wait:1 3/3
`

	if diff := cmp.Diff(want, drawn(o, nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if cause := o.Rows[o.Failures[0]].At; cause != "call:s/3/e" || o.Found.Recovered {
		t.Errorf("the cause is %s, recovered %t", cause, o.Found.Recovered)
	}
	if at, ok := o.Find("call:b/0/c%2Fd"); !ok || len(o.Path(at)) != 4 {
		t.Errorf("at = %d %t", at, ok)
	}
	if _, ok := o.Find("call:none"); ok {
		t.Error("found what there is not")
	}
}

// TestFolded: W15: in a large tree, sub-plans that ended well are folded, but not what leads to the open row, nor what
// something goes on below.
func TestFolded(t *testing.T) {
	t.Parallel()
	grow := func(fillers int) (*outline.Outline, int) {
		var g grown
		g.plan("root", record.Running, nil)
		g.step("a", "root", record.Running)
		for i := range 3 { // plan levels 2 and 3
			top, id := fmt.Sprint("top", i), fmt.Sprint("deep", i)
			g.plan(top, record.Completed, g.call("a", int64(i), top, record.Completed))
			g.step("s"+top, top, record.Completed)
			deep := g.plan(id, record.Completed, g.call("s"+top, 0, id, record.Completed))
			if i == 2 {
				deep.Record.State = new(record.Running)
			}
			g.step("s"+id, id, *deep.Record.State)
		}

		for i := range fillers {
			g.call("a", int64(10+i), fmt.Sprint("f", i), record.Completed)
		}
		o := g.outline()
		row, _ := o.Find("step:sdeep1")
		return o, row
	}

	small, row := grow(10)
	if folded := small.Folded(outline.FoldFew, row); len(folded) > 0 {
		t.Errorf("of %d rows, %v are folded", len(small.Rows), folded)
	}

	large, row := grow(100)
	var folded []string
	for i := range large.Rows {
		if large.Folded(outline.FoldFew, row)[i] {
			folded = append(folded, large.Rows[i].At)
		}
	}
	if diff := cmp.Diff([]string{"plan:top0", "plan:deep0"}, folded); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	for how, want := range map[outline.Fold]string{
		outline.FoldNone: "0 []", outline.FoldOK: "113 [cycle:a/0 call:a/0/top0]",
		outline.FoldAll: "114 [cycle:a/0 call:a/0/top0]",
	} {
		folded := large.Folded(how, row)
		first := []string{}
		for i := range large.Rows {
			if folded[i] && len(first) < 2 {
				first = append(first, large.Rows[i].At)
			}
		}
		if got := fmt.Sprint(len(folded), " ", first); got != want {
			t.Errorf("%s folds %s, want %s", how, got, want)
		}
	}
	if newest, ok := large.Newest(); !ok || large.Rows[newest].At != "step:sdeep2" {
		t.Errorf("the newest is %d", newest)
	}
}

// TestNewest: W15: the newest step that runs is the one that began last. One whose beginning is not known is older than
// all others.
func TestNewest(t *testing.T) {
	t.Parallel()
	var g grown
	g.plan("root", record.Running, nil)
	for i, second := range []int64{3, 9, 5, -1} {
		g.step(fmt.Sprint("s", i), "root", record.Running)
		if second >= 0 {
			g.steps[i].Record.StartTime = new(time.Unix(second, 0))
		}
	}

	o := g.outline()
	if newest, ok := o.Newest(); !ok || o.Rows[newest].At != "step:s1" {
		t.Errorf("the newest is %s, %t", o.Rows[newest].At, ok)
	}

	for i := range g.steps {
		g.steps[i].Record.StartTime = nil
	}
	if newest, ok := o.Newest(); !ok || o.Rows[newest].At != "step:s3" {
		t.Errorf("without times, the newest is %s, %t", o.Rows[newest].At, ok)
	}
}

// TestOutlineIsWhole: whatever the links are, each row stands in the outline once, with what is below it behind it.
func TestOutlineIsWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var g grown
		g.plan("root", record.Failed, nil)
		state := rapid.SampledFrom([]record.State{record.Completed, record.Failed, record.Running})
		for i := range rapid.IntRange(0, 12).Draw(rt, "n") {
			plan := g.plans[rapid.IntRange(0, len(g.plans)-1).Draw(rt, "plan")].Record.CurrentPlanID
			g.step(fmt.Sprint("s", i), plan, state.Draw(rt, "step"))
			g.call(fmt.Sprint("s", i), 0, fmt.Sprint("c", i), state.Draw(rt, "call"))
			if rapid.Bool().Draw(rt, "sub") {
				by := g.calls[rapid.IntRange(0, len(g.calls)-1).Draw(rt, "by")]
				g.plan(fmt.Sprint("p", i), state.Draw(rt, "state"), by)
			}
		}

		o := g.outline()
		if want := len(g.plans) + len(g.steps) + len(g.cycles) + len(g.calls); len(o.Rows) != want {
			rt.Fatalf("%d rows, want %d\n%s", len(o.Rows), want, drawn(o, nil))
		}

		for i, r := range o.Rows {
			below := 0
			for j := i + 1; j < len(o.Rows) && o.Rows[j].Depth > r.Depth; j++ {
				below++
			}
			if r.Below != below || i > 0 && (o.Rows[r.Parent].Depth != r.Depth-1 || r.Place < 1 || r.Place > r.Siblings) {
				rt.Fatalf("row %d is %+v\n%s", i, r, drawn(o, nil))
			}
		}
	})
}

// W6: what has not ended in a run that has was left behind: it does not go on until now.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	began, now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for state, left := range map[record.State]bool{
		record.Running: false, record.Completed: true, record.Failed: true, record.Interrupted: true,
	} {
		step := &tree.Step{Record: record.AgentExecution{StepID: "s", State: new(record.Running), StartTime: &began}}
		step.Cycles = []*tree.Cycle{{Record: record.ThinkAct{StepID: "s", State: new(record.Completed)}}}
		o := outline.Of(&tree.Plan{
			Record: record.Plan{CurrentPlanID: "p", State: &state}, Steps: []*tree.Step{step},
			Waits: []*record.Wait{{WaitID: "w", State: new(record.Waiting)}},
		})

		for _, r := range o.Rows {
			if want := left && !r.State().Terminal(); r.Left != want {
				t.Errorf("in a plan that is %s, %s is left behind: %t", state, r.At, r.Left)
			}
			if _, end := r.TimesAt(now); r.Step != nil && (end == nil) != left {
				t.Errorf("in a plan that is %s, the step goes on until %v", state, end)
			}
		}
		if _, running := o.Newest(); running == left {
			t.Errorf("in a plan that is %s, a step runs: %t", state, running)
		}
	}
}
