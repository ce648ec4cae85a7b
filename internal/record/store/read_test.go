package store_test

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// writeTree writes steps, calls and a plan to a new tree and returns its root. The ids of steps get
// the root as a prefix. A call without an id gets "call".
func writeTree(
	t testing.TB, s *store.Store, steps []record.AgentExecution, calls []record.ActTool,
	plan func(root string) *record.Plan,
) string {
	t.Helper()
	root := record.NewPlanID()
	changes := []record.Change{plan(root)}
	for _, a := range steps {
		a.RootPlanID, a.PlanID = root, root
		a.StepID = root + a.StepID
		changes = append(changes, &a)
	}
	for _, c := range calls {
		c.RootPlanID = root
		c.StepID, c.ToolCallID = root+c.StepID, stdcmp.Or(c.ToolCallID, "call")
		changes = append(changes, &c)
	}

	storetest.Write(t, s, changes...)
	return root
}

// TestReadsAreOneStatement checks that each read is one statement, also if it finds nothing.
func TestReadsAreOneStatement(t *testing.T) {
	t.Parallel()
	var sent statementCounter
	s := storetest.Open(t, withTracer(&sent))
	root := record.NewPlanID()
	var changes []record.Change
	for i := range 20 {
		step, call := fmt.Sprintf("%s-s%d", root, i), fmt.Sprintf("%s-t%d", root, i)
		changes = append(changes,
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: step},
			&record.ActTool{RootPlanID: root, StepID: step, Seq: 3, ToolCallID: call},
			&record.Plan{RootPlanID: root, CurrentPlanID: root + fmt.Sprint(i), ParentPlanID: &root, ToolCallID: &call},
			&record.Wait{RootPlanID: root, PlanID: root, WaitID: fmt.Sprint(i)})
	}

	storetest.Write(t, s, changes...)
	storetest.PlanTree(t, s, root) // prepares the statements
	storetest.StepDetail(t, s, root+"-s0")

	for name, read := range map[string]func(){
		"tree of the root":   func() { storetest.PlanTree(t, s, root) },
		"tree of a sub-plan": func() { storetest.PlanTree(t, s, root+"7") },
		"tree of nothing":    func() { _, _, _ = s.PlanTree(t.Context(), "", "nothing") },
		"skeleton":           func() { _, _ = s.Skeleton(t.Context(), "", root) },
		"detail of a step":   func() { storetest.StepDetail(t, s, root+"-s7") },
		"detail of nothing":  func() { _, _ = s.StepDetail(t.Context(), "", "nothing") },
	} {
		if n := sent.count(read); n != 1 {
			t.Errorf("%s: %d statements", name, n)
		}
	}
}

// TestSkeleton: a skeleton is the tree with the details of its steps, but without texts. Of errors and titles it has
// the beginnings.
func TestSkeleton(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	storetest.WriteTree(t, s, root, record.Failed)

	long := strings.Repeat("ä", 1_000)
	storetest.Write(t, s, &record.Plan{
		RootPlanID: root, CurrentPlanID: root, Title: &long, Summary: &long, Metadata: json.RawMessage(`{"a":1}`),
	},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-b", Seq: 1, ToolCallID: root + "-t", ErrorMessage: &long, Parameters: &long,
		})

	got, err := s.Skeleton(t.Context(), "", root)
	if err != nil {
		t.Fatal(err)
	}
	want := storetest.PlanTree(t, s, root)
	if *got.Record.Title != long[:600] || got.Record.Summary != nil || got.Record.Metadata != nil || len(got.Waits) != 1 {
		t.Errorf("got.Record = %+v", got.Record)
	}

	var compare func(got, want *tree.Plan)
	compare = func(got, want *tree.Plan) {
		if got.Record.CurrentPlanID != want.Record.CurrentPlanID || got.Link != want.Link ||
			*got.Record.State != *want.Record.State || len(got.Steps) != len(want.Steps) ||
			len(got.SubPlans) != len(want.SubPlans) {
			t.Fatalf("s.Skeleton = %+v, want %+v", got, want)
		}

		for i, step := range want.Steps {
			detail := storetest.StepDetail(t, s, step.Record.StepID)
			for _, c := range detail.Cycles {
				c.Record.ThinkInput, c.Record.InputCharCount = nil, nil
				for _, call := range c.ToolCalls {
					call.Record.Result, call.Record.Parameters = nil, nil
				}
			}
			for _, c := range got.Steps[i].Cycles {
				c.Record.InputCharCount = nil
			}

			if diff := cmp.Diff(detail.Cycles, got.Steps[i].Cycles, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("step %s (-detail +skeleton):\n%s", step.Record.StepID, diff)
			}
			for j, sub := range step.SubPlans {
				compare(got.Steps[i].SubPlans[j], sub)
			}
		}

		for i, sub := range want.SubPlans {
			compare(got.SubPlans[i], sub)
		}
	}

	compare(got, want)
	if failed := tree.Explain(got).Failures; len(failed) != 2 || failed[0].Node().Plan == nil ||
		failed[1].Node().Call == nil {
		t.Errorf("failed = %+v", failed)
	}
}

// TestNotFound checks that a read of an unknown id returns ErrNotFound.
func TestNotFound(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)

	if _, _, err := s.PlanTree(t.Context(), "", "nothing"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("tree: %v", err)
	}
	if _, err := s.Skeleton(t.Context(), "", "nothing"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("skeleton: %v", err)
	}
	if _, err := s.StepDetail(t.Context(), "", "nothing"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("detail: %v", err)
	}
}

// TestCancelledReadIsNotAnOutage checks that a read whose context ends returns the error of the
// context, and not ErrUnavailable.
func TestCancelledReadIsNotAnOutage(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) { return context.WithDeadline(t.Context(), *at(0)) },
		"cancel": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	} {
		ctx, cancel := end()
		_, _, err := s.PlanTree(ctx, "", "p")
		if !errors.Is(err, ctx.Err()) || errors.Is(err, record.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestNewestRootWins checks that a read by an id that stands in several trees returns the newest
// tree.
func TestNewestRootWins(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	older, newer := record.NewPlanID(), record.NewPlanID()
	for _, root := range []string{older, newer} {
		storetest.Write(t, s,
			&record.Plan{
				RootPlanID: root, CurrentPlanID: "shared-plan", ParentPlanID: &root, ToolCallID: new("t"), Title: new(root),
			},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: "shared-step", AgentName: new(root)})
	}

	// A later write to the older tree does not make it the newest.
	storetest.Write(t, s, &record.ActTool{RootPlanID: older, StepID: "shared-step", Seq: 0, ToolCallID: "t"})
	if p := storetest.PlanTree(t, s, "shared-plan"); p.Record.RootPlanID != newer || *p.Record.Title != newer {
		t.Errorf("the plan is that of %s", p.Record.RootPlanID)
	}
	if st := storetest.StepDetail(t, s, "shared-step"); st.Record.RootPlanID != newer || *st.Record.AgentName != newer ||
		len(st.Cycles) != 0 {
		t.Errorf("the step is that of %s", st.Record.RootPlanID)
	}
}

// TestRepeatedToolCallID checks that a sub-plan hangs under the first of several calls with its
// tool call id. Calls are ordered by the start of their step, nulls last, then the id of the step,
// then seq.
func TestRepeatedToolCallID(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for name, tt := range map[string]struct {
		steps    []record.AgentExecution
		calls    []record.ActTool
		wantStep string
		wantSeq  int64
	}{
		"the step that started first": {
			[]record.AgentExecution{{StepID: "a", StartTime: at(5)}, {StepID: "b", StartTime: at(3)}, {StepID: "c"}},
			[]record.ActTool{{StepID: "c", Seq: 0}, {StepID: "a", Seq: 0}, {StepID: "b", Seq: 4}}, "b", 4,
		},
		"the first seq": {
			[]record.AgentExecution{{StepID: "a", StartTime: at(3)}},
			[]record.ActTool{{StepID: "a", Seq: 2}, {StepID: "a", Seq: 1}, {StepID: "a", Seq: 3}}, "a", 1,
		},
		"the first step by id if no start is known": {
			[]record.AgentExecution{{StepID: "b"}, {StepID: "a"}},
			[]record.ActTool{{StepID: "b", Seq: 0}, {StepID: "a", Seq: 1}}, "a", 1,
		},
	} {
		root := writeTree(t, s, tt.steps, tt.calls, func(root string) *record.Plan {
			return &record.Plan{RootPlanID: root, CurrentPlanID: root + "p", ParentPlanID: &root, ToolCallID: new("call")}
		})

		p := storetest.PlanTree(t, s, root)
		for _, st := range p.Steps {
			for _, sub := range st.SubPlans {
				if st.Record.StepID != root+tt.wantStep || sub.ToolCall.Record.Seq != tt.wantSeq || sub.Link != tree.LinkToolCall {
					t.Errorf("%s: the sub-plan hangs under %s, cycle %d", name, st.Record.StepID, sub.ToolCall.Record.Seq)
				}
			}
		}

		plans := 0
		for range p.Children() {
			plans++
		}
		if plans != 1 {
			t.Errorf("%s: %d sub-plans", name, plans)
		}
	}
}

// TestSubPlansOfOneCall checks that one tool call can have several sub-plans, ordered by their
// start.
func TestSubPlansOfOneCall(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()

	storetest.Write(t, s,
		&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "t", Name: new("parallel")},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "b", ParentPlanID: &root, ToolCallID: new("t"), StartTime: at(1),
		},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "a", ParentPlanID: &root, ToolCallID: new("t"), StartTime: at(2),
		})

	var got []string
	for _, p := range storetest.PlanTree(t, s, root).Steps[0].SubPlans {
		got = append(got, p.Record.CurrentPlanID+" "+*p.ToolCall.Record.Name)
	}
	if diff := cmp.Diff([]string{root + "b parallel", root + "a parallel"}, got); diff != "" {
		t.Errorf("sub-plans (-want +got):\n%s", diff)
	}
}

// TestPlaceholders checks that a row makes placeholders for its missing parents, and that a step
// moves when a change names its plan.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	storetest.Write(t, s, &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 2, ToolCallID: "t"})

	st := storetest.StepDetail(t, s, root+"s")
	if len(st.Cycles) != 1 || st.Cycles[0].Record.Seq != 2 || len(st.Cycles[0].ToolCalls) != 1 ||
		st.Record.PlanID != root {
		t.Errorf("a tool call alone makes step %+v with %d cycles", st.Record, len(st.Cycles))
	}
	if *st.Record.State != record.Idle || *st.Cycles[0].Record.State != record.Pending {
		t.Errorf("states of placeholders: %s, %s", *st.Record.State, *st.Cycles[0].Record.State)
	}
	if p := storetest.PlanTree(t, s, root); len(p.Steps) != 1 || *p.Record.State != record.Pending {
		t.Errorf("the root shows %d steps", len(p.Steps))
	}

	storetest.Write(t, s, &record.Plan{
		RootPlanID: root, CurrentPlanID: root + "c", ParentPlanID: new(root + "b"), ToolCallID: new("u"),
	})
	b := storetest.PlanTree(t, s, root+"b")
	if len(b.SubPlans) != 1 || b.SubPlans[0].Record.CurrentPlanID != root+"c" || b.Link != tree.LinkInferred {
		t.Errorf("the placeholder of the parent = %+v", b)
	}

	// Until a change names its plan, the step is shown under the root.
	storetest.Write(t, s, &record.AgentExecution{RootPlanID: root, PlanID: root + "d", StepID: root + "s"})
	if p := storetest.PlanTree(t, s, root); len(p.Steps) != 0 || len(storetest.PlanTree(t, s, root+"d").Steps) != 1 {
		t.Errorf("the root still shows %d steps", len(p.Steps))
	}
}

// TestOpenWait checks which open wait the plans of a tree show: user input first, then the
// earliest.
func TestOpenWait(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	sub := root + "sub"

	wait := func(id string, w record.Wait) {
		w.RootPlanID, w.PlanID = root, sub
		w.WaitID = id
		storetest.Write(t, s, &w)
	}
	shown := func(plan string) string {
		w := storetest.PlanTree(t, s, plan).Wait
		if w == nil {
			return ""
		}
		return w.WaitID
	}
	expect := func(when, want string) {
		t.Helper()
		for _, plan := range []string{root, sub} { // every plan shows the wait of its tree
			if got := shown(plan); got != want {
				t.Errorf("%s: %s shows %q, want %q", when, plan, got, want)
			}
		}
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: new("t")})
	expect("without a wait", "")
	wait("approval", record.Wait{Type: new(record.WaitActionValidation), StartTime: at(1)})
	expect("with an approval", "approval")
	wait("later", record.Wait{Type: new(record.WaitUserInput), StartTime: at(7), FormInputs: []byte(`[{"label":"x"}]`)})
	expect("with a wait for input", "later")
	wait("earlier", record.Wait{StartTime: at(5)})
	expect("with an earlier wait of the default type, which is input", "earlier")

	if w := storetest.PlanTree(t, s, root).Wait; w.PlanID != sub || w.RootPlanID != root {
		t.Errorf("the wait = %+v", w)
	}
	wait("earlier", record.Wait{State: new(record.Submitted)})
	expect("after one was answered", "later")
	if w := storetest.PlanTree(t, s, root).Wait; string(w.FormInputs) != `[{"label":"x"}]` {
		t.Errorf("form = %s", w.FormInputs)
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Cancelled)})
	if got := shown(root); got != "" {
		t.Errorf("a cancelled plan shows wait %s", got)
	}
}

// TestOpenWaitOfAnotherPlan checks that a plan shows the open wait of its tree although it has ended
// itself: while the root lives, and after that while the plan that waits runs (N12). In the reports the
// same waits are open, and plans that have not ended wait for a human: the one that waits, and the root.
func TestOpenWaitOfAnotherPlan(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, tt := range []struct {
		root, sub record.State
		waits     string // the root or the sub-plan
		shown     bool
	}{
		{record.Running, record.Completed, "root", true},
		{record.Pending, record.Failed, "root", true},
		{record.Running, record.Failed, "sub", true},
		{record.Completed, record.Running, "sub", true},
		{record.Completed, record.Waiting, "sub", true},
		{record.Completed, record.Paused, "sub", true},
		{record.Completed, record.Pending, "sub", false}, // never began
		{record.Completed, record.Running, "root", false},
		{record.Completed, record.Completed, "sub", false},
		{record.Interrupted, record.Interrupted, "root", false},
	} {
		root := record.NewPlanID()
		sub := root + "sub"
		storetest.Write(t, s,
			&record.Plan{RootPlanID: root, CurrentPlanID: root, State: &tt.root},
			&record.Plan{RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &root, ToolCallID: new("t"), State: &tt.sub},
			&record.Wait{RootPlanID: root, PlanID: map[string]string{"root": root, "sub": sub}[tt.waits], WaitID: "w"})

		for _, plan := range []string{root, sub} {
			if got := storetest.PlanTree(t, s, plan).Wait != nil; got != tt.shown {
				t.Errorf("root %s, sub-plan %s, the %s waits: %s shows it: %v", tt.root, tt.sub, tt.waits, plan, got)
			}
		}
		if got := storetest.Query[bool](t, s, "SELECT open FROM report.wait WHERE root_plan_id = $1", root); got != tt.shown {
			t.Errorf("root %s, sub-plan %s, the %s waits: open in report.wait: %v", tt.root, tt.sub, tt.waits, got)
		}

		var waiting []string
		for _, plan := range []struct {
			id    string
			state record.State
			waits bool
		}{{root, tt.root, tt.shown}, {sub, tt.sub, tt.shown && tt.waits == "sub"}} {
			if !plan.state.Terminal() {
				waiting = append(waiting, fmt.Sprint(plan.id, " ", plan.waits))
			}
		}
		if diff := cmp.Diff(waiting, storetest.Lines(t, s.DB().Pool,
			"SELECT concat(plan_id, ' ', waits_for_human::text) FROM report.running WHERE root_plan_id = $1 ORDER BY plan_id",
			root), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("root %s, sub-plan %s, the %s waits (-want +got in report.running):\n%s", tt.root, tt.sub, tt.waits, diff)
		}
	}
}

// TestStructureResult checks that the result of a plan that has ended is the result of the last
// call of the last cycle of the last step. Nulls are last in each order.
func TestStructureResult(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for name, tt := range map[string]struct {
		state record.State
		steps []record.AgentExecution
		calls []record.ActTool
		want  string
	}{
		"a running plan": {record.Running, nil, []record.ActTool{{StepID: "a", Result: new("x")}}, ""},
		"no calls":       {record.Completed, []record.AgentExecution{{StepID: "a"}}, nil, ""},
		"the last step by index": {record.Completed,
			[]record.AgentExecution{
				{StepID: "b", StepIndex: new(int64(0)), StartTime: at(9)},
				{StepID: "a", StepIndex: new(int64(1)), StartTime: at(1)},
			},
			[]record.ActTool{{StepID: "a", Result: new("a")}, {StepID: "b", Result: new("b")}}, "a"},
		"a step without an index is last": {record.Completed,
			[]record.AgentExecution{{StepID: "b"}, {StepID: "a", StepIndex: new(int64(1))}},
			[]record.ActTool{{StepID: "a", Result: new("a")}, {StepID: "b", Result: new("b")}}, "b"},
		"then by start, nulls last": {record.Failed,
			[]record.AgentExecution{{StepID: "a"}, {StepID: "b", StartTime: at(1)}},
			[]record.ActTool{{StepID: "a", Result: new("a")}, {StepID: "b", Result: new("b")}}, "a"},
		"the last cycle": {record.Completed, nil,
			[]record.ActTool{{StepID: "a", Seq: 9, Result: new("nine")}, {StepID: "a", Seq: 10, Result: new("ten")}}, "ten"},
		"the last cycle, even if its call has no result": {record.Completed, nil,
			[]record.ActTool{{StepID: "a", Seq: 1, Result: new("one")}, {StepID: "a", Seq: 2}}, ""},
		"the last call by index": {record.Completed, nil,
			[]record.ActTool{
				{StepID: "a", ToolCallID: "b", CallIndex: new(int64(0)), Result: new("b")},
				{StepID: "a", ToolCallID: "a", CallIndex: new(int64(1)), Result: new("a")},
			}, "a"},
		"then by start, then by id": {record.Completed, nil,
			[]record.ActTool{
				{StepID: "a", ToolCallID: "a", StartTime: at(2), Result: new("a")},
				{StepID: "a", ToolCallID: "b", StartTime: at(2), Result: new("b")},
				{StepID: "a", ToolCallID: "c", StartTime: at(1), Result: new("c")},
			}, "b"},
	} {
		root := writeTree(t, s, tt.steps, tt.calls, func(root string) *record.Plan {
			return &record.Plan{RootPlanID: root, CurrentPlanID: root, State: &tt.state}
		})

		got := ""
		if r := storetest.PlanTree(t, s, root).StructureResult; r != nil {
			got = *r
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestOrderOfDetail checks that cycles are ordered by seq, and calls by index, start and id. A
// cycle with several calls has its texts.
func TestOrderOfDetail(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	step := root + "s"
	call := func(seq int64, id string, index *int64, second int) record.Change {
		c := &record.ActTool{RootPlanID: root, StepID: step, Seq: seq, ToolCallID: id, CallIndex: index}
		if second > 0 {
			c.StartTime = at(second)
		}
		return c
	}

	storetest.Write(t, s,
		call(10, "z", nil, 0), call(2, "f", nil, 0), call(2, "e", nil, 0), call(2, "d", nil, 3), call(2, "c", nil, 2),
		call(2, "b", new(int64(1)), 1), call(2, "a", new(int64(0)), 9),
		&record.ThinkAct{RootPlanID: root, StepID: step, Seq: 3, ThinkInput: new("no calls")},
		&record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: 2, ThinkInput: new("in"), ThinkOutput: new("out"), ErrorMessage: new("err"),
			Metadata: []byte(`{"a":1}`),
		})

	st := storetest.StepDetail(t, s, step)
	var got []string
	for _, c := range st.Cycles {
		got = append(got, fmt.Sprint(c.Record.Seq))
		for _, tool := range c.ToolCalls {
			got = append(got, tool.Record.ToolCallID)
		}
	}

	if want := []string{"2", "a", "b", "c", "d", "e", "f", "3", "10", "z"}; !slices.Equal(got, want) {
		t.Errorf("cycles and calls %q, want %q", got, want)
	}
	if c := st.Cycles[0].Record; *c.ThinkInput != "in" || *c.ThinkOutput != "out" || *c.ErrorMessage != "err" ||
		string(c.Metadata) != `{"a":1}` {
		t.Errorf("texts of a cycle with six calls: %+v", c)
	}
}

// TestListOfPlans checks the filters and pages of the list of plans: root plans with their figures,
// the newest first.
func TestListOfPlans(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var ids []string
	for i := range 7 {
		root := fmt.Sprintf("plan-%d", i)
		state, project := record.Running, new("other")
		if i%2 == 0 {
			state, project = record.Completed, nil
		}

		storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: &state, Project: project},
			&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new("t")},
			&record.ThinkAct{RootPlanID: root, StepID: root + "-s", InputTokens: new(int64(i))})
		ids = append(ids, root)
	}

	// Three plans get the same time, so their ids decide.
	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = (SELECT max(first_seen_at) FROM "+
		"actlog.plan_execution_record) WHERE root_plan_id >= 'plan-4'")
	slices.Reverse(ids)

	pages := func(f store.PlanFilter) (got []string) {
		for {
			page, err := s.Plans(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range page {
				got = append(got, p.Record.CurrentPlanID)
				if p.Total.InputTokens != int64(p.Cursor.RootPlanID[5]-'0') || p.Steps != 1 {
					t.Errorf("%s: %d tokens in %d steps", p.Cursor.RootPlanID, p.Total.InputTokens, p.Steps)
				}
			}

			if len(page) < f.Limit {
				return got
			}
			f.Before = &page[len(page)-1].Cursor
		}
	}

	for _, tt := range []struct {
		filter store.PlanFilter
		want   []string
	}{
		{store.PlanFilter{Limit: 2}, ids},
		{store.PlanFilter{Limit: 100}, ids},
		{store.PlanFilter{Limit: 2, State: record.Completed}, []string{"plan-6", "plan-4", "plan-2", "plan-0"}},
		{store.PlanFilter{Limit: 1, Project: "other"}, []string{"plan-5", "plan-3", "plan-1"}},
		{store.PlanFilter{Limit: 3, Project: "default"}, []string{"plan-6", "plan-4", "plan-2", "plan-0"}},
		{store.PlanFilter{Limit: 3, Project: "default", State: record.Running}, nil},
	} {
		if diff := cmp.Diff(tt.want, pages(tt.filter)); diff != "" {
			t.Errorf("tt.filter = %+v (-want +got):\n%s", tt.filter, diff)
		}
	}
}

// TestListOfAnAgent lists the plans in whose trees an agent works, each once: of an agent with few steps, which are
// looked up, and of one with so many that its plans are found among all.
func TestListOfAnAgent(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)

	storetest.Exec(t, s, `
INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, start_time)
	SELECT 'run-' || r, 'run-' || r, DATE '2026-01-05', now() - r * INTERVAL '1 hour' FROM generate_series(1, 4) AS r`)

	storetest.Exec(t, s, `
INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part, agent_name)
	SELECT 'run-' || r, 'step-' || r || '-' || i, DATE '2026-01-05', agent
	FROM (VALUES (1, 'few', 2), (3, 'few', 1), (2, 'many', 5001), (3, 'many', 1), (4, NULL, 1)) AS v (r, agent, steps), generate_series(1, steps) AS i
	ON CONFLICT DO NOTHING;
INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part, agent_name) VALUES ('run-3', 'step-many', DATE '2026-01-05', 'many')`)

	for agent, want := range map[string][]string{
		"few": {"run-1", "run-3"}, "many": {"run-2", "run-3"}, "nobody": nil, "FEW": nil,
	} {
		var got []string
		filter := store.PlanFilter{Agent: agent, Limit: 1}
		for {
			page, err := s.Plans(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page[0].Record.CurrentPlanID)
			filter.Before = &page[0].Cursor
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("plans of agent %s (-want +got):\n%s", agent, diff)
		}
	}
}

// TestExceptionIsServedOnce checks that one of many concurrent readers receives the exception of a
// plan. Another text makes it available again; the same text does not. It expires.
func TestExceptionIsServedOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	stores := []*store.Store{storetest.OpenURL(t, url), storetest.OpenURL(t, url)}
	root := record.NewPlanID()

	serve := func() int64 {
		var served atomic.Int64
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				message, found, err := stores[i%2].ServeException(t.Context(), root, root)
				if err != nil {
					t.Error(err)
				}
				if found != (message != "") {
					t.Errorf("found %v, message %q", found, message)
				}
				if found {
					served.Add(1)
				}
			})
		}

		wg.Wait()
		return served.Load()
	}

	waits := func() bool {
		_, w, err := stores[0].PlanTree(t.Context(), "", root)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}

	storetest.Write(t, stores[0], &record.Plan{RootPlanID: root, CurrentPlanID: root})
	if n := serve(); n != 0 || waits() {
		t.Errorf("without an exception %d were served", n)
	}

	for _, message := range []string{"first", "second"} {
		for i, want := range []int64{1, 0} {
			storetest.Write(t, stores[i], &record.Plan{RootPlanID: root, CurrentPlanID: root, Exception: &message})
			if waits() != (want == 1) {
				t.Errorf("%s, written %d times: waits = %v", message, i+1, waits())
			}
			if n := serve(); n != want {
				t.Errorf("%s, written %d times: served %d times, want %d", message, i+1, n, want)
			}
		}
	}

	storetest.Write(t, stores[0], &record.Plan{RootPlanID: root, CurrentPlanID: root, Exception: new("third")})
	storetest.Exec(t, stores[0], "UPDATE actlog.plan_execution_record SET exception_at = exception_at - interval '11 "+
		"minutes'")
	if n := serve(); n != 0 || waits() {
		t.Error("an old exception was served")
	}
}

// TestTreeOfAnotherPeriod checks the reads of a tree whose detail does not lie in the period that
// its id names. Each read takes a second statement then.
func TestTreeOfAnotherPeriod(t *testing.T) {
	t.Parallel()
	var sent statementCounter
	s := storetest.Open(t, withTracer(&sent))
	for name, id := range map[string]string{
		"an id of another time": "plan-01900000-0000-7000-8000-000000000000",
		"an id without a time":  "mine",
	} {
		storetest.Write(t, s,
			&record.ActTool{RootPlanID: id, StepID: id + "s", Seq: 1, ToolCallID: "t", Result: new("x")},
			&record.Plan{RootPlanID: id, CurrentPlanID: id + "sub", ParentPlanID: &id, ToolCallID: new("t")},
			&record.Plan{RootPlanID: id, CurrentPlanID: id, State: new(record.Completed)})

		// Move the tree into an old period.
		storetest.Exec(t, s, "SELECT actlog.add_partition(t, '2025-12-29', '2026-01-05') FROM "+
			"unnest(ARRAY['think_act_record', 'act_tool_info']) AS t WHERE to_regclass('actlog.' || t || '_p20251229') IS NULL")
		for _, table := range []string{
			"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info",
		} {
			storetest.Exec(t, s, "UPDATE actlog."+table+" SET part = '2026-01-01' WHERE root_plan_id = $1", id)
		}

		storetest.PlanTree(t, s, id)
		storetest.StepDetail(t, s, id+"s") // prepares the statements
		var p *tree.Plan
		var st *tree.Step
		if n := sent.count(func() { p, st = storetest.PlanTree(t, s, id), storetest.StepDetail(t, s, id+"s") }); n != 4 {
			t.Errorf("%s: %d statements", name, n)
		}

		if *p.StructureResult != "x" || p.Steps[0].SubPlans[0].Link != tree.LinkToolCall {
			t.Errorf("%s: the tool call is missing in the tree %+v", name, p)
		}
		if len(st.Cycles) != 1 || len(st.Cycles[0].ToolCalls) != 1 {
			t.Errorf("%s: the detail of the step is missing", name)
		}
	}
}
