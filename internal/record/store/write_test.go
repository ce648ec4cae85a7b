package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestWriteThenRead checks that the reads return what was written, with roll-ups and counts.
func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()

	storetest.Write(t, s,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("Quarterly report"), State: new(record.Running), StartTime: at(1),
			Tags: []string{`a "quoted"`, `back\slash`, ""},
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-s1", StepIndex: new(int64(0)), AgentName: new("collector"),
			State: new(record.Running), StartTime: at(2),
		},
		&record.ThinkAct{
			RootPlanID: root, StepID: root + "-s1", Seq: 0, ThinkStartTime: at(2), ThinkEndTime: at(4),
			ThinkInput: new("héllo"), InputTokens: new(int64(10)), CostUSD: new(0.25),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-s1", Seq: 0, ToolCallID: root + "-t1", Name: new("fetch"),
			Parameters: new(`{"q":1}`), State: new(record.Failed), StartTime: at(4), EndTime: at(7),
			Metadata: json.RawMessage(`{ "b":1, "a":2 }`),
		},
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root + "-p2", ParentPlanID: &root, ToolCallID: new(root + "-t1"), StartTime: at(5),
		},
	)

	p := storetest.PlanTree(t, s, root)
	if got := p.Record.Tags; !slices.Equal(got, []string{`a "quoted"`, `back\slash`, ""}) {
		t.Errorf("tags = %q", got)
	}
	if len(p.Steps) != 1 || len(p.Steps[0].SubPlans) != 1 {
		t.Fatalf("tree = %+v", p)
	}

	f := p.Figures
	if f.ModelCalls != 1 || f.ToolCalls != 1 || f.Failures != 1 || f.InputTokens != 10 || *f.CostUSD != 0.25 ||
		f.ThinkMs != 2000 || f.ToolMs != 3000 {
		t.Errorf("figures = %+v", f)
	}

	st := storetest.StepDetail(t, s, root+"-s1")
	if n := len(st.Cycles); n != 1 {
		t.Fatalf("%d cycles", n)
	}
	if c := st.Cycles[0].Record; *c.InputCharCount != 5 || c.OutputCharCount != nil {
		t.Errorf("character counts = %v, %v", *c.InputCharCount, c.OutputCharCount)
	}

	if m := string(st.Cycles[0].ToolCalls[0].Record.Metadata); m != `{"b":1,"a":2}` {
		t.Errorf("metadata = %s", m)
	}
	if *st.LatestToolName != "fetch" || *st.LatestToolArgs != `{"q":1}` || st.LatestRound != 1 {
		t.Errorf("latest = %v %v %d", *st.LatestToolName, *st.LatestToolArgs, st.LatestRound)
	}
}

// testTree draws changes to a tree of few rows, so that changes meet, contradict each other and
// come before their parents.
type testTree struct{ root string }

func (u testTree) id(prefix string, n int) string { return fmt.Sprintf("%s-%s%d", u.root, prefix, n) }

// change draws a change. The value of a field depends only on its name and on the version, so that
// changes of one version never contradict each other.
func (u testTree) change(t *rapid.T, version func() int) record.Change {
	k := rapid.SampledFrom([]record.Kind{record.KindPlan, record.KindPlan, record.KindAgentExecution,
		record.KindAgentExecution,
		record.KindThinkAct, record.KindThinkAct, record.KindActTool, record.KindActTool, record.KindWait}).Draw(t, "kind")
	n := rapid.IntRange(0, 2)
	c := record.New(k)
	v := version()

	for _, f := range field.Fields(k) {
		if f.Key || f.Role == field.Revision || !f.Sent() || f.Name == "planId" || !rapid.Bool().Draw(t, f.Name) {
			continue
		}
		if f.Name == "forkedFrom" && rapid.IntRange(0, 5).Draw(t, "copies") > 0 { // else hardly a row would count
			continue
		}
		setField(f, c, v)
	}

	if field.HasAttempts(k) { // of one version, too, several attempts
		var attempt *int64
		if n := rapid.IntRange(0, 3).Draw(t, "attempt"); n > 0 {
			attempt = new(int64(n))
		}
		reflect.ValueOf(c).Elem().FieldByName("Attempt").Set(reflect.ValueOf(attempt))
	}

	switch c := c.(type) {
	case *record.Plan:
		c.RootPlanID, c.CurrentPlanID = u.root, u.root
		c.ParentPlanID, c.ToolCallID = nil, nil
		c.Exception = nil
		if p := n.Draw(t, "plan"); p > 0 {
			c.CurrentPlanID, c.StartedBy = u.id("p", p), nil
			if rapid.Bool().Draw(t, "link") {
				c.ParentPlanID, c.ToolCallID = new(u.id("p", 3-p)), new(u.id("t", (p+v)%3))
			}
		}
	case *record.AgentExecution:
		s := n.Draw(t, "step")
		c.RootPlanID, c.PlanID = u.root, u.id("p", 1+(s+v)%2)
		c.StepID = u.id("s", s)
	case *record.ThinkAct:
		c.RootPlanID = u.root
		c.StepID, c.Seq = u.id("s", n.Draw(t, "step")), int64(n.Draw(t, "seq"))
	case *record.ActTool:
		tool := n.Draw(t, "tool")
		c.RootPlanID, c.StepID = u.root, u.id("s", tool)
		c.Seq, c.ToolCallID = int64(tool%2), u.id("t", tool)
	case *record.Wait:
		c.RootPlanID, c.PlanID = u.root, u.root
		c.WaitID = u.id("w", n.Draw(t, "wait"))
	}
	return c
}

// setField sets a field to a value that depends on its name and the version.
func setField(f *field.Field, c record.Change, version int) {
	v := f.In(c)
	set := func(value any) {
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(reflect.ValueOf(value).Convert(v.Type().Elem()))
		v.Set(p)
	}

	switch {
	case f.Rule == field.Forward:
		states := record.States(c.Kind())
		set(states[(version*5)%len(states)])
	case f.Name == "type" && c.Kind() == record.KindWait:
		set([]record.WaitType{record.WaitUserInput, record.WaitPlanValidation}[version%2])
	case f.IsList():
		v.SetBytes(fmt.Appendf(nil, `[{"label":"%d"}]`, version))
	case f.Name == "startedBy":
		v.SetBytes(fmt.Appendf(nil, `{"planId":"p%d"}`, version))
	case f.Type == field.JSON:
		v.SetBytes(fmt.Appendf(nil, `{"v":%d}`, version))
	case f.Type == field.Texts:
		v.Set(reflect.ValueOf([]string{fmt.Sprint(version), "x"}))
	case f.Type == field.Time:
		set(at(len(f.Name) + version).UTC())
	case f.Type == field.Int:
		set(int64(1 + version))
	case f.Type == field.Float:
		set(1 / float64(2+version)) // Postgres keeps 15 digits
	case f.Name == "traceId":
		set(fmt.Sprintf("%032x", 1+version))
	case f.Pieces != nil: // long enough for pages, where everything is cut
		set(strings.Repeat("What was said before. ", 60) + fmt.Sprintf("%s %d ", f.Name, version) +
			strings.Repeat(fmt.Sprintf("Turn %d. ", version), 100))
	default:
		set(fmt.Sprintf("%s %d", f.Name, version))
	}
}

// TestAnyOrderAnySplitAnyRepetition checks the promise of Write: the reads return the same whatever
// the order of the changes, their split into calls and their repetitions. It also makes no
// difference whether a statement names few columns or all of them, or whether rows are copied.
func TestAnyOrderAnySplitAnyRepetition(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	url := pgtest.New(t).URL
	s, whole := store.AllShapes(storetest.OpenURL(t, url)), storetest.OpenURL(t, url)
	copying := store.CopyNew(storetest.OpenURL(t, url))
	store.WriteWhole(whole)
	store.DoubtNothing(s)

	for name, draw := range map[string]func(*rapid.T, testTree) record.Change{
		"without contradictions": func(rt *rapid.T, u testTree) record.Change {
			return u.change(rt, func() int { return 1 })
		},
		"contradictions with revisions": func(rt *rapid.T, u testTree) record.Change {
			c := u.change(rt, func() int { return rapid.IntRange(0, 3).Draw(rt, "version") })
			reflect.ValueOf(c).Elem().FieldByName("Rev").Set(reflect.ValueOf(new(int64(rapid.IntRange(1, 4).Draw(rt, "rev")))))
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				u := testTree{record.NewPlanID()}
				var changes []record.Change
				for range rapid.IntRange(1, 12).Draw(rt, "changes") {
					changes = append(changes, draw(rt, u))
				}

				storetest.Write(t, rapid.SampledFrom([]*store.Store{whole, copying}).Draw(rt, "first by"), changes...)
				want := storetest.Dump(t, s, u.root) + keptAttempts(t, s, u.root)

				other := testTree{record.NewPlanID()}
				moved := make([]record.Change, len(changes))
				for i, c := range changes {
					moved[i] = replaceRoot(c, u.root, other.root)
				}

				shuffled := rapid.Permutation(slices.Concat(moved, moved)).Draw(rt, "order")
				for len(shuffled) > 0 {
					n := rapid.IntRange(1, len(shuffled)).Draw(rt, "cut")
					storetest.Write(t, rapid.SampledFrom([]*store.Store{s, s, whole, copying}).Draw(rt, "by"), shuffled[:n]...)
					shuffled = shuffled[n:]
				}
				if diff := cmp.Diff(want, storetest.Dump(t, s, other.root)+keptAttempts(t, s, other.root)); diff != "" {
					rt.Fatalf("the reads differ (-one write +shuffled):\n%s", diff)
				}
			})
		})
	}
	t.Cleanup(func() { storetest.CheckKept(t, s) }) // after the parallel tests
}

// keptAttempts returns the earlier attempts at everything in a tree as they are kept, with their
// revisions.
func keptAttempts(t testing.TB, s *store.Store, root string) string {
	t.Helper()
	return strings.ReplaceAll(strings.Join(storetest.Lines(t, s.DB(), `
		SELECT concat_ws(' ', x.step_id, x.attempts) FROM actlog.agent_execution_record AS x WHERE x.root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', x.step_id, x.seq, x.attempts) FROM actlog.think_act_record AS x WHERE x.root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', x.step_id, x.seq, x.tool_call_id, x.attempts) FROM actlog.act_tool_info AS x WHERE x.root_plan_id = $1
		ORDER BY 1`, root), "\n"), root, "ROOT")
}

// replaceRoot returns the same change to another tree.
func replaceRoot(c record.Change, from, to string) record.Change {
	out := field.CloneChange(c)
	for _, f := range field.Fields(c.Kind()) {
		text, ok := f.Text(out)
		if !ok {
			continue
		}

		v := f.In(out)
		text = strings.ReplaceAll(text, from, to)
		if v.Kind() == reflect.Pointer {
			p := reflect.New(v.Type().Elem())
			p.Elem().SetString(text)
			v.Set(p)
		} else {
			v.SetString(text)
		}
	}
	return out
}

// TestRepeatWritesNothing checks that a repeated write alters no row, whether the first one was
// merged or copied.
func TestRepeatWritesNothing(t *testing.T) {
	t.Parallel()
	t.Run("merged", func(t *testing.T) {
		t.Parallel()
		checkRepeat(t, storetest.Open(t))
	})
	t.Run("copied at first", func(t *testing.T) {
		t.Parallel()
		checkRepeat(t, store.CopyNew(storetest.Open(t)))
	})
}

func checkRepeat(t *testing.T, s *store.Store) {
	t.Helper()
	root := record.NewPlanID()
	changes := []record.Change{
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Rev: new(int64(5)), Title: new("x"), State: new(record.Running),
			StartTime: at(1), Tags: []string{"a"}, Metadata: json.RawMessage(`{}`),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "s", Attempt: new(int64(2)), EndTime: at(3),
			State: new(record.Failed),
		},
		&record.ThinkAct{
			RootPlanID: root, StepID: root + "s", Seq: 1, ThinkInput: new(strings.Repeat("x", record.MaxTextBytes+1)),
			CostUSD: new(2.0 / 3),
		},
		&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 1, ToolCallID: "t", Name: new("n"), EndTime: at(3)},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w", Title: new("t")},
	}
	storetest.Write(t, s, changes...)

	versions := func() (all []string) {
		for _, table := range []string{
			"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "wait_state",
		} {
			all = append(all, storetest.Query[string](t, s, "SELECT string_agg(xmin::text, ',' ORDER BY id) FROM actlog."+table))
		}
		return all
	}

	before := versions()
	storetest.Write(t, s, changes...)
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("row versions (-before +after):\n%s", diff)
	}
}

// TestGoodRecordsBesideBadOnes checks that a write refuses invalid changes, says why, and commits
// the others.
func TestGoodRecordsBesideBadOnes(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	long := strings.Repeat("x", 300)
	result, err := s.Write(t.Context(), []record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("good")},
		&record.Plan{RootPlanID: long, CurrentPlanID: long},
		&record.Plan{RootPlanID: root},
		&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.State("DONE"))},
		&record.Plan{RootPlanID: root, CurrentPlanID: root, ParentPlanID: new("p"), ToolCallID: new("t")},
		&record.ThinkAct{RootPlanID: root, StepID: "s", Seq: -1},
		&record.AgentExecution{RootPlanID: root, StepID: "s"},
		&record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 0, ThinkInput: new("nul\x00 and \xff\xfe")},
	})
	if err != nil {
		t.Fatal(err)
	}

	type refusal struct {
		Index int
		Code  record.Code
		Field string
	}
	var got []refusal
	for _, r := range result.Rejected {
		got = append(got, refusal{r.Index, r.Err.Code, r.Err.Field})
	}
	want := []refusal{
		{1, record.CodeInvalidValue, "rootPlanId"},
		{2, record.CodeMissingField, "currentPlanId"},
		{3, record.CodeInvalidValue, "state"},
		{4, record.CodeInvalidRelation, "rootPlanId"},
		{5, record.CodeInvalidValue, "seq"},
		{6, record.CodeMissingField, "planId"},
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if result.Accepted != 2 {
		t.Errorf("accepted %d", result.Accepted)
	}
	if p := storetest.PlanTree(t, s, root); *p.Record.Title != "good" {
		t.Errorf("plan = %+v", p.Record)
	}
	if in := *storetest.StepDetail(t, s, root+"s").Cycles[0].Record.ThinkInput; in != "nul\uFFFD and \uFFFD" {
		t.Errorf("think input = %q", in)
	}
}

// TestDatabaseRefusesOne checks a change that passes all checks and is refused by Postgres. The
// batch is split until the change stands alone, and the others are committed.
func TestDatabaseRefusesOne(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Exec(t, s, "ALTER TABLE actlog.plan_execution_record ADD CONSTRAINT unforeseen CHECK (title <> 'bad')")
	t.Cleanup(func() { storetest.Exec(t, s, "ALTER TABLE actlog.plan_execution_record DROP CONSTRAINT unforeseen") })
	root := record.NewPlanID()

	var changes []record.Change
	for i := range 50 {
		title := "good"
		if i == 17 || i == 33 {
			title = "bad"
		}
		id := fmt.Sprintf("%s-%d", root, i/2) // two changes per plan
		changes = append(changes, &record.Plan{RootPlanID: id, CurrentPlanID: id, Title: &title, Summary: new("s")})
	}

	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(refused(result), []int{17, 33}) || result.Accepted != 48 {
		t.Fatalf("result = %+v", result)
	}
	for i := range 25 {
		if p := storetest.PlanTree(t, s, fmt.Sprintf("%s-%d", root, i)); *p.Record.Title != "good" {
			t.Errorf("title of plan %d = %q", i, *p.Record.Title)
		}
	}
}

// TestConcurrentWriters checks that a hundred writers can write to one plan, its steps and the same
// cycles at once, through two stores, without a deadlock or a lost field.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t).URL
	stores := []*store.Store{storetest.OpenURL(t, db), store.CopyNew(storetest.OpenURL(t, db))}
	root := record.NewPlanID()
	const writers, rounds = 100, 5

	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				step := fmt.Sprintf("%s-s%d", root, (w+r)%10)
				result, err := stores[w%2].Write(t.Context(), []record.Change{
					&record.ActTool{
						RootPlanID: root, StepID: step, Seq: int64(r), ToolCallID: fmt.Sprintf("%s-t%d-%d", root, w, r),
						Name: new("tool"), State: new(record.Completed),
					},
					&record.ThinkAct{
						RootPlanID: root, StepID: step, Seq: int64(r), InputTokens: new(int64(1)), State: new(record.Completed),
					},
					&record.AgentExecution{
						RootPlanID: root, PlanID: fmt.Sprintf("%s-p%d", root, (w+r)%10), StepID: step, AgentName: new("a"),
					},
					&record.Plan{RootPlanID: root, CurrentPlanID: fmt.Sprintf("%s-p%d", root, (w+r+1)%10), Title: new("t")},
					&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)},
				})
				if err != nil || len(result.Rejected) > 0 {
					t.Errorf("writer %d: %v %v", w, result, err)
				}
			}
		})
	}
	wg.Wait()

	p := storetest.PlanTree(t, stores[0], root)
	if p.Total.ToolCalls != writers*rounds || p.Total.ModelCalls != 10*rounds || p.Total.InputTokens != 10*rounds {
		t.Errorf("total = %+v", p.Total)
	}

	var steps int
	for c := range p.Children() {
		steps += len(c.Steps)
		if *c.Record.Title != "t" {
			t.Errorf("plan %s has title %q", c.Record.CurrentPlanID, *c.Record.Title)
		}
	}
	if steps != 10 {
		t.Errorf("%d steps", steps)
	}
	if n := storetest.Query[int64](t, stores[0],
		"SELECT sum(deadlocks)::bigint FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestStatesGoForward checks that a state does not replace a more final one.
func TestStatesGoForward(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, tt := range []struct {
		states []record.State
		want   record.State
	}{
		{[]record.State{record.Running, record.Waiting, record.Running}, record.Running},
		{[]record.State{record.Completed, record.Running}, record.Completed},
		{[]record.State{record.Unknown, record.Interrupted}, record.Interrupted},
		{[]record.State{record.Interrupted, record.Unknown}, record.Interrupted},
		{[]record.State{record.Interrupted, record.Completed}, record.Completed}, // a real outcome wins, even if it is late
		{[]record.State{record.Failed, record.Completed}, record.Completed},
	} {
		root := record.NewPlanID()
		for _, state := range tt.states {
			storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: &state})
		}

		if got := *storetest.PlanTree(t, s, root).Record.State; got != tt.want {
			t.Errorf("%v: %s, want %s", tt.states, got, tt.want)
		}
	}
}

// TestHigherAttemptReopens checks that a higher attempt resets the fields of the last one, and that
// late changes of a lower attempt do not count.
func TestHigherAttemptReopens(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	write := func(a record.AgentExecution) {
		a.RootPlanID, a.PlanID = root, root
		a.StepID = root + "s"
		storetest.Write(t, s, &a)
	}

	write(record.AgentExecution{
		State: new(record.Failed), EndTime: at(9), ErrorMessage: new("broke"), Result: new("half"),
	})
	write(record.AgentExecution{Attempt: new(int64(2)), State: new(record.Running)})
	got := storetest.StepDetail(t, s, root+"s").Record
	if *got.State != record.Running || got.EndTime != nil || got.ErrorMessage != nil || *got.Result != "half" ||
		*got.Attempt != 2 {
		t.Errorf("after the second attempt began: %+v", got)
	}

	write(record.AgentExecution{Attempt: new(int64(1)), State: new(record.Failed), ErrorMessage: new("late")})
	write(record.AgentExecution{State: new(record.Cancelled), EndTime: at(20)}) // also of the first attempt
	write(record.AgentExecution{Attempt: new(int64(2)), State: new(record.Completed), EndTime: at(12)})
	got = storetest.StepDetail(t, s, root+"s").Record
	if *got.State != record.Completed || !got.EndTime.Equal(*at(12)) || got.ErrorMessage != nil {
		t.Errorf("after it ended: %+v", got)
	}
}

// TestCutTexts checks that a cut text is named as cut, that its characters were counted before, and
// that a shorter text ends both.
func TestCutTexts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	long := strings.Repeat("é", record.MaxTextBytes/2) + "é"
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: root, StepID: root + "s", Seq: 0, ThinkInput: &long, ThinkOutput: new("short"),
	})

	c := storetest.StepDetail(t, s, root+"s").Cycles[0]
	if got := *c.Record.ThinkInput; len(got) != record.MaxTextBytes || !strings.HasPrefix(long, got) {
		t.Errorf("kept %d bytes", len(got))
	}
	if !slices.Equal(c.Truncated, []string{"thinkInput"}) {
		t.Errorf("truncated = %q", c.Truncated)
	}
	if *c.Record.InputCharCount != record.MaxTextBytes/2+1 {
		t.Errorf("counted %d characters", *c.Record.InputCharCount)
	}

	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: root, StepID: root + "s", Seq: 0, ThinkInput: new("replaced"), InputCharCount: new(int64(3)),
	})
	c = storetest.StepDetail(t, s, root+"s").Cycles[0]
	if len(c.Truncated) != 0 || *c.Record.InputCharCount != 3 {
		t.Errorf("replaced: truncated = %q, %d characters", c.Truncated, *c.Record.InputCharCount)
	}
}

// TestInferredCallsAreMarked checks that a call stays marked as inferred until a change says that
// it was made.
func TestInferredCallsAreMarked(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	call := func(id string) *record.ActTool {
		return &record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: root + id, Name: new(id)}
	}

	inferred := call("a")
	inferred.Inferred = new(true)
	storetest.Write(t, s, inferred, call("b"))
	storetest.Write(t, s, call("a")) // does not set the mark
	calls := storetest.StepDetail(t, s, root+"s").Cycles[0].ToolCalls
	if len(calls) != 2 || calls[0].Record.Inferred == nil || !*calls[0].Record.Inferred ||
		calls[1].Record.Inferred != nil {
		t.Fatalf("calls = %+v", calls)
	}

	made := call("a")
	made.Inferred = new(false)
	storetest.Write(t, s, made)
	if calls = storetest.StepDetail(t, s, root+"s").Cycles[0].ToolCalls; *calls[0].Record.Inferred {
		t.Error("a call that was made is still inferred")
	}
}

// TestWriteToClosedStore checks that a write after Close returns ErrClosed.
func TestWriteToClosedStore(t *testing.T) {
	t.Parallel()
	s := openClosed(t)
	_, err := s.Write(t.Context(), []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}})
	if !errors.Is(err, record.ErrClosed) {
		t.Errorf("error = %v", err)
	}
}

// TestClockSkew checks that rows that end before they begin are accepted, because clocks differ, and
// have no duration (N27).
func TestClockSkew(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	root := record.NewPlanID()
	storetest.Write(t, s, &record.Plan{RootPlanID: root, CurrentPlanID: root, StartTime: at(9), EndTime: at(1)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "s", Seq: 0, ThinkStartTime: at(9), ThinkEndTime: at(1)})
	if p := storetest.PlanTree(t, s, root); p.Figures.DurationMs != nil || p.Figures.ThinkMs != 0 {
		t.Errorf("figures = %+v", p.Figures)
	}
}

// TestLargeWritesKeepTheirOrder checks that the changes to one row keep their order. A large write
// is split into several transactions, which may be committed in any order.
func TestLargeWritesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	text := func(n int) *string { return new(strings.Repeat("x", n)) }
	for range 8 {
		root := record.NewPlanID()
		storetest.Write(t, s,
			&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("first"), Summary: text(3_900_000)},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-s", Result: text(3_900_000)},
			&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("second"), UserRequest: text(3_000_000)})

		if got := *storetest.PlanTree(t, s, root).Record.Title; got != "second" {
			t.Fatalf("the title is that of the %s change", got)
		}
	}
}

// TestKnownRowsWereDeleted checks writes below rows that the store knows and that another server
// has deleted. They are on record, under placeholders.
func TestKnownRowsWereDeleted(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s, other := storetest.OpenURL(t, url, storetest.Patient), storetest.OpenURL(t, url)
	call := func(id string) *record.ActTool {
		return &record.ActTool{RootPlanID: "r", StepID: "s", Seq: 0, ToolCallID: id, Name: new("n")}
	}

	for _, change := range []record.Change{
		call("a"), title("r", "t"), &record.AgentExecution{RootPlanID: "r", PlanID: "r-sub", StepID: "s"},
		&record.Thought{RootPlanID: "r", PlanID: "r-sub", ThoughtID: "x"},
		&record.Wait{RootPlanID: "r", PlanID: "r", WaitID: "w"},
	} {
		// now the store knows them
		storetest.Write(t, s, call("a"), &record.AgentExecution{RootPlanID: "r", PlanID: "r-sub", StepID: "s"})
		if err := other.DeletePlan(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}

		storetest.Write(t, s, change)
		if got := *storetest.PlanTree(t, s, "r"); got.Record.CurrentPlanID != "r" {
			t.Errorf("after %T: %+v", change, got.Record)
		}
		if err := other.DeletePlan(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFiguresOfTwoWriters checks the figures of steps whose calls two servers write at once. The
// server that rolls up a step last sees the call of the other, although neither writes the step.
func TestFiguresOfTwoWriters(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	stores := []*store.Store{storetest.OpenURL(t, url, storetest.Patient), storetest.OpenURL(t, url, storetest.Patient)}
	const steps = 200
	for _, s := range stores { // now both know the steps
		var changes []record.Change
		for n := range steps {
			changes = append(changes, &record.AgentExecution{RootPlanID: "r", PlanID: "r", StepID: fmt.Sprint("s", n)})
		}
		storetest.Write(t, s, changes...)
	}

	for n := range steps {
		var wg sync.WaitGroup
		for w, s := range stores {
			wg.Go(func() {
				storetest.Write(t, s, &record.ActTool{
					RootPlanID: "r", StepID: fmt.Sprint("s", n), Seq: int64(w), ToolCallID: fmt.Sprint("t", w), Name: new("n"),
				})
			})
		}
		wg.Wait()
	}

	if wrong := storetest.Query[int](t, stores[0],
		"SELECT count(*) FROM actlog.agent_execution_record WHERE tool_calls IS DISTINCT FROM 2"); wrong > 0 {
		t.Errorf("the figures of %d of %d steps are wrong", wrong, steps)
	}
}
