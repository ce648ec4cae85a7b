package store_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// W1, F8: what the function, the list and the reports say of runs that end in every way.
func TestCauses(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	all := storetest.CauseCases(t, "run-")
	for _, c := range all {
		storetest.Write(t, s, c.Changes...)
	}

	for _, made := range []bool{false, true} { // found for the list, and then by upkeep
		if made {
			keepCauses(t, s)
		}

		list, err := s.Plans(t.Context(), store.PlanFilter{Limit: 1000})
		if err != nil || len(list) != len(all) {
			t.Fatalf("len(list) = %v, %v", len(list), err)
		}
		for _, c := range all {
			i := slices.IndexFunc(list, func(p store.PlanSummary) bool { return p.Record.RootPlanID == c.Root })
			if got, want := listed(&list[i]), causeWanted(&c); got != want {
				t.Errorf("%s (%s), kept %t: the list says\n%s, want\n%s", c.Name, c.Root, made, got, want)
			}
		}
	}

	for _, c := range all {
		p, err := s.Skeleton(t.Context(), "", c.Root)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := explained(tree.Explain(p)), causeWanted(&c); got != want {
			t.Errorf("%s (%s): found\n%s, want\n%s", c.Name, c.Root, got, want)
		}

		got := storetest.Query[string](t, s, `
SELECT concat_ws('|', COALESCE(cause_kind, 'NULL'), COALESCE(cause_tool, 'NULL'), COALESCE(cause_text, 'NULL'), COALESCE(recovered::text, 'NULL'))
FROM report.plan WHERE plan_id = $1 AND is_root`, c.Root)
		want := "NULL|NULL|NULL|NULL"
		if c.At != "" && !c.Asks {
			want = fmt.Sprintf("%s|%s|%s|%t", c.CauseKind(), cmp.Or(c.Tool, "NULL"), cmp.Or(c.Text, "NULL"), c.Recovered)
		}
		if got != want {
			t.Errorf("%s (%s): report.plan says %s, want %s", c.Name, c.Root, got, want)
		}

		// One failure counts once: in the row of the cause, if failures are its like.
		causes, is := 0, c.State == record.Failed || c.State == record.Interrupted
		if is {
			causes = 1
		}
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM report.failure WHERE root_plan_id = $1 AND is_cause",
			c.Root); n != causes {
			t.Errorf("%s (%s): report.failure has %d causes, want %d", c.Name, c.Root, n, causes)
		}
	}
}

// keepCauses starts upkeep, and waits until it has made the causes of all trees.
func keepCauses(t *testing.T, s *store.Store) {
	t.Helper()
	storetest.Upkeep(t, s, upkeep.Config{})
	storetest.Until(t, "all causes are made", func() bool {
		return storetest.Query[bool](t, s,
			"SELECT g.seq >= (SELECT max(c.seq) FROM actlog.change AS c) FROM actlog.cause_progress AS g")
	})
}

// say puts what is known of a cause into a line.
func say(at, kind, tool, text string, recovered, asks bool, failed int64) string {
	return fmt.Sprintf("%s kind %q tool %q text %q recovered %t asks %t failed %d", at, kind, tool, text, recovered, asks,
		failed)
}

func causeWanted(c *storetest.CauseCase) string {
	return say(c.At, c.Kind, c.Tool, c.Text, c.Recovered, c.Asks, int64(c.Failed))
}

func listed(p *store.PlanSummary) string {
	switch {
	case p.Asks != nil:
		at, _ := outline.AtOf(p.Asks)
		return say(at, "", orEmpty(p.AskingTool), "", p.Recovered, true, p.Failed)
	case p.Failure != nil:
		return failure(p.Failure, p.Recovered, p.Failed)
	}
	return say("", "", "", "", p.Recovered, false, p.Failed)
}

func explained(f *tree.Findings) string {
	switch {
	case f.Cause == nil:
		return say("", "", "", "", f.Recovered, false, int64(len(f.Failures)))
	case f.Asks() != nil:
		at, _ := outline.AtOf(f.Asks())
		return say(at, orEmpty(f.Cause.Kind), orEmpty(f.Cause.Tool), f.Cause.Text(), f.Recovered, true,
			int64(len(f.Failures)))
	}
	return failure(f.Cause, f.Recovered, int64(len(f.Failures)))
}

func failure(f *tree.Failure, recovered bool, failed int64) string {
	at, _ := outline.AtOf(f.Node().Record())
	return say(at, orEmpty(f.Kind), orEmpty(f.Tool), f.Text(), recovered, false, failed)
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestListSaysTheCause compares what the list says of trees of all shapes with what follows from their skeletons,
// whatever the order in which their rows arrived, and whether upkeep found it.
func TestListSaysTheCause(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	runs := 90
	if pgtest.Nightly() {
		runs = 300
	}

	first := map[string]string{}
	for run := range runs {
		seed := uint64(run / 3) // three orders of each tree
		changes := randomTree(rand.New(rand.NewPCG(seed, 2)), fmt.Sprint("run", run))
		rand.New(rand.NewPCG(uint64(run), 3)).Shuffle(len(changes), func(i, j int) {
			changes[i], changes[j] = changes[j], changes[i]
		})
		for half := range slices.Chunk(changes, len(changes)/2+1) {
			storetest.Write(t, s, half...)
		}
	}

	causes := 0
	for _, made := range []bool{false, true} {
		list := allPlans(t, s)
		if len(list) != runs {
			t.Fatalf("len(list) = %v", len(list))
		}

		for _, got := range list {
			root := got.Record.RootPlanID
			p, err := s.Skeleton(t.Context(), "", root)
			if err != nil {
				t.Fatal(err)
			}

			f := tree.Explain(p)
			if is, want := listed(&got), explained(f); is != want {
				t.Errorf("%s, kept %t: %s, want %s", root, made, is, want)
			}
			checkWay(t, root, f)

			number := 0
			if _, err := fmt.Sscanf(root, "run%d", &number); err != nil {
				t.Fatal(err)
			}
			plain := strings.ReplaceAll(explained(f), root, "run")
			key := fmt.Sprint(number / 3)
			if was, ok := first[key]; ok && was != plain {
				t.Errorf("%s: %s, and in another order %s", root, plain, was)
			}
			first[key] = plain

			if f.Cause != nil {
				causes++
			}
		}
		if !made {
			keepCauses(t, s)
		}
	}

	if causes < runs {
		t.Errorf("only %d causes", causes)
	}
}

// allPlans lists all root plans, in pages.
func allPlans(t *testing.T, s *store.Store) (all []store.PlanSummary) {
	t.Helper()
	for filter := (store.PlanFilter{Limit: 50}); ; filter.Before = &all[len(all)-1].Cursor {
		page, err := s.Plans(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); len(page) < filter.Limit {
			return all
		}
	}
}

// checkWay checks that the cause is on the way of what ended the run: what ended well is not above it, unless the run
// recovered.
func checkWay(t *testing.T, root string, f *tree.Findings) {
	t.Helper()
	if f.Cause == nil || f.Recovered || f.Asks() != nil {
		return
	}

	above := f.Path[:len(f.Path)-1]
	for i, n := range above {
		state := n.State()
		if state == record.Skipped && n.Call == nil || state == record.Completed && n.Cycle == nil {
			t.Errorf("%s: the cause is below a row that is %s", root, state)
		}
		if n.Step != nil && f.Path[i+1].Cycle != nil {
			if last := n.Step.Cycles[len(n.Step.Cycles)-1]; f.Path[i+1].Cycle != last {
				t.Errorf("%s: the step went on after the cause", root)
			}
		}
	}
}

// randomTree is a tree of any shape.
func randomTree(random *rand.Rand, root string) (changes []record.Change) {
	states := []record.State{
		record.Completed, record.Failed, record.Failed, record.Failed, record.Interrupted, record.Running, record.Cancelled,
		record.Skipped, record.Blocked, record.Unknown,
	}

	state := func() *record.State { return new(states[random.IntN(len(states))]) }
	kind := func() *string {
		return []*string{nil, new("tool"), new("timeout"), new("limit"), new("odd"), new("")}[random.IntN(6)]
	}
	text := func() *string {
		return []*string{
			nil, new("short"), new("a long text"), new("says: a long text"), new(`{"message": "a long text"}`),
			new(strings.Repeat("x", 40_000) + "\nend"),
		}[random.IntN(6)]
	}
	when := func(from int) (at *int) {
		if random.IntN(5) == 0 {
			return nil
		}
		return new(from + random.IntN(12))
	}

	plans, calls := []string{root}, [][2]string{}
	top := state()
	if random.IntN(2) == 0 {
		top = new(record.Failed)
	}
	changes = append(changes, &record.Plan{
		RootPlanID: root, CurrentPlanID: root, State: top, ErrorKind: kind(), ErrorMessage: text(),
	})

	for i := range 1 + random.IntN(8) {
		plan, step := plans[random.IntN(len(plans))], fmt.Sprint("step", i)
		changes = append(changes, &record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: step, State: state(), StepIndex: new(int64(random.IntN(3))),
			AgentName: &step,
			StartTime: second(when(0)), EndTime: second(when(20)), ErrorKind: kind(), ErrorMessage: text(),
		})

		for seq := range int64(random.IntN(3)) {
			changes = append(changes, &record.ThinkAct{
				RootPlanID: root, StepID: step, Seq: seq, State: state(), ThinkStartTime: second(when(10)),
				ActEndTime: second(when(20)), ErrorKind: kind(), ErrorMessage: text(),
			})
			for n := range random.IntN(4) {
				id := fmt.Sprint("call", i, "-", seq, "-", n)
				if random.IntN(10) == 0 {
					id = "again" // as other calls
				}
				calls = append(calls, [2]string{step, id})
				changes = append(changes, &record.ActTool{
					RootPlanID: root, StepID: step, Seq: seq, ToolCallID: id, Name: new(fmt.Sprint("tool", random.IntN(2))),
					State: state(), CallIndex: new(int64(n)),
					StartTime: second(when(10)), EndTime: second(when(20)), ErrorKind: kind(), ErrorMessage: text(),
				})
			}
		}

		if random.IntN(2) == 0 {
			id, call := fmt.Sprint(root, "-sub", i), new("gone")
			if len(calls) > 0 && random.IntN(5) > 0 {
				call = new(calls[random.IntN(len(calls))][1])
			}
			changes = append(changes, &record.Plan{
				RootPlanID: root, CurrentPlanID: id, ParentPlanID: &plan, ToolCallID: call, State: state(),
				StartTime: second(when(0)), EndTime: second(when(20)),
				ErrorKind: kind(), ErrorMessage: text(),
			})
			plans = append(plans, id)
		}

		if random.IntN(3) == 0 {
			w := &record.Wait{
				RootPlanID: root, PlanID: plan, WaitID: fmt.Sprint("wait", i), Title: new(fmt.Sprint("asks ", i)),
				StartTime: second(when(0)), EndTime: second(when(20)),
				State: []*record.State{
					new(record.TimedOut), new(record.TimedOut), new(record.Waiting), new(record.Approved), new(record.Cancelled),
				}[random.IntN(5)],
			}
			if len(calls) > 0 && random.IntN(3) > 0 {
				c := calls[random.IntN(len(calls))]
				w.StepID, w.ToolCallID = &c[0], &c[1]
			} else if random.IntN(2) == 0 {
				w.StepID = &step
			}
			changes = append(changes, w)
		}
	}
	return changes
}

func second(n *int) *time.Time {
	if n == nil {
		return nil
	}
	return storetest.At(*n)
}

// F8: a sub-plan has the name of the tool whose call started it, and every plan its tokens.
func TestReportsNameTheToolOfASubPlan(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "r", CurrentPlanID: "r"}, &record.AgentExecution{RootPlanID: "r", PlanID: "r", StepID: "a"},
		&record.ActTool{RootPlanID: "r", StepID: "a", Seq: 0, ToolCallID: "c", Name: new("research")},
		&record.Plan{RootPlanID: "r", CurrentPlanID: "p", ParentPlanID: new("r"), ToolCallID: new("c")},
		&record.AgentExecution{RootPlanID: "r", PlanID: "p", StepID: "b"},
		&record.ThinkAct{RootPlanID: "r", StepID: "a", Seq: 0, InputTokens: new(int64(100)), OutputTokens: new(int64(20))},
		&record.ThinkAct{RootPlanID: "r", StepID: "b", Seq: 0, InputTokens: new(int64(3)), OutputTokens: new(int64(4))})

	for id, want := range map[string]string{"r": "-|127", "p": "research|7"} {
		if got := storetest.Query[string](t, s,
			"SELECT concat_ws('|', COALESCE(tool_name, '-'), total_tokens) FROM report.plan WHERE plan_id = $1",
			id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
